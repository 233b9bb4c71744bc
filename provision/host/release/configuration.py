"""Everything of a host's boot configuration that can hold a GPU, and the edits that release it. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from checks.bdf import Bdf
from checks.snapshot import Snapshot
from provision.host import boot
from provision.host.moves import FileEdit
from provision.host.release import modprobe, udev
from provision.host.release.places import (
    DRIVER_FILE,
    MODULES_FILE,
    OWN,
    RULES_FILE,
    Place,
    in_etc,
    places,
)
from provision.host.release.target import Target
from provision.host.view import PciFunction

__all__ = ["DRIVER_FILE", "MODULES_FILE", "OWN", "RULES_FILE", "Place", "edits", "links", "places"]


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
        new = place.cleaned(target)
        if new != place.text:
            what = sorted({h.what for h in place.holders} - {h.what for h in place.left(target)})
            why = "; ".join(what) or "takes out what holds a GPU"
            found.append(_edit(snapshot, in_etc(place.path), new, why))
    found += _own(snapshot, all_places, target, kept, assigned)
    return found


def _edit(snapshot: Snapshot, path: str, text: str | None, why: str) -> FileEdit:
    present = snapshot.file(path) if ("file", path) in snapshot.sections else None
    before = hashlib.sha256(present).hexdigest() if present is not None else None
    if text is None:
        return FileEdit(path, before, b"", why, gone=True)
    return FileEdit(path, before, text.encode(errors="surrogateescape"), why)


def links(snapshot: Snapshot, all_places: Sequence[Place], target: Target) -> list[str]:
    """The files to be cleaned that are symbolic links: what they lead to belongs to somebody else."""
    return [
        place.path
        for place in all_places
        if place.path == in_etc(place.path)
        and boot.is_link(snapshot, place.path)
        and place.cleaned(target) != place.text
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
        left = place.left(target)
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
