"""Every place of a host's configuration that can hold a GPU, with what reads and what cleans its format. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from checks.snapshot import Snapshot
from provision.host import boot
from provision.host.release import cmdline, dracut, driverctl, foreign, lists, modprobe, udev
from provision.host.release.target import Holder, Target

DRIVER_FILE = "/etc/modprobe.d/kpro-gpus.conf"
RULES_FILE = "/etc/udev/rules.d/10-kpro-vfio.rules"
MODULES_FILE = "/etc/modules-load.d/kpro-vfio.conf"
OWN = (DRIVER_FILE, RULES_FILE, MODULES_FILE)
UNITS = "/etc/systemd/system/kpro-"
"""kpro's own units hand the GPUs to NVIDIA's driver: they hold none."""

_ELSEWHERE = ("/run/", "/usr/local/lib/", "/usr/lib/", "/lib/")
_UNITS = ("/etc/systemd/system/", "/usr/local/lib/systemd/system/")
_OF_PACKAGES = ("/usr/lib/systemd/system/", "/lib/systemd/system/")
_OUR_UNITS = "kpro-"
"""kpro's own units set GPUs aside that stay with virtual machines, and no others."""

_CRON = ("/etc/crontab", "/etc/cron.d/", "/var/spool/cron/crontabs/")
_RUN_AT_START = ("/etc/rc.local", "/etc/init.d/", "/etc/tmpfiles.d/", "/etc/sysfs.conf", "/etc/sysfs.d/")
_OPERATORS = "/etc/systemd/system/*.service"
_STARTED = ("/etc/systemd/system/*.wants/*", "/etc/systemd/system/*.requires/*")


@dataclass(frozen=True)
class Place:
    """A file that takes effect at boot. ``clean`` gives the text without what concerns a target, None where the file
    is to go; it is None itself where kpro edits nothing."""

    path: str
    text: str
    find: Callable[[str, str], tuple[Holder, ...]]
    clean: Callable[[str, Target], str | None] | None

    @property
    def holders(self) -> tuple[Holder, ...]:
        return self.find(self.path, self.text)

    def cleaned(self, target: Target) -> str | None:
        """The text as it is to be, None where the file goes."""
        return self.clean(self.text, target) if self.clean else self.text

    def left(self, target: Target) -> tuple[Holder, ...]:
        """What holds functions when the place is cleaned."""
        text = self.cleaned(target)
        return () if text is None else self.find(self.path, text)


def in_etc(path: str) -> str:
    """Files of packages are never edited: one of the same name in /etc takes their place."""
    for folder in _ELSEWHERE:
        if path.startswith(folder):
            return f"/etc/{path.removeprefix(folder)}"
    return path


def places(snapshot: Snapshot) -> tuple[Place, ...]:
    """All files that can hold a GPU, kpro's own left out. Raises CouldNotLook."""
    found = [*_configuration(snapshot), *_programs(snapshot)]
    return tuple(place for place in found if place.path not in OWN and not place.path.startswith(UNITS))


def _configuration(snapshot: Snapshot) -> Iterator[Place]:
    for path, text in boot.modprobe_files(snapshot).items():
        yield Place(path, text, modprobe.find, modprobe.clean)
    for path, text in boot.module_lists(snapshot).items():
        yield Place(path, text, lists.find, lists.clean)
    called = _texts(snapshot)
    for path, text in boot.udev_rules(snapshot).items():
        yield Place(path, text, partial(udev.find, called=called), partial(udev.clean, called=called))
    for path, text in boot.command_lines(snapshot).items():
        yield Place(path, text, cmdline.find, _of_path(cmdline.clean, path))
    for path, text in boot.dracut_files(snapshot).items():
        yield Place(path, text, dracut.find, _of_path(dracut.clean, path))
    for path, text in boot.driverctl(snapshot).items():
        yield Place(path, text, driverctl.find, _of_path(driverctl.clean, path))


def _texts(snapshot: Snapshot) -> dict[str, str]:
    """All files that were read, scripts among them."""
    return {
        path: (snapshot.file(path) or b"").decode(errors="surrogateescape") for path in snapshot.paths("file")
    }


def _of_path(
    clean: Callable[[str, str, Target], str | None], path: str
) -> Callable[[str, Target], str | None]:
    return lambda text, target: clean(path, text, target)


def _programs(snapshot: Snapshot) -> Iterator[Place]:
    texts = _texts(snapshot)
    snapshot.files(*_UNITS, *_OF_PACKAGES, *_RUN_AT_START, *_CRON)
    for path, text in boot.initramfs_scripts(snapshot).items():
        yield Place(path, text, foreign.script, None)
    for path, text in texts.items():
        if path.startswith((*_UNITS, *_OF_PACKAGES)) and path.endswith((".service", ".conf")):
            name = foreign.unit_name(path)
            # Packages bring units that nobody starts, and one of the same name in /etc takes their place.
            idle = path.startswith(_OF_PACKAGES) and (
                not _is_started(snapshot, name, texts) or _takes_its_place(snapshot, path, texts)
            )
            if not name.startswith(_OUR_UNITS) and not idle:
                yield Place(path, text, _unit(snapshot, path, texts), None)
        elif path.startswith(_RUN_AT_START):
            yield Place(path, text, _starter(texts, foreign.rc_local), None)
        elif path.startswith(_CRON):
            yield Place(path, text, _starter(texts, foreign.cron), None)


def _takes_its_place(snapshot: Snapshot, path: str, texts: Mapping[str, str]) -> bool:
    """Is there a unit of the same name in a folder that comes before this one's (systemd.unit(5))? A link to /dev/null
    masks it. Drop-ins of it count all the same."""
    name = path.rsplit("/", 1)[-1]
    listed = (
        (snapshot.data("names", _OPERATORS) or b"") if ("names", _OPERATORS) in snapshot.sections else b""
    )
    there = {*texts, *listed.decode(errors="surrogateescape").split("\n")}
    return name.endswith(".service") and any(f"{folder}{name}" in there for folder in _UNITS)


def _unit(
    snapshot: Snapshot, path: str, texts: Mapping[str, str]
) -> Callable[[str, str], tuple[Holder, ...]]:
    name = foreign.unit_name(path)
    enabled = _is_started(snapshot, name, texts)
    instances = _instances(_started(snapshot), name)
    return lambda path, text: foreign.unit(path, text, texts, enabled, instances)


def _starter(
    texts: Mapping[str, str], find: Callable[[str, str, Mapping[str, str]], tuple[Holder, ...]]
) -> Callable[[str, str], tuple[Holder, ...]]:
    return lambda path, text: find(path, text, texts)


def not_looked_at(snapshot: Snapshot) -> list[str]:
    """The scripts of started units whose very names tell of binding, and which could not be looked into."""
    texts = {path: (snapshot.file(path) or b"").decode(errors="replace") for path in snapshot.paths("file")}
    found = []
    for path, text in texts.items():
        name = foreign.unit_name(path)
        if (
            not path.startswith(_UNITS)
            or name.startswith(_OUR_UNITS)
            or not _is_started(snapshot, name, texts)
        ):
            continue
        for script in foreign.scripts(text):
            section = snapshot.sections.get(("file", script))
            if section is not None and section.data is None:
                why = section.error or "it is not there"
                found.append(
                    f"{path}: {name} runs {script} when the machine starts, which was not looked at: {why}"
                )
    return list(dict.fromkeys(found))


def _is_started(snapshot: Snapshot, name: str, texts: Mapping[str, str]) -> bool:
    """Does something start this unit? One without [Install] is started by others, and so may be one of a package, whose
    file is not in /etc; an instance or a link in a .wants folder starts it, and so does that of its timer. What was not
    looked at may start it."""
    if not all(("names", pattern) in snapshot.sections for pattern in _STARTED):
        return True
    own = next((texts[folder + name] for folder in _UNITS if folder + name in texts), None)
    of_package = own is None and any(folder + name in texts for folder in _OF_PACKAGES)
    if not of_package and (own is None or "[Install]" not in own):
        return True
    links = _started(snapshot)
    timers = {f"{name.removesuffix('.service')}{kind}" for kind in (".timer", ".path", ".socket")}
    if name in links or not timers.isdisjoint(links) or _instances(links, name):
        return True
    # Every machine that boots has such links: where there is none, they were not looked at.
    return not links and not of_package


def _started(snapshot: Snapshot) -> list[str]:
    """The names of all that is linked in folders of .wants and .requires."""
    found = [(snapshot.data("names", one) or b"") for one in _STARTED if ("names", one) in snapshot.sections]
    lines = [path for data in found for path in data.decode(errors="surrogateescape").split("\n") if path]
    return [path.rsplit("/", 1)[-1] for path in lines]


def _instances(links: Iterable[str], name: str) -> list[str]:
    """The instances of a template, ``vfio-bind@.service``, that are started."""
    template, mark, end = name.partition("@.")
    first = f"{template}@"
    return [
        link.removeprefix(first).removesuffix(f".{end}")
        for link in links
        if mark and link.startswith(first) and link.endswith(f".{end}") and link != name
    ]
