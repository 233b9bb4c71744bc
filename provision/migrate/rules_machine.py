"""What speaks against a machine as an end of a migration. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator

from checks.snapshot import CouldNotLook
from provision.data import migrating
from provision.migrate import earlier
from provision.migrate.case import Case, Rule, sure
from provision.migrate.ends import End
from provision.migrate.seen import MachineLook
from provision.plan import Refusal


def _locked(case: Case) -> Iterator[Refusal]:
    for end, seen in case.ends:
        line = sure(seen.lock)
        if line is not None and _run_of(line) != case.pair.run:
            yield Refusal(
                f"machine {end.name}",
                f"is locked by another run: {line[:300]}",
                "one hand at a time changes a machine",
                "wait for it to end, then run again",
            )


def _run_of(line: str) -> str:
    try:
        return str(json.loads(line).get("run"))
    except (ValueError, AttributeError):
        return ""


def _systemd(case: Case) -> Iterator[Refusal]:
    for end, seen in case.ends:
        if not sure(seen.systemd):
            yield Refusal(
                f"machine {end.name}",
                "has no systemd that can run a unit (systemd-run)",
                "the copy runs as a unit of its own, so that it outlives the controller"
                if end.role == "source"
                else "containers and services are started by it",
                "move from a machine with systemd, or use --cold with a backup"
                if end.role == "source"
                else "choose another target",
            )


def _clock(case: Case) -> Iterator[Refusal]:
    if case.source is None:
        return
    one, two = sure(case.source.machine.clock), sure(case.target.machine.clock)
    least = max(one.least - two.most, two.least - one.most)
    most = max(one.most - two.least, two.most - one.least)
    allowed = migrating.limit("skew")
    names = f"{case.pair.source.name} and {case.pair.target.name}"
    if least > allowed:
        ahead = case.pair.source.name if one.least > two.most else case.pair.target.name
        yield Refusal(
            f"machines {names}",
            f"their clocks differ by at least {least:.1f} s ({ahead} is ahead{_by_ntp(case)})",
            f"beyond {allowed:g} s keys with an expiry and certificates fail, and two journals tell another order",
            "set both by NTP: timedatectl set-ntp true, and look with timedatectl",
        )
    elif most > allowed:
        raise CouldNotLook(
            f"{names} answered so slowly that their clocks are known only to {most - least:.0f} s: look again when the "
            "connection is quicker"
        )


def _by_ntp(case: Case) -> str:
    off = [end.name for end, seen in case.ends if seen.ntp is False]
    return f"; NTP does not set {' and '.join(off)}" if off else ""


def _reboot(case: Case) -> Iterator[Refusal]:
    target = case.pair.target
    if case.pair.reboot or target.machine.reboot == "allowed":
        return
    for item in case.plan.items:
        if item.kind == "reboot":
            yield Refusal(
                f"machine {target.name}",
                f"has to boot, and must not: {item.text}",
                "what comes after it rests on that boot",
                'allow it (--reboot, or reboot="allowed" in the inventory), or boot it yourself first',
            )


def _plan(case: Case) -> Iterator[Refusal]:
    """The target's own refusals, with the machine's name: fit, GPUs, driver, ports, flags, drafter."""
    name = case.pair.target.name
    told = earlier.told_beside_a_plan(case)
    for one in case.plan.refusals:
        if any(word in one.seen for word in told):
            continue
        where = one.where if name in one.where else f"{name}: {one.where}"
        owner = _owner(case) if one.where.endswith(".port") else ""
        yield Refusal(where, f"{one.seen}{owner}", one.why, one.next_step)


def _owner(case: Case) -> str:
    """Who listens where the service is to: in its container or, before that runs, on the machine's own network."""
    guest, machine = case.target.guest, case.target.machine
    seen = machine.listening if guest is None else guest.listening
    found = (
        [one for one in seen if one.port == case.pair.target.service.port] if isinstance(seen, tuple) else []
    )
    return f": {found[0].owner}" if found and found[0].owner else ""


def _ids(case: Case) -> Iterator[Refusal]:
    target, seen = case.pair.target, case.target.machine
    if target.guest.backend != "pct":
        return
    known = sure(seen.ids).get(target.guest.id)
    if known is None or known == f"lxc on node {sure(seen.hostname)}":
        return
    yield Refusal(
        f"{target.name}: machine.guests[{target.machine.guests.index(target.guest)}].id",
        f"{target.guest.id} is taken: {known}",
        "a number stands for one guest in a whole Proxmox cluster",
        "choose a free number: pvesh get /cluster/nextid",
    )


def _space(end: End, seen: MachineLook) -> Iterator[Refusal]:
    state = sure(seen.state)
    least = migrating.limit("state")
    if not state.writable or not state.folder:
        yield Refusal(
            f"machine {end.name}",
            f"{state.nearest} {'cannot be written to' if state.folder else 'is no folder'}",
            f"journal and state of the migration are kept in {state.path}",
            "mount it writable, or make room for that folder",
        )
    elif state.free < least or (state.inodes is not None and state.inodes < 10):
        yield Refusal(
            f"machine {end.name}",
            f"{state.mount} has {state.free // migrating.MIB} MiB and "
            f"{'any number of' if state.inodes is None else state.inodes} inodes free",
            f"journal and state of the migration need {least / migrating.MIB:.0f} MiB and ten inodes in {state.path}",
            "make room there",
        )


def _state(case: Case) -> Iterator[Refusal]:
    for end, seen in case.ends:
        yield from _space(end, seen)


RULES = (
    Rule("locked", "another run holds one of the machines", _locked, "Kamal: lock before anything else"),
    Rule(
        "open migration",
        "a migration of this service is open on one of them, or can still go back, or gave the source up",
        earlier.refusals,
    ),
    Rule("systemd", "a machine has no systemd that runs units", _systemd),
    Rule("clock", "the clocks differ by more than 5 s", _clock, "provision/data/migrating.py"),
    Rule("reboot", "the target has to boot and must not", _reboot),
    Rule("target plan", "the target's own plan is refused: fit, GPUs, driver, ports, flags, drafter", _plan),
    Rule(
        "container id",
        "the container's number belongs to another guest of the cluster",
        _ids,
        "Proxmox: /etc/pve/.vmlist",
    ),
    Rule("state folder", "no room for journal and state file on one of the machines", _state),
)
