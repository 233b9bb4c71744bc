"""A cut-over that an earlier run began and did not see the end of: what came of it is said by the next run that takes
the machine, and its reading is kept as that run would have done."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from checks.snapshot import CouldNotLook, Snapshot
from provision.acts import cutover
from provision.host import last_run, transport
from provision.host.observe import observe
from provision.planner import Observed, settle
from provision.run import host_journal, readings
from provision.run.errors import RunError
from provision.spec import Guest, Machine
from provision.stack import held, serving, under_way
from provision.stack.desired import DesiredService
from provision.stack.trials import Trial

if TYPE_CHECKING:
    from provision.run.session import Session

LINES = 4
"""Of a cut-over without a verdict: so many of its last words are said."""


@dataclass(frozen=True)
class Left:
    """A cut-over that its run left: in which guest, of which service, whose, of which profile (empty: not known)."""

    guest: Guest
    desired: DesiredService
    run: str
    digest: str


def at_work(
    before: Observed | None, machine: Machine, services: Mapping[str, Sequence[DesiredService]]
) -> list[Left]:
    """Those that were at work when the machine was looked at first."""
    found = []
    for guest in machine.guests:
        inside = before.guests.get(guest.name) if before is not None else None
        for desired in services.get(guest.name, ()):
            with suppress(CouldNotLook):
                was = under_way.read(desired.name, inside)
                if was is not None and was.at_work:
                    found.append(Left(guest, desired, was.run, was.digest))
    return found


def unfinished(
    last: last_run.LastRun | None, machine: Machine, services: Mapping[str, Sequence[DesiredService]]
) -> list[Left]:
    """Those that the last run began and did not see the end of, by the machine's own journal."""
    begun = [one for one in last.begun if one.is_cut_over] if last is not None else []
    return [
        Left(guest, desired, last.run if last else "", one.digest)
        for guest in machine.guests
        for desired in services.get(guest.name, ())
        for one in begun
        if (one.host, one.subject) == (machine.guest_host_name(guest), desired.name)
    ]


def tell(session: Session, machine: Machine, before: Observed | None) -> None:
    """Says it, and writes it into both journals: the machine's last run is then the one that has seen the end."""
    services = session.wanted(machine).services
    found = {(left.guest.name, left.desired.name): left for left in at_work(before, machine, services)}
    try:
        last = last_run.last_run(observe(session.host(machine.host_name), [last_run.REQUEST]))
    except CouldNotLook:
        # What the machine's journal says cannot be told; the plan goes by what its guests hold.
        last = None
    for left in unfinished(last, machine, services):
        found.setdefault((left.guest.name, left.desired.name), left)
    kept = False
    for left in found.values():
        _wait(session, machine, left)
        observed = session.observed(machine)
        inside = observed.guests.get(left.guest.name)
        if inside is None:
            continue
        with suppress(CouldNotLook):
            if under_way.read(left.desired.name, inside) is None:
                kept = _tell(session, machine, left, observed, inside) or kept
    if kept:
        session.new_epoch(machine)


def _wait(session: Session, machine: Machine, left: Left) -> None:
    """Nobody carries it any more, and it goes on in its guest: nothing is decided before it has ended. Raises
    RunError."""
    inside = session.observed(machine).guests.get(left.guest.name)
    with suppress(CouldNotLook):
        now = under_way.read(left.desired.name, inside)
        if now is not None and now.at_work:
            where = machine.guest_host_name(left.guest)
            cutover.wait(session.host(where), left.desired, lambda line: session.say(f"{where}: {line}"))
            session.new_epoch(machine)


def _tell(session: Session, machine: Machine, left: Left, observed: Observed, inside: Snapshot) -> bool:
    """Was its reading kept? Raises CouldNotLook."""
    name, where = left.desired.name, machine.guest_host_name(left.guest)
    known = under_way.verdict(name, left.run, left.digest, inside)
    text = under_way.came_of(name, *known) if known else _without(session, where, left)
    session.say(f"{where}: {text}")
    with suppress(RunError, OSError):
        line = session.journal.write("earlier", guest=left.guest.name, service=name, text=text)
        host_journal.append(session.host(machine.host_name), session.id, line)
    return (
        known is not None and known[1].accepted and _keep(session, machine, left, known[1], observed, inside)
    )


def _keep(
    session: Session, machine: Machine, left: Left, verdict: Trial, observed: Observed, inside: Snapshot
) -> bool:
    """The reading of what was accepted. Raises CouldNotLook."""
    host = session.host(machine.guest_host_name(left.guest))
    for own in settle(machine, left.guest, [left.desired], observed.host, inside):
        for profile in serving.family(own):
            if profile.digest != verdict.digest:
                continue
            with suppress(OSError):
                if readings.keep(session, machine, host, profile, profile.digest, verdict.run):
                    return True
    if all(one.digest != verdict.digest for one in held.readings(left.desired.name, inside, []).values()):
        session.say(
            f"{host.name}: there is no reading of what was accepted; {left.desired.name} is measured as it runs before "
            "anything is tried against it"
        )
    return False


def _without(session: Session, where: str, left: Left) -> str:
    """One that came to no verdict: it started what was there already, or was cut off; with its own last words."""
    name = left.desired.name
    work, began = f"/run/kpro-cutover/{name}", under_way.began(name, left.run)
    look = f"grep -qsF {shlex.quote(left.run or 'unknown')} {work}/told.json && tail -n {LINES} {work}/log"
    said = ""
    with suppress(OSError, RunError):
        done = transport.run(session.host(where), look, timeout=60)
        said = "; ".join(line.strip() for line in done.text.splitlines() if line.strip()) if done.ok else ""
    if said:
        return f"{began} has ended without a verdict; its last words: {said}"
    return (
        f"{began} came to no verdict, and there are no words of its own (it did not come to start, its guest has "
        "booted since, or another one came after it): what was last seen well is in place, "
        "and this run goes on from there"
    )
