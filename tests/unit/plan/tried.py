"""A service with a candidate, and the records that a guest would have of it."""

from __future__ import annotations

import json
from typing import Any

from provision.spec import Baseline, Candidate, Machine
from provision.stack import baselines, candidate
from provision.stack.desired import DesiredService, desired_service
from provision.stack.trials import Trial
from tests.unit.plan.seen import Seen

RUNS = "20261129T152000Z-a1b2c3"


def with_candidate(machine: Machine, **more: Any) -> Machine:
    """The machine whose service has a candidate: the same engine with other flags."""
    guest = machine.guests[0]
    service = guest.services[0]
    stated: Baseline | None = more.pop("baseline", None)
    thresholds = more.pop("service_thresholds", {})
    tried = Candidate(**{"engine": service.engine, "profile": "plain", "flags": ("--tok-s", "400")} | more)
    its = service.model_copy(update={"candidate": tried, "baseline": stated, "thresholds": thresholds})
    return machine.model_copy(update={"guests": (guest.model_copy(update={"services": (its,)}),)})


def wanted(machine: Machine) -> DesiredService:
    guest = machine.guests[0]
    return desired_service(guest, guest.services[0])


def promoted(desired: DesiredService) -> DesiredService:
    assert desired.candidate is not None
    return desired.candidate


def verdict(desired: DesiredService, said: str = "accepted", **more: Any) -> str:
    """The record of a trial of the service's candidate."""
    facts = {
        "digest": promoted(desired).digest,
        "asked": candidate.asked(desired.service),
        "why": "not better than what serves: 80.0 tok/s",
        "when": "2026-11-29T15:40:00Z",
        "run": RUNS,
    }
    return Trial(**facts | {"verdict": said} | more).dump().decode()  # type: ignore[arg-type]


def reading(tok_s: float = 100.0, **kpro: Any) -> bytes:
    data = {"schema": "provcheck-baseline/1", "taken": "2026-11-29T15:30:00Z", "tok_s": tok_s, "length": None}
    return json.dumps(data | {"kpro": kpro}).encode()


def own_key(machine: Machine, desired: DesiredService) -> str:
    return baselines.belongs(machine, machine.guests[0], desired).key


def runs(seen: Seen, desired: DesiredService) -> Seen:
    """The guest runs exactly this profile, and saw it well."""
    from provision.stack.desired import sha256

    for path in (desired.unit_path, desired.staged_unit):
        seen.put("sha", path, sha256(desired.unit))
    for path in (desired.environment_path, desired.staged_environment):
        seen.put("sha", path, sha256(desired.environment))
    seen.put("file", desired.good_path, f"{desired.digest}\n").cmd(
        f"running-{desired.name}", f"{desired.digest}\n"
    )
    return seen.cmd(f"in-place-{desired.name}", f"{desired.digest}\n-\n")
