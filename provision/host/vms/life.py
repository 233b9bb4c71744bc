"""Whether a Proxmox virtual machine is at work: its state, the HA manager's, and reservations of devices. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from checks.snapshot import CouldNotLook, Snapshot
from provision.host.vms.address import PciAddress
from provision.host.vms.model import Status

RUN = "/run/qemu-server"
RESERVATIONS = f"{RUN}/pci-id-reservations"
RESOURCES = "/etc/pve/ha/resources.cfg"
_RESERVATION = re.compile(r"(\S+)\s+(\d+)\s+(time|pid):(\d+)\s*")


def status(snapshot: Snapshot, vmid: str) -> Status:
    """By the process of its pid file, then by ``qm status``; every word but stopped counts as running. ``unknown`` when
    neither could be looked at."""
    try:
        pid = (snapshot.text(f"{RUN}/{vmid}.pid") or "").strip()
        if pid.isdecimal() and alive(snapshot, int(pid)):
            return "running"
    except CouldNotLook:
        pass
    try:
        code, output = snapshot.command(f"qm-status-{vmid}")
    except CouldNotLook:
        return "unknown"
    match = re.search(r"^status: (\S+)", output, re.MULTILINE)
    if code != 0 or match is None:
        return "unknown"
    return "stopped" if match[1] == "stopped" else "running"


def alive(snapshot: Snapshot, pid: int) -> bool:
    """Is there such a process? Raises CouldNotLook."""
    return snapshot.file(f"/proc/{pid}/cmdline") is not None


def ha_states(text: str) -> dict[str, str]:
    """The state that the HA manager keeps each virtual machine in, by vmid: ``started`` where none is written, or its
    old name ``enabled`` (pve-ha-manager, PVE/HA/Resources.pm). One that it ignores is not there."""
    found: dict[str, str] = {}
    vmid = None
    for line in text.split("\n"):
        if header := re.fullmatch(r"(\w+):\s*(\S+)\s*", line):
            vmid = header[2] if header[1] == "vm" else None
            if vmid is not None:
                found[vmid] = "started"
        elif vmid is not None and (setting := re.fullmatch(r"\s+state\s+(\S+)\s*", line)):
            found[vmid] = "started" if setting[1] == "enabled" else setting[1]
    return {vmid: state for vmid, state in found.items() if state != "ignored"}


@dataclass(frozen=True)
class Reservation:
    """A device that a virtual machine starts or runs with. ``live`` False: left behind by one that is gone. ``why``
    says what shows it."""

    address: PciAddress
    vmid: str
    line: int
    live: bool
    why: str


def reservations(snapshot: Snapshot) -> tuple[Reservation, ...]:
    """The lines ``BDF VMID time:N`` (it starts: good until that time, in seconds since 1970) and ``BDF VMID pid:N`` (it
    runs) of qemu-server. What cannot be judged counts as live. Raises CouldNotLook when a line is none of these."""
    if ("file", RESERVATIONS) not in snapshot.sections:
        return ()
    found = []
    for number, line in enumerate((snapshot.text(RESERVATIONS) or "").split("\n"), 1):
        if not line.strip():
            continue
        match = _RESERVATION.fullmatch(line.strip())
        try:
            if match is None:
                raise ValueError
            address = PciAddress.parse(match[1])
        except ValueError:
            raise CouldNotLook(f"{RESERVATIONS}:{number} is no reservation: {line.strip()[:80]!r}") from None
        judge = _until if match[3] == "time" else _process
        live, why = judge(snapshot, int(match[4]))
        found.append(Reservation(address, match[2], number, live, why))
    return tuple(found)


def _until(snapshot: Snapshot, end: int) -> tuple[bool, str]:
    try:
        now = int(snapshot.command("date")[1].strip())
    except (CouldNotLook, ValueError):
        return True, f"it starts: reserved until {end}, and the machine's time is not known"
    if end > now:
        return True, f"it starts: reserved for another {end - now} s"
    return False, f"its start was to be done {now - end} s ago"


def _process(snapshot: Snapshot, pid: int) -> tuple[bool, str]:
    try:
        if alive(snapshot, pid):
            return True, f"process {pid} runs it"
    except CouldNotLook:
        return True, f"whether its process {pid} lives could not be looked at"
    return False, f"its process {pid} is gone"
