"""Every place of a host's configuration that can hold a GPU, with what reads and what cleans its format. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

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
    for path, text in boot.udev_rules(snapshot).items():
        yield Place(path, text, udev.find, udev.clean)
    for path, text in boot.command_lines(snapshot).items():
        yield Place(path, text, cmdline.find, _of_path(cmdline.clean, path))
    for path, text in boot.dracut_files(snapshot).items():
        yield Place(path, text, dracut.find, _of_path(dracut.clean, path))
    for path, text in boot.driverctl(snapshot).items():
        yield Place(path, text, driverctl.find, _of_path(driverctl.clean, path))


def _of_path(
    clean: Callable[[str, str, Target], str | None], path: str
) -> Callable[[str, Target], str | None]:
    return lambda text, target: clean(path, text, target)


def _programs(snapshot: Snapshot) -> Iterator[Place]:
    texts = {
        path: (snapshot.file(path) or b"").decode(errors="surrogateescape") for path in snapshot.paths("file")
    }
    snapshot.files(*_UNITS, *_OF_PACKAGES, *_RUN_AT_START, *_CRON)
    for path, text in boot.initramfs_scripts(snapshot).items():
        yield Place(path, text, foreign.script, None)
    for path, text in texts.items():
        if path.startswith((*_UNITS, *_OF_PACKAGES)) and path.endswith((".service", ".conf")):
            name = foreign.unit_name(path)
            # Packages bring units that nobody starts.
            idle = path.startswith(_OF_PACKAGES) and not _is_started(snapshot, name, texts)
            if not name.startswith(_OUR_UNITS) and not idle:
                yield Place(path, text, _unit(snapshot, path, texts), None)
        elif path.startswith(_RUN_AT_START):
            yield Place(path, text, _starter(texts, foreign.rc_local), None)
        elif path.startswith(_CRON):
            yield Place(path, text, _starter(texts, foreign.cron), None)


def _unit(
    snapshot: Snapshot, path: str, texts: Mapping[str, str]
) -> Callable[[str, str], tuple[Holder, ...]]:
    enabled = _is_started(snapshot, foreign.unit_name(path), texts)
    return lambda path, text: foreign.unit(path, text, texts, enabled)


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
    file is not in /etc; an instance or a link in a .wants folder starts it. What was not looked at may start it."""
    sections = [("names", pattern) for pattern in _STARTED]
    if not all(section in snapshot.sections for section in sections):
        return True
    own = next((texts[folder + name] for folder in _UNITS if folder + name in texts), None)
    of_package = own is None and any(folder + name in texts for folder in _OF_PACKAGES)
    if not of_package and (own is None or "[Install]" not in own):
        return True
    template, _, end = name.partition("@.")
    links = [
        path
        for kind, pattern in sections
        for path in (snapshot.data(kind, pattern) or b"").decode(errors="surrogateescape").split("\n")
        if path
    ]
    for path in links:
        started = path.rsplit("/", 1)[-1]
        if started == name or (end and started.startswith(f"{template}@") and started.endswith(end)):
            return True
    # Every machine that boots has such links: where there is none, they were not looked at.
    return not links and not of_package
