"""The plan of a machine from what was observed: all areas' decisions, in one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from checks.snapshot import Snapshot
from provision.driver.archive import Prebuilt
from provision.guest import userspace
from provision.guest.decide import container_plan
from provision.host import driver, nodes, reboot, view
from provision.host.decide import host_plan, pending
from provision.host.driver_checks import judge as driver_checks
from provision.plan import Item, Plan, Refusal, join
from provision.spec import Guest, Machine
from provision.stack import decide as stack
from provision.stack.decide import Shipped, stack_plan
from provision.stack.desired import DesiredService


@dataclass(frozen=True)
class Observed:
    """One machine at one moment. A guest that cannot be entered has no snapshot (None); one that ``--limit`` left out
    is not in the mapping at all, and nothing is decided about it."""

    host: Snapshot
    guests: Mapping[str, Snapshot | None]


@dataclass(frozen=True)
class Wanted:
    """What the controller brings: the services of each guest, the gate, uv (None where no guest has a service), and the
    drivers that it has prebuilt."""

    services: Mapping[str, Sequence[DesiredService]]
    pyz: Shipped
    uv: Shipped | None
    prebuilt: Sequence[Prebuilt] = ()


def requests(machine: Machine) -> list[str]:
    """What the snapshot of the metal has to look at, for all areas."""
    wanted = view.requests(machine)
    if machine.managed:
        wanted += [*driver.requests(machine), *reboot.requests(machine), *nodes.requests(machine)]
        wanted += driver_checks.requests(machine)
    wanted += userspace.host_requests(machine)
    return list(dict.fromkeys(wanted))


def guest_requests(machine: Machine, guest: Guest, services: Sequence[DesiredService]) -> list[str]:
    """What the snapshot of a guest has to look at, for all areas."""
    return list(dict.fromkeys([*stack.requests(services), *userspace.guest_requests(machine, guest)]))


def plan_machine(machine: Machine, wanted: Wanted, observed: Observed) -> Plan:
    """The whole chain for one machine."""
    metal_plan = host_plan(machine, observed.host, wanted.prebuilt)
    metal = pending(metal_plan)
    parts = [metal_plan, userspace.host_userspace_plan(machine, observed.host)]
    for guest in machine.guests:
        if guest.name not in observed.guests:
            continue
        inside = observed.guests[guest.name]
        parts.append(container_plan(machine, guest, observed.host, metal))
        parts.append(userspace.guest_userspace_plan(machine, guest, observed.host, inside))
        parts.append(
            stack_plan(
                machine,
                guest,
                wanted.services[guest.name],
                observed.host,
                inside,
                wanted.pyz,
                wanted.uv,
            )
        )
    return join(machine.name, parts)


def restrict(plan: Plan, phases: Sequence[str], hosts: Sequence[str]) -> Plan:
    """The part of a plan that was asked for. It is refused while something that it rests on is left out: an earlier
    step on the same host, or on the machine of a guest."""
    kept = plan.limited(phases, hosts)
    missing = [item for item in plan.items if item not in kept.items and _carries(item, kept)]
    if not missing:
        return kept
    refusal = Refusal(
        f"machine {plan.machine}",
        f"{len(missing)} change(s) come first: " + "; ".join(item.text for item in missing),
        "what was asked for rests on them",
        "leave out --phases and --limit, or name what comes first too",
    )
    return Plan(plan.machine, kept.items, (*kept.refusals, refusal), kept.notes)


def _carries(item: Item, kept: Plan) -> bool:
    return any(
        item.step < other.step and (item.host == other.host or other.host.startswith(f"@guest/{item.host}/"))
        for other in kept.items
    )
