"""Step 4: one reboot for all reasons, and what waits for a confirmation."""

from __future__ import annotations

import json

import pytest

from provision.host.moves import Reason
from provision.host.reboot import ARM, TAKEN_BACK, parse_permission, reboot_plan
from provision.plan import Plan
from provision.spec import Machine
from tests.unit.plan.seen import Seen

REASONS = (
    Reason("unbind-stuck", "host", "pid 7 still writes"),
    Reason("xid-154", "0000:42:00.0", "the log says so"),
)


@pytest.fixture
def seen() -> Seen:
    found = Seen()
    for path in (ARM, *TAKEN_BACK):
        found.put("file", path, None)
    return found


def test_without_a_reason_nothing_is_rebooted(machine: Machine, seen: Seen) -> None:
    assert reboot_plan(machine, seen.snapshot, ()) == Plan("box")


def test_all_reasons_are_one_reboot_that_names_them_and_is_confirmed(machine: Machine, seen: Seen) -> None:
    plan = reboot_plan(machine, seen.snapshot, REASONS)
    assert [item.id for item in plan.items] == ["reboot box on @local", "reboot.confirm box on @local"]
    assert plan.items[0].payload.reasons == REASONS
    for reason in REASONS:
        assert reason.seen in plan.items[0].text


def test_a_machine_that_somebody_else_looks_after_is_not_rebooted(machine: Machine, seen: Seen) -> None:
    theirs = machine.model_copy(update={"managed": False})
    assert reboot_plan(theirs, seen.snapshot, REASONS) == Plan("box")


def test_the_plan_says_that_the_inventory_does_not_allow_it(machine: Machine, seen: Seen) -> None:
    (note,) = reboot_plan(machine, seen.snapshot, REASONS).notes
    assert "--reboot" in note
    allowed = machine.model_copy(update={"reboot": "allowed"})
    assert reboot_plan(allowed, seen.snapshot, REASONS).notes == ()


@pytest.mark.parametrize("text", [json.dumps({"run": "R1", "boots_left": 2}), "", "{", "[]"])
def test_an_armed_machine_has_a_boot_to_confirm_whatever_its_file_says(
    machine: Machine, seen: Seen, text: str
) -> None:
    (item,) = reboot_plan(machine, seen.put("file", ARM, text).snapshot, ()).items
    assert item.kind == "reboot.confirm"


def test_an_arm_that_cannot_be_read_is_not_taken_for_none(machine: Machine, seen: Seen) -> None:
    seen.put("file", ARM, None, "cannot be read")
    (item,) = reboot_plan(machine, seen.snapshot, ()).items
    assert item.kind == "reboot.confirm"


@pytest.mark.parametrize(
    ("path", "how"), [(TAKEN_BACK[0], "itself:"), (TAKEN_BACK[1], "itself, not completely:")]
)
def test_a_run_that_the_machine_took_back_is_told(machine: Machine, seen: Seen, path: str, how: str) -> None:
    seen.put("file", path, json.dumps({"run": "R1"}))
    (note,) = reboot_plan(machine, seen.snapshot, ()).notes
    assert f"run R1 was taken back by the machine {how}" in note


def test_permission_is_one_of_two_words() -> None:
    assert [parse_permission(word) for word in (None, "refused", "allowed")] == [False, False, True]
    with pytest.raises(ValueError, match="allowed and refused"):
        parse_permission("yes")
