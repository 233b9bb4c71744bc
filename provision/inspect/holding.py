"""Which places of the configuration hold which function, and which kinds of places were looked at. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checks.bdf import Bdf
from checks.snapshot import CouldNotLook, Section, Snapshot
from provision.host.release import cmdline, configuration
from provision.host.release import places as release_places
from provision.host.release.target import Holder, nothing
from provision.inspect import grub_commands
from provision.inspect.functions import Function
from provision.inspect.look import Look
from provision.inspect.report import EDITED, Finding, Held

RUNNING = "/proc/cmdline"
_IDS = re.compile(r"\bids=(\S+)")
_ADDRESS = re.compile(r"\b[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7]\b")

# what is configured there -> any of these in the tree means that it was looked at
_PLACES = (
    ("modprobe.d", ("/etc/modprobe.d",)),
    ("lists of modules", ("/etc/modules", "/etc/modules-load.d")),
    ("initramfs-tools", ("/etc/initramfs-tools",)),
    ("dracut", ("/etc/dracut.conf.d",)),
    ("udev rules", ("/etc/udev/rules.d",)),
    ("driverctl", ("/etc/driverctl.d",)),
    ("systemd units", ("/etc/systemd/system",)),
    ("running command line", ("/proc/cmdline",)),
    ("configured command line", ("/etc/default/grub", "/etc/kernel/cmdline", "/etc/default/grub.d")),
    ("virtual machines of Proxmox", ("/etc/pve/qemu-server", "/etc/pve/nodes")),
    ("virtual machines of libvirt", ("/etc/libvirt/qemu",)),
)


_CONFIGURED = re.compile(
    r"/(?:etc|run|lib|usr/lib|usr/local/lib)/(?:modprobe\.d|modules-load\.d|udev/rules\.d)(?:/.*)?"
    r"|/etc/(?:modules|rc\.local|crontab|dracut\.conf|kernel/cmdline|default/grub)"
    r"|/etc/(?:initramfs-tools|dracut\.conf\.d|driverctl\.d|default/grub\.d|systemd/system|cron\.d|init\.d"
    r"|tmpfiles\.d|sysfs\.d)(?:/.*)?"
    r"|/(?:usr/)?lib/systemd/system/.*|/etc/sysfs\.conf|/proc/cmdline|/usr/(?:share/initramfs-tools|lib/dracut|local)/.*|/var/spool/cron/.*"
    r"|/(?:root|opt|home|srv)/.*"
)
"""Files that can hold a GPU at a boot, and the scripts that such a file may call."""


def not_looked_at(look: Look) -> tuple[str, ...]:
    """The kinds of places that a recorded tree says nothing about."""
    return tuple(
        name
        for name, paths in _PLACES
        if not any(_there(look, path) or look.is_absent(path) for path in paths)
    )


def _there(look: Look, path: str) -> bool:
    for kind in ("file", "dir"):
        section = look.snapshot.sections.get((kind, path))
        if section is not None and section.data is not None:
            return True
    return False


@dataclass(frozen=True)
class Found:
    """Every place that holds functions or keeps NVIDIA's driver away, the running command line too; ``unread`` are the
    files and folders that are there and could not be read."""

    holders: tuple[Holder, ...]
    unread: tuple[str, ...]


def _unreadable(snapshot: Snapshot, key: tuple[str, str]) -> str | None:
    """Why a file or a folder that is there cannot be read, None where it can: bytes that are no text are not read."""
    error = snapshot.sections[key].error
    if error is not None or key[0] != "file":
        return error
    try:
        snapshot.plain(key[1])
    except CouldNotLook as why:
        return str(why).removeprefix(f"{key[1]} is ").removeprefix(f"{key[1]}: ")
    return None


def holders(look: Look) -> Found:
    """Place by place: one that cannot be read takes none of the others away."""
    found: list[Holder] = []
    sections = look.snapshot.sections
    errors = {
        key: why
        for key in sections
        if key[0] in ("file", "dir", "names") and _CONFIGURED.fullmatch(key[1])
        if (why := _unreadable(look.snapshot, key)) is not None
    }
    for (_, path), error in errors.items():
        look.unknown.setdefault(f"holders in {path}", error)
    unread = [path for _, path in errors]
    readable = Snapshot({**sections, **{key: Section(*key, None) for key in errors}})
    places = look.attempt("holders", lambda: configuration.places(readable))
    if places is None:
        unread.append("the configuration of the boot")
    scripts = look.attempt("scripts of units", lambda: release_places.not_looked_at(readable)) or ()
    unread += scripts
    for place in places or ():
        held = look.attempt(f"holders in {place.path}", lambda place=place: place.holders)  # type: ignore[misc]
        if held is None:
            unread.append(place.path)
        found += held or ()
    unread += [f"{where}: {command}" for where, command in grub_commands.not_followed(look.snapshot)]
    if not any(holder.path == RUNNING for holder in found):
        try:
            running = look.snapshot.text(RUNNING)
        except CouldNotLook:
            running = None
        found += cmdline.find(RUNNING, running) if running else ()
    return Found(tuple(found), tuple(dict.fromkeys(unread)))


def held(holder: Holder, everything: Sequence[Function] | None) -> Held:
    """The holder with the functions of this machine that it binds; None: those are not known."""
    answers = [(function, takes_it(holder, function)) for function in everything or ()]
    known = everything is not None and all(answer is not None for _, answer in answers)
    takes = tuple(str(function.bdf) for function, answer in answers if answer)
    instead = holder.instead
    override = re.fullmatch(r"/etc/driverctl\.d/pci-(\S+)", holder.path)
    if instead is None and override:
        instead = f"{EDITED}; by hand: driverctl unset-override {override[1]}"
    if instead is None and holder.path == RUNNING:
        instead = (
            "take it out of the configured command line; until the next boot a driver_override wins over it, when "
            "vfio-pci is a module"
        )
    return Held(
        holder.path, holder.line, holder.text, holder.what, takes if known else None, acts_on(holder), instead
    )


def acts_on(holder: Holder) -> tuple[str, ...]:
    """The ids and addresses that the place names."""
    found = [one for ids in _IDS.findall(holder.text) for one in ids.strip("\"'").split(",") if ":" in one]
    for place in (holder.text, holder.path):
        found += [str(Bdf.parse(one)) for one in _ADDRESS.findall(place)]
    return tuple(dict.fromkeys(found))


def takes_it(holder: Holder, function: Function) -> bool | None:
    """Does the place bind this function? None where its ids are needed for the answer and are not known."""
    try:
        return holder.holds(function.as_pci())
    except ValueError:
        return None


def of_gpu(all_holders: Sequence[Holder], gpu: Function, parts: Sequence[Function]) -> tuple[Held, ...]:
    """What holds the GPU or a function of its slot, or keeps the driver away from every GPU."""
    mine = [gpu, *(part for part in parts if part.slot == gpu.slot)]
    found = []
    for holder in all_holders:
        answers = [takes_it(holder, function) for function in mine]
        if holder.holds is nothing or any(answer is not False for answer in answers):
            found.append(held(holder, mine))
    return tuple(found)


def findings(all_holders: Sequence[Holder]) -> Iterator[Finding]:
    """What an operator should know of the places beside what they hold."""
    for holder in all_holders:
        ids = re.search(r"\bids=(\S+)", holder.text)
        if ids and holder.holds is not nothing:
            yield Finding(
                "holder.ids",
                "note",
                f"{holder.path}:{holder.line}",
                holder.text.strip(),
                "ids take every function of that kind, whatever its slot: identical cards cannot be told apart by "
                "them, and a sound function's id is the same on all boards with its chip",
                "where some of the cards are to stay with virtual machines, bind those by address (a udev rule, "
                "driverctl)",
                "kernel, Documentation/driver-api/vfio.rst; drivers/vfio/pci/vfio_pci.c",
            )
