"""Can a container be made as the spec says: is its template on the machine, and the storage for its root? Pure.

``pct create`` finds out too, but in step 6, after the machine's driver was changed for it.
"""

from __future__ import annotations

from checks.snapshot import CouldNotLook, Snapshot
from provision.guest.proxmox import storage
from provision.plan import Refusal
from provision.spec import Guest

ALWAYS = "local"
"""Proxmox has it whether storage.cfg says so or not (PVE::Storage::Plugin, parse_config)."""


def requests(guest: Guest) -> list[str]:
    if guest.proxmox is None:
        return []
    place = guest.proxmox.template.split(":")[0]
    return [f"cmd:{_listing(place)}:pveam list {place}"]


def _listing(place: str) -> str:
    return f"pveam-list-{place}"


def missing(guest: Guest, snapshot: Snapshot, where: str) -> tuple[list[Refusal], list[str]]:
    """What is known not to be there is refused; what cannot be told is noted, and ``pct create`` will say."""
    if guest.proxmox is None:
        return [], []
    refusals: list[Refusal] = []
    notes: list[str] = []
    _root(guest.proxmox.storage, snapshot, f"{where}.proxmox.storage", refusals)
    _template(guest.proxmox.template, snapshot, f"{where}.proxmox.template", refusals, notes)
    return refusals, [f"{guest.name}: {note}" for note in notes]


def _root(wanted: str, snapshot: Snapshot, where: str, refusals: list[Refusal]) -> None:
    try:
        text = snapshot.text(storage.FILE)
    except CouldNotLook:
        text = None
    known = {one.id: one for one in storage.storages(text or "")}
    if not known:
        return
    found = known.get(wanted)
    fit = sorted(one.id for one in known.values() if one.content is None or "rootdir" in one.content)
    step = f"choose one that has containers: {', '.join(fit) or 'none of them does'}"
    if found is None and wanted != ALWAYS:
        seen = f"{storage.FILE} has no storage {wanted}"
        refusals.append(Refusal(where, seen, "the container's root file system would come on it", step))
    elif found is not None and found.content is not None and "rootdir" not in found.content:
        seen = f"storage {wanted} is for {', '.join(sorted(found.content)) or 'nothing'}"
        step = f"{step}; or: pvesm set {wanted} --content {','.join(sorted({*found.content, 'rootdir'}))}"
        refusals.append(Refusal(where, seen, "Proxmox puts no root file system (rootdir) on it", step))


def _template(wanted: str, snapshot: Snapshot, where: str, refusals: list[Refusal], notes: list[str]) -> None:
    place, _, file = wanted.partition(":")
    try:
        code, output = snapshot.command(_listing(place))
    except CouldNotLook:
        notes.append(f"whether {wanted} is on the machine was not looked at; pct create says")
        return
    there = [line.split()[0] for line in output.splitlines() if line.startswith(f"{place}:")]
    if wanted in there:
        return
    if code and "does not exist" not in output:
        said = " ".join(output.split())[:120]
        notes.append(
            f"pveam list {place} ended with {code} ({said}); pct create says whether {wanted} is there"
        )
        return
    have = f"it has {', '.join(there)}" if there else f"storage {place} has none"
    name = file.removeprefix("vztmpl/")
    refusals.append(
        Refusal(
            where,
            f"template {wanted} is not on the machine; {have}",
            "the container is made from it",
            f"pveam download {place} {name} (pveam available --section system lists them), or name one of those",
        )
    )
