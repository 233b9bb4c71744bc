"""The status of a service that somebody else set up: what runs, and what the inventory says otherwise."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from provision.adopt import process
from provision.adopt.plan import adopted_plan
from provision.planner import Observed
from provision.status.show import show
from provision.status.state import status_of
from tests.unit.adopt.test_described import WORDS, described, engine_block, inside, metal, model_look
from tests.unit.plan.seen import Seen
from tests.unit.status.test_status import beside


def told(look: Seen | None) -> tuple[Any, dict[str, Any], str]:
    machine = described().machine
    (guest,) = machine.guests
    snapshot = None
    if look is not None:
        look.sections = {**look.sections, **model_look().sections}
        snapshot = look.snapshot
    plan = adopted_plan(machine, guest, metal(), snapshot)
    made = status_of(machine, plan, Observed(metal(), {guest.name: snapshot}), beside().snapshot, None, {})
    out = io.StringIO()
    show([made], [{}], Console(file=out, width=200))
    (service,) = made.guests[0]["services"]
    return made, service, out.getvalue()


def test_somebody_s_service_that_runs_as_written_is_in_sync() -> None:
    made, service, text = told(inside())
    assert made.state == "in sync"
    assert (service["active"], service["engine"], service["port"]) == ("active", "vllm 0.20.1", 8001)
    assert service["drift"] == []
    assert "llm.service: active, vllm 0.20.1" in text
    assert not any(what.startswith("service") for what in made.unknown)


def test_what_runs_otherwise_is_shown_as_it_runs() -> None:
    look = inside().cmd(process.NAME, engine_block([*WORDS, "--x"]).replace("vllm-0.20.1", "vllm-0.33.0"))
    made, service, text = told(look)
    assert (made.state, service["engine"]) == ("refused", "vllm 0.33.0")
    assert [one["field"] for one in service["drift"]] == ["found.command", "engine.version"]
    assert "other than the inventory says: found.command, engine.version" in text


def test_a_service_that_could_not_be_looked_at_is_unknown_and_one_that_stopped_is_inactive() -> None:
    made, service, _ = told(None)
    assert service["active"] == "unknown"
    assert "service llm in llm" in made.unknown
    stopped = inside().cmd("units", "Id=llm.service\nActiveState=inactive\n").cmd(process.NAME, "")
    assert told(stopped)[1]["active"] == "inactive"
