"""Everything of a host's boot configuration that can hold a GPU, and the edits that release it. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from checks.bdf import Bdf
from checks.snapshot import Snapshot
from provision.host import boot
from provision.host.moves import FileEdit
from provision.host.release import cmdline, foreign, lists, modprobe, udev
from provision.host.release.target import Holder, Target
from provision.host.view import PciFunction

DRIVER_FILE = "/etc/modprobe.d/kpro-gpus.conf"
RULES_FILE = "/etc/udev/rules.d/10-kpro-vfio.rules"
MODULES_FILE = "/etc/modules-load.d/kpro-vfio.conf"
OWN = (DRIVER_FILE, RULES_FILE, MODULES_FILE)

_ELSEWHERE = ("/run/", "/usr/local/lib/", "/usr/lib/")


@dataclass(frozen=True)
class Place:
    """A file that takes effect at boot, with what reads and what cleans its format."""

    path: str
    text: str
    find: Callable[[str, str], tuple[Holder, ...]]
    clean: Callable[[str, Target], str] | None

    @property
    def holders(self) -> tuple[Holder, ...]:
        return self.find(self.path, self.text)


def places(snapshot: Snapshot) -> tuple[Place, ...]:
    """All files that can hold a GPU, kpro's own left out."""
    found = [
        Place(path, text, modprobe.find, modprobe.clean)
        for path, text in boot.modprobe_files(snapshot).items()
    ]
    found += [
        Place(path, text, lists.find, lists.clean) for path, text in boot.module_lists(snapshot).items()
    ]
    found += [Place(path, text, udev.find, udev.clean) for path, text in boot.udev_rules(snapshot).items()]
    for path, text in boot.command_lines(snapshot).items():
        found.append(Place(path, text, cmdline.find, _cmdline(path)))
    found += [Place(path, text, foreign.driverctl, None) for path, text in boot.driverctl(snapshot).items()]
    found += [
        Place(path, text, foreign.script, None) for path, text in boot.initramfs_scripts(snapshot).items()
    ]
    return tuple(place for place in found if place.path not in OWN)


def _cmdline(path: str) -> Callable[[str, Target], str]:
    return lambda text, target: cmdline.clean(path, text, target)


def edits(
    snapshot: Snapshot,
    all_places: Sequence[Place],
    target: Target,
    kept: Sequence[PciFunction],
    assigned: Sequence[PciFunction] = (),
) -> list[FileEdit]:
    """The files as they are to be: others cleaned of what concerns the target, kpro's own with what stays. ``assigned``
    are those of the kept functions that kpro itself binds from now on."""
    found = []
    for place in all_places:
        new = place.clean(place.text, target) if place.clean else place.text
        if new != place.text:
            what = sorted(
                {holder.what for holder in place.holders} - {h.what for h in place.find(place.path, new)}
            )
            found.append(
                _edit(snapshot, _in_etc(place.path), new, "; ".join(what) or "takes out what holds a GPU")
            )
    found += _own(snapshot, all_places, target, kept, assigned)
    return found


def _in_etc(path: str) -> str:
    """Files of packages are never edited: one of the same name in /etc takes their place."""
    for folder in _ELSEWHERE:
        if path.startswith(folder):
            return f"/etc/{path.removeprefix(folder)}"
    return path


def _edit(snapshot: Snapshot, path: str, text: str, why: str) -> FileEdit:
    present = snapshot.file(path) if ("file", path) in snapshot.sections else None
    before = hashlib.sha256(present).hexdigest() if present is not None else None
    return FileEdit(path, before, text.encode(errors="surrogateescape"), why)


def links(snapshot: Snapshot, all_places: Sequence[Place], target: Target) -> list[str]:
    """The files to be cleaned that are symbolic links: what they lead to belongs to somebody else."""
    return [
        place.path
        for place in all_places
        if place.clean
        and place.path == _in_etc(place.path)
        and boot.is_link(snapshot, place.path)
        and place.clean(place.text, target) != place.text
    ]


def _own(
    snapshot: Snapshot,
    all_places: Sequence[Place],
    target: Target,
    kept: Sequence[PciFunction],
    assigned: Sequence[PciFunction],
) -> list[FileEdit]:
    """kpro's own files, where they are not yet as they are to be."""
    wanted: dict[str, tuple[str, str]] = {}
    blocked = any(
        modprobe.keeps_away("nouveau", place.text) for place in all_places if place.find is modprobe.find
    )
    present = {
        path: boot.text_of(snapshot, path) if ("file", path) in snapshot.sections else None for path in OWN
    }
    if kept or not blocked or present[DRIVER_FILE] is not None:
        wanted[DRIVER_FILE] = (
            _driver_file(bool(kept)),
            "keeps nouveau away"
            + (", and nvidia until kpro-devices.service has set the kept GPUs aside" if kept else ""),
        )
    bound = _losing(all_places, target, kept) | (_bound_before(present[RULES_FILE]) & {f.bdf for f in kept})
    bound |= {function.bdf for function in assigned}
    if bound or present[RULES_FILE] is not None:
        wanted[RULES_FILE] = _rules_file(bound), "keeps the other GPUs on vfio-pci, by address"
    if bound or present[MODULES_FILE] is not None:
        text = "# Written by kpro: loads the driver that 10-kpro-vfio.rules names.\n" + (
            "vfio-pci\n" if bound else ""
        )
        wanted[MODULES_FILE] = text, "loads vfio-pci for the GPUs that are kept"
    return [_edit(snapshot, path, text, why) for path, (text, why) in wanted.items() if present[path] != text]


def _driver_file(keeping: bool) -> str:
    lines = [
        "# Written by kpro. nouveau would take the GPUs before NVIDIA's driver does.",
        "blacklist nouveau",
        "options nouveau modeset=0",
    ]
    if keeping:
        lines += [
            "# Some GPUs stay with virtual machines: kpro-devices.service sets them aside, then loads nvidia itself.",
            *(f"blacklist {name}" for name in ("nvidia", "nvidia-current", "nvidia-current-open")),
        ]
    return "\n".join(lines) + "\n"


def _losing(all_places: Sequence[Place], target: Target, kept: Sequence[PciFunction]) -> set[Bdf]:
    """The kept functions that a place binds now and no longer once it is cleaned."""
    lost = set()
    for place in all_places:
        left = place.find(place.path, place.clean(place.text, target)) if place.clean else place.holders
        lost |= {
            function.bdf
            for function in kept
            if any(holder.holds(function) for holder in place.holders)
            and not any(holder.holds(function) for holder in left)
        }
    return lost


def _bound_before(text: str | None) -> set[Bdf]:
    return {
        Bdf.parse(value)
        for rule in udev.rules(text or "")
        for key, _, operator, value in rule.tokens
        if key == "KERNEL" and operator == "=="
    }


def _rules_file(bound: set[Bdf]) -> str:
    lines = ["# Written by kpro: GPUs of this machine that stay with virtual machines, by address."]
    lines += [
        f'ACTION=="add", SUBSYSTEM=="pci", KERNEL=="{bdf}", ATTR{{driver_override}}="vfio-pci"'
        for bdf in sorted(bound)
    ]
    return "\n".join(lines) + "\n"
