"""The plan of a machine from what was observed: all areas' decisions, in one. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from checks.bdf import Bdf
from checks.snapshot import CouldNotLook, Snapshot
from provision.adopt import plan as adopted
from provision.assign.decide import decide as decide_assigned
from provision.assign.decide import requests as assign_requests
from provision.assign.handover import Handover
from provision.driver.archive import Prebuilt
from provision.driver.installer import Installer
from provision.guest import userspace, userspace_own
from provision.guest.decide import container_plan
from provision.guest.proxmox import plan as proxmox
from provision.host import driver, nodes, reboot, swap, users, view
from provision.host.decide import host_plan, pending
from provision.host.driver_checks import judge as driver_checks
from provision.migrate import standing
from provision.migrate.standing import Migrating
from provision.plan import Item, Plan, Refusal, Step, join
from provision.spec import Guest, Machine
from provision.stack import around, models, serving
from provision.stack import decide as stack
from provision.stack.decide import Shipped, stack_plan
from provision.stack.desired import DesiredService, settled
from provision.stack.fetching import Answers
from provision.stack.scene import scene


@dataclass(frozen=True)
class Observed:
    """One machine at one moment. A guest that cannot be entered has no snapshot (None); one that ``--limit`` left out
    is not in the mapping at all, and nothing is decided about it."""

    host: Snapshot
    guests: Mapping[str, Snapshot | None]

    def but(self, without: Collection[str]) -> Observed:
        """As if ``--limit`` had left these guests out."""
        if not without:
            return self
        return Observed(self.host, {name: one for name, one in self.guests.items() if name not in without})


@dataclass(frozen=True)
class Wanted:
    """What the controller brings: the services of each guest, the gate, uv (None where no guest has a service), and the
    drivers that it has: prebuilt ones, and installers; and what the hub said about models that are to be fetched.
    ``migrating``: the migration that asks."""

    services: Mapping[str, Sequence[DesiredService]]
    pyz: Shipped
    uv: Shipped | None
    prebuilt: Sequence[Prebuilt | Installer] = ()
    answers: Answers = field(default_factory=dict)
    migrating: Migrating = field(default_factory=Migrating)


def requests(machine: Machine, handover: Handover | None = None) -> list[str]:
    """What the snapshot of the metal has to look at, for all areas."""
    wanted = view.requests(machine)
    if machine.managed:
        wanted += [
            *driver.requests(machine),
            *reboot.requests(machine),
            *nodes.requests(machine),
            *users.REQUESTS,
            *swap.REQUESTS,
            *driver_checks.requests(machine),
            *assign_requests(machine, handover),
        ]
    wanted += [
        *userspace.host_requests(machine),
        *proxmox.requests(machine),
        *models.host_requests(machine),
        *around.host_requests(machine),
        *standing.requests(machine),
    ]
    return list(dict.fromkeys(wanted))


def guest_requests(machine: Machine, guest: Guest, services: Sequence[DesiredService]) -> list[str]:
    """What the snapshot of a guest has to look at, for all areas."""
    if not guest.managed:
        return [*adopted.requests(guest), *standing.guest_requests(guest)]
    return list(
        dict.fromkeys(
            [
                *standing.guest_requests(guest),
                *stack.requests(guest, services),
                *around.requests(guest, services),
                *userspace.guest_requests(machine, guest),
                *userspace_own.requests(machine, guest),
            ]
        )
    )


def plan_machine(
    machine: Machine, wanted: Wanted, observed: Observed, handover: Handover | None = None
) -> Plan:
    """The whole chain for one machine. GPUs that virtual machines have, by the machine's own record or with
    ``handover``, are none of its GPUs, and the guests that lack one rest."""
    given = decide_assigned(machine, observed.host, handover)
    machine, host = given.machine, given.snapshot
    metal_plan = host_plan(machine, host, wanted.prebuilt, given.reasons)
    metal = pending(metal_plan)
    moved = tuple(standing.refusals(machine, observed.host, observed.guests, wanted.migrating.run))
    parts = [
        Plan(machine.name, (), moved),
        given.plan,
        metal_plan,
        given.last,
        userspace.host_userspace_plan(machine, host),
    ]
    for guest in machine.guests:
        if guest.name not in observed.guests or guest.name in given.resting:
            continue
        inside = observed.guests[guest.name]
        if not guest.managed:
            parts.append(adopted.adopted_plan(machine, guest, host, inside))
            continue
        parts.append(container_plan(machine, guest, host, moves_nodes(machine, guest, host, metal)))
        parts.append(userspace.guest_userspace_plan(machine, guest, host, inside))
        parts.append(userspace_own.plan(machine, guest, host, inside, wanted.prebuilt))
        services = settle(machine, guest, wanted.services[guest.name], host, inside)
        parts.append(
            stack_plan(
                machine,
                guest,
                services,
                host,
                inside,
                wanted.pyz,
                wanted.uv,
                wanted.answers,
                wanted.migrating.arriving,
            )
        )
        if any(item.kind == swap.STOP and item.subject == guest.name for item in metal):
            parts.append(_again(machine, guest, services, host, inside, parts[-1]))
    return join(machine.name, parts)


def settle(
    machine: Machine,
    guest: Guest,
    services: Sequence[DesiredService],
    host: Snapshot,
    inside: Snapshot | None,
) -> tuple[DesiredService, ...]:
    """The services with what only the machine says: configs of models that lie there, what was measured."""
    return tuple(
        settled(guest, desired, lambda one: around.seen(machine, guest, one, host, inside))
        for desired in services
    )


def _again(
    machine: Machine,
    guest: Guest,
    services: Sequence[DesiredService],
    host: Snapshot,
    inside: Snapshot | None,
    stack: Plan,
) -> Plan:
    """A service whose container is stopped for another driver has to be seen generating again."""
    items = []
    for desired in services:
        try:
            items += serving.again(scene(machine, guest, desired, host, inside, ""))
        except CouldNotLook:
            # The plan of the stack says so, and is refused for it.
            continue
    return Plan(machine.name, tuple(item for item in items if item.id not in stack.ids))


def moves_nodes(
    machine: Machine, guest: Guest, snapshot: Snapshot, metal: Sequence[Item]
) -> tuple[Item, ...]:
    """The items of the metal after which the device nodes of this guest may be others. What is written for the next
    boot moves none; and while the pinned driver stays loaded, neither does another GPU that comes to it or goes."""
    found = tuple(item for item in metal if item.kind not in _NEXT_BOOT)
    stays = {item.kind for item in found} <= _OTHERS and view.is_pinned(machine, snapshot)
    minors = view.minors(snapshot)
    return () if stays and all(Bdf.parse(bdf) in minors for bdf in guest.gpus) else found


_NEXT_BOOT = frozenset(
    {
        "release.files",
        "release.regenerate",
        "nodes.unit",
        "kernel.hold",
        "kernel.release",
        "driver.repository",
        "driver.hold",
    }
)
_OTHERS = frozenset({"release.online", "driver.install", "driver.load", "nodes.make"})


def restrict(plan: Plan, phases: Sequence[str], hosts: Sequence[str]) -> Plan:
    """The part of a plan that was asked for. It is refused while something that it rests on is left out: an earlier
    step on the same host, or on the machine of a guest."""
    kept = plan.limited(phases, hosts)
    refusals = [*kept.refusals, *_left_asleep(plan, kept)]
    missing = [item for item in plan.items if item not in kept.items and _carries(item, kept)]
    if missing:
        refusals.append(
            Refusal(
                f"machine {plan.machine}",
                f"{len(missing)} change(s) come first: " + "; ".join(item.text for item in missing),
                "what was asked for rests on them",
                "leave out --phases and --limit, or name what comes first too",
            )
        )
    return Plan(plan.machine, kept.items, tuple(refusals), kept.notes)


def _left_asleep(plan: Plan, kept: Plan) -> list[Refusal]:
    """A guest that is stopped for another driver is brought back into service by the same run."""
    return [
        Refusal(
            f"machine {plan.machine}",
            stop.text,
            "what was asked for leaves out what brings it back into service",
            "leave out --phases and --limit",
        )
        for stop in kept.items
        if stop.kind == swap.STOP and not _brings_back(plan, kept, stop)
    ]


def _brings_back(plan: Plan, kept: Plan, stop: Item) -> bool:
    """Is the guest started again, and is nothing of it left out?"""
    its = [item for item in plan.items if item.step >= Step.CONTAINER and _is_of(item, stop)]
    return any(item.kind == "container.start" for item in its) and all(item in kept.items for item in its)


def _is_of(item: Item, stop: Item) -> bool:
    if item.host == stop.host:
        return item.subject == stop.subject
    return item.host == f"@guest/{stop.host}/{stop.subject}"


def _carries(item: Item, kept: Plan) -> bool:
    return any(
        item.step < other.step and (item.host == other.host or other.host.startswith(f"@guest/{item.host}/"))
        for other in kept.items
    )
