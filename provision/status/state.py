"""Where a machine stands: from its plan and what was looked at beside. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeVar

from checks.snapshot import CouldNotLook, Snapshot
from provision.host import last_run, reboot, view
from provision.migrate import standing
from provision.plan import Plan
from provision.planner import Observed
from provision.spec import Guest, Machine, Service
from provision.stack.desired import DesiredService
from provision.status import adopted, cut_over, looks, serving

UNKNOWN = "unknown"
T = TypeVar("T")
S = TypeVar("S")


@dataclass(frozen=True)
class Status:
    """``state``: ``in sync``, ``pending`` (a plan has something to do), ``refused`` (a plan would be), ``unknown`` (a
    machine that could not be looked at, or guests that could not be judged)."""

    machine: str
    state: Literal["in sync", "pending", "refused", "unknown"]
    pending: tuple[str, ...]
    refusals: tuple[str, ...]
    driver: str
    kernel: str
    guests: tuple[Mapping[str, Any], ...]
    last_run: Mapping[str, Any] | str | None
    drift: Sequence[Mapping[str, str]] | str
    reboot: tuple[str, ...]
    waits_for_confirmation: str | None
    locked_by: str | None
    unknown: Mapping[str, str]
    migrations: tuple[Mapping[str, Any], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {
            "machine": self.machine,
            "state": self.state,
            "pending": list(self.pending),
            "refusals": list(self.refusals),
            "driver": self.driver,
            "kernel": self.kernel,
            "guests": [dict(guest) for guest in self.guests],
            "last_run": self.last_run,
            "drift": self.drift if isinstance(self.drift, str) else [dict(one) for one in self.drift],
            "reboot_pending": list(self.reboot),
            "waits_for_confirmation": self.waits_for_confirmation,
            "locked_by": self.locked_by,
            "unknown": dict(self.unknown),
            "migrations": [dict(one) for one in self.migrations],
        }


def unreachable(machine: Machine, why: str) -> Status:
    """A machine that could not be looked at at all."""
    return Status(
        machine.name,
        "unknown",
        (),
        (),
        UNKNOWN,
        UNKNOWN,
        (),
        UNKNOWN,
        UNKNOWN,
        (),
        None,
        UNKNOWN,
        {"machine": why},
    )


def status_of(
    machine: Machine,
    plan: Plan,
    observed: Observed,
    beside: Snapshot,
    digests: Snapshot | None,
    reasons: Mapping[str, str],
    services: Mapping[str, Sequence[DesiredService]] | None = None,
    lacks: Mapping[str, Sequence[str]] | None = None,
) -> Status:
    """``beside``: the answer to ``looks.REQUESTS``; ``digests``: that to ``looks.drift_requests``; ``reasons``: what
    runs were for, by their id; ``services``: kpro's own, by the name of their guest, as they should be; ``lacks``: why
    the plan decided nothing of a guest, by its name."""
    unknown = {
        f"whether {name} is as the inventory says": _not_here(why) for name, why in (lacks or {}).items()
    }

    def ask(what: str, read: Callable[[], T], otherwise: S) -> T | S:
        try:
            return read()
        except (CouldNotLook, ValueError) as error:
            unknown.setdefault(what, str(error))
            return otherwise

    host = observed.host
    kernel = ask("kernel", lambda: _kernel(host), UNKNOWN)
    driver = ask("driver", lambda: _driver(host), UNKNOWN)
    guests = tuple(
        _guest(guest, observed, (services or {}).get(guest.name, ()), unknown) for guest in machine.guests
    )
    run = ask("last run", lambda: last_run.last_run(beside), UNKNOWN)
    own = [guest.id for guest in machine.guests]
    wrote = ask("files of kpro", lambda: looks.written(looks.changes(beside), own), None)
    armed = ask("confirmation", lambda: _armed(host), UNKNOWN)
    return Status(
        machine.name,
        "refused" if plan.refusals else "pending" if plan.items else "unknown" if lacks else "in sync",
        cut_over.pending(plan.items, guests),
        tuple(map(str, plan.refusals)),
        driver,
        kernel,
        guests,
        cut_over.ended(run, guests).as_dict() if isinstance(run, last_run.LastRun) else run,
        UNKNOWN if wrote is None or digests is None else looks.drift(digests, wrote, reasons),
        tuple(item.text for item in plan.items if item.kind == "reboot"),
        armed,
        ask("lock", lambda: looks.lock_holder(beside), UNKNOWN),
        unknown,
        ask("migrations", lambda: tuple(map(asdict, standing.records(machine, host))), ()),
    )


def _not_here(why: Sequence[str]) -> str:
    return f"this controller lacks what it would be held against: {'; '.join(why)}"


def _kernel(host: Snapshot) -> str:
    code, output = host.command("uname-r")
    if code != 0 or not output.strip():
        raise CouldNotLook("uname -r gave nothing")
    return output.strip()


def _driver(host: Snapshot) -> str:
    found = view.driver(host)
    return f"{found[0]} ({found[1]})" if found else "none"


def _armed(host: Snapshot) -> str | None:
    """The run whose boot waits to be confirmed: the machine takes it back by itself otherwise."""
    if ("file", reboot.ARM) not in host.sections:
        return None
    text = host.text(reboot.ARM)
    if text is None:
        return None
    run = re.search(r'"run":\s*"([^"]*)"', text)
    return run[1] if run else "a run without a name"


def _guest(
    guest: Guest, observed: Observed, services: Sequence[DesiredService], unknown: dict[str, str]
) -> dict[str, Any]:
    try:
        state = view.guest_state(observed.host, guest)
    except CouldNotLook as error:
        state = UNKNOWN
        unknown[f"guest {guest.name}"] = str(error)
    inside = observed.guests.get(guest.name)
    wanted = {desired.name: desired for desired in services}
    return {
        "guest": guest.name,
        "id": guest.id,
        "backend": guest.backend,
        "state": state,
        "services": [
            _service(service, wanted.get(service.name), guest, inside, unknown) for service in guest.services
        ],
    }


def _service(
    service: Service,
    desired: DesiredService | None,
    guest: Guest,
    inside: Snapshot | None,
    unknown: dict[str, str],
) -> dict[str, Any]:
    """The unit's state by systemd. The versions are those of the profile that runs, and those that the inventory pins
    where it does not; of somebody else's service, those that are seen."""
    seen: dict[str, Any] = {"active": UNKNOWN, "sub_state": UNKNOWN}
    try:
        seen |= _kpros(service, inside) if guest.managed else adopted.seen(service, inside)
        if desired is not None and inside is not None:
            seen |= cut_over.kept(desired.name, inside)
            seen |= serving.kept(desired, inside)
    except CouldNotLook as error:
        unknown[f"service {service.name} in {guest.name}"] = str(error)
    return {
        "service": service.name,
        "unit": service.unit,
        "drift": [],
        "baselines": serving.stated(service),
        "engine": f"{service.engine.kind} {service.engine.version}",
        "model": f"{service.model.repo}@{service.model.revision[:12]}",
        "port": service.port,
        **seen,
    }


def _kpros(service: Service, inside: Snapshot | None) -> dict[str, Any]:
    if inside is None:
        raise CouldNotLook("its guest could not be looked into")
    code, output = inside.command(f"unit-{service.name}")
    pairs = dict(line.partition("=")[::2] for line in output.splitlines())
    if code != 0 or "ActiveState" not in pairs:
        raise CouldNotLook(f"systemctl show ended with {code}: {output.strip()[:120]}")
    # A unit that systemd does not know has no state of its file; what it says of it else reads as if it were stopped.
    gone = pairs["ActiveState"] == "inactive" and pairs.get("UnitFileState") == ""
    active = adopted.GONE if gone else pairs["ActiveState"]
    return {"active": active, "sub_state": pairs.get("SubState", UNKNOWN)}
