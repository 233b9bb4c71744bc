"""One look at a machine and at its guests that run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from checks.snapshot import CouldNotLook
from provision.host import view
from provision.host.observe import observe
from provision.planner import Observed, guest_requests, requests
from provision.spec import Machine

if TYPE_CHECKING:
    from provision.run.session import Session


def look(session: Session, machine: Machine) -> Observed:
    """What the machine and its guests look like now, as far as the run's limit goes. Raises RunError."""
    asked = requests(machine, session.handovers.get(machine.name))
    host = observe(session.host(machine.host_name), asked)
    session.exchange.saw(machine, host)
    wanted, scope = session.wanted(machine), session.hosts_in_limit(machine)
    guests = {}
    for guest in machine.guests:
        name = machine.guest_host_name(guest)
        if name not in scope and machine.host_name not in scope:
            continue
        try:
            running = view.guest_state(host, guest) == "running"
        except CouldNotLook:
            running = False
        guests[guest.name] = (
            observe(session.host(name), guest_requests(machine, guest, wanted.services[guest.name]))
            if running
            # Its files are as they were when this run stopped it.
            else session.exchange.inside(name)
        )
    return Observed(host, guests)
