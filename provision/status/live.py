"""``provision status INVENTORY``: each machine over a connection of its own: one that is down hides no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from checks.snapshot import CouldNotLook
from provision import inventory as inventories
from provision.host.observe import observe
from provision.inventory.here import as_far_as_here, lacking
from provision.plan import PHASES
from provision.planner import settle
from provision.printable import say_on_stderr
from provision.run import runner
from provision.run.commands import Answer, finish
from provision.run.errors import EXIT_DONE, EXIT_ERROR, RunError
from provision.run.lock import describe
from provision.spec import Machine
from provision.status import looks, verdicts
from provision.status.state import Status, status_of, unreachable


def status(inventory: str, limit: Sequence[str], as_json: bool) -> int:
    """The exit code: 0 looked, 1 when a machine could not be looked at, 2 for a bad inventory."""
    return finish(lambda: _status(inventory, limit, as_json), "status", as_json)


def _status(inventory: str, limit: Sequence[str], as_json: bool) -> Answer:
    loaded = inventories.load(inventory, limit, files="reach")
    chosen = loaded.selected(limit)
    found = []
    down = False
    for machine in chosen.machines:
        hosts = [
            name
            for name in (machine.host_name, *(machine.guest_host_name(guest) for guest in machine.guests))
            if name in chosen.host_names
        ]
        try:
            found.append(_of(loaded.path, machine, hosts, inventory))
        except RunError as error:
            down = True
            if as_json:
                say_on_stderr(error.told)
            found.append(unreachable(machine, str(error)))
    if not as_json:
        from provision.status.show import show

        show(found, [verdicts.last_verdicts(machine) for machine in chosen.machines])
    documents = [
        {**one.as_dict(), "last_verdicts": verdicts.last_verdicts(machine)}
        for one, machine in zip(found, chosen.machines, strict=True)
    ]
    return Answer(EXIT_ERROR if down else EXIT_DONE, {"machines": documents})


def _of(path: Path, whole: Machine, hosts: Sequence[str], inventory: str) -> Status:
    """What this controller has no files for is shown as far as the machine itself tells it, and not judged."""
    machine, lacks = as_far_as_here(whole), lacking(whole)
    with runner.connected(
        path,
        limit=hosts,
        phases=PHASES,
        reason=f"status {inventory}",
        say=say_on_stderr,
        machines={machine.name: machine},
    ) as run:
        plan = run.session.plan(machine, lacks)
        host = run.session.host(machine.host_name)
        beside = observe(host, list(looks.REQUESTS))
        try:
            wrote = looks.written(looks.changes(beside), [guest.id for guest in machine.guests])
            digests = observe(host, looks.drift_requests(wrote))
        except CouldNotLook:
            wrote, digests = {}, None
        reasons = verdicts.reasons({change.run for change in wrote.values()})
        observed = run.session.observed(machine)
        services = {
            guest.name: settle(
                machine,
                guest,
                run.session.wanted(machine).services[guest.name],
                observed.host,
                observed.guests.get(guest.name),
            )
            for guest in machine.guests
            if guest.name not in lacks
        }
        status = status_of(machine, plan, observed, beside, digests, reasons, services, lacks)
    held = status.locked_by
    return replace(status, locked_by=describe(held)) if held not in (None, "unknown") else status
