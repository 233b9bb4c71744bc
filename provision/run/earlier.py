"""A cut-over that an earlier run began and nobody waited for: what came of it is said by the run that finds its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from checks.snapshot import CouldNotLook
from provision.planner import Observed
from provision.run import host_journal
from provision.run.errors import RunError
from provision.spec import Guest, Machine
from provision.stack import under_way
from provision.stack.desired import DesiredService
from provision.stack.under_way import UnderWay

if TYPE_CHECKING:
    from provision.run.session import Session


def at_work(
    before: Observed | None, services: Mapping[str, Sequence[DesiredService]]
) -> list[tuple[str, DesiredService, UnderWay]]:
    """Guest, service and cut-over of every one that was at work when the machine was looked at."""
    found = []
    for guest, inside in before.guests.items() if before is not None else ():
        for desired in services.get(guest, ()):
            with suppress(CouldNotLook):
                was = under_way.read(desired.name, inside)
                if was is not None and was.at_work:
                    found.append((guest, desired, was))
    return found


def tell(session: Session, machine: Machine, before: Observed | None) -> None:
    """Says what came of those that were at work before this run got the machine, and writes it into both journals: the
    machine's last run is then the one that has seen the end."""
    for guest, desired, was in at_work(before, session.wanted(machine).services):
        inside = session.observed(machine).guests.get(guest)
        try:
            if under_way.read(desired.name, inside) is not None:
                continue
            text = under_way.came_of(was, desired, inside)
        except CouldNotLook:
            continue
        session.say(f"{machine.guest_host_name(_guest(machine, guest))}: {text}")
        with suppress(RunError, OSError):
            line = session.journal.write("earlier", guest=guest, service=desired.name, text=text)
            host_journal.append(session.host(machine.host_name), session.id, line)


def _guest(machine: Machine, name: str) -> Guest:
    return next(guest for guest in machine.guests if guest.name == name)
