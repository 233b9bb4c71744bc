"""Step 4: when the machine has to boot, and why. Each row of the reasons fires, and does not."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from provision.data.reboot_reasons import ROWS
from provision.host.moves import Reason, Reboot
from provision.host.reboot import ARM, TAKEN_BACK, parse_permission, reboot_plan
from provision.plan import Plan
from provision.spec import Machine
from tests.unit.plan.seen import Seen

XID = "[12346.0] NVRM: Xid (PCI:0000:{bus}:00): 154, GPU recovery action changed from 0x0 (None) to {to}\n"
REQUIRED, NONE = "0x2 (Node Reboot Required)", "0x0 (None)"
OTHER = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.133.07  Release Build  (builder)\n"
GONE = "ls: cannot access '/lib/modules/6.8.0-1-pve': No such file or directory\n"


@pytest.fixture
def seen(host: Seen) -> Seen:
    """The host that is well, with what this step looks at."""
    host.put("file", "/sys/module/nvidia/refcnt", "3\n").put("link", "/sys/class/graphics/fb0/device", None)
    host.cmd("kernel-modules", "/lib/modules/6.8.0-1-pve\n").cmd("nvidia-kernel-log", "").cmd(
        "uname-r", "6.8.0-1-pve\n"
    )
    for path in (ARM, *TAKEN_BACK):
        host.put("file", path, None)
    return host


def fired(plan: Plan) -> list[str]:
    return [
        reason.row
        for item in plan.items
        if isinstance(item.payload, Reboot)
        for reason in item.payload.reasons
    ]


def _other_driver(seen: Seen) -> None:
    seen.put("file", "/proc/driver/nvidia/version", OTHER)


def _other_driver_without_users(seen: Seen) -> None:
    seen.put("file", "/proc/driver/nvidia/version", OTHER).put("file", "/sys/module/nvidia/refcnt", "0\n")


def _console(seen: Seen) -> None:
    seen.gpu("0000:42:00.0", driver="nouveau").put(
        "link", "/sys/class/graphics/fb0/device", "../../../0000:42:00.0\n"
    )


def _console_elsewhere(seen: Seen) -> None:
    seen.gpu("0000:42:00.0", driver="nouveau").put(
        "link", "/sys/class/graphics/fb0/device", "../../../0000:07:00.0\n"
    )


def _xid(seen: Seen) -> None:
    seen.cmd("nvidia-kernel-log", XID.format(bus="42", to=REQUIRED))


def _xid_of_another_gpu(seen: Seen) -> None:
    seen.cmd("nvidia-kernel-log", XID.format(bus="61", to=REQUIRED))


def _xid_taken_back(seen: Seen) -> None:
    seen.cmd("nvidia-kernel-log", XID.format(bus="42", to=REQUIRED) + XID.format(bus="42", to=NONE))


def _no_modules(seen: Seen) -> None:
    seen.put("file", "/proc/driver/nvidia/version", None).cmd("kernel-modules", GONE, 2)


def _no_modules_but_loaded(seen: Seen) -> None:
    seen.cmd("kernel-modules", GONE, 2)


CASES = {
    "driver.in-use": (_other_driver, _other_driver_without_users),
    "nouveau.console": (_console, _console_elsewhere),
    "xid.154": (_xid, _xid_taken_back),
    "kernel.no-modules": (_no_modules, _no_modules_but_loaded),
}


def test_every_reason_is_shown_to_fire_and_not_to_fire() -> None:
    assert {row.id for row in ROWS} == set(CASES)


@pytest.mark.parametrize(("row", "change"), [(row, fires) for row, (fires, _) in CASES.items()])
def test_a_reason_that_is_there_plans_a_reboot_that_names_it(
    machine: Machine, seen: Seen, row: str, change: Callable[[Seen], None]
) -> None:
    change(seen)
    plan = reboot_plan(machine, seen.snapshot)
    assert fired(plan) == [row]
    assert plan.items[0].id == "reboot box on @local"
    assert plan.items[0].payload.reasons[0].seen in plan.items[0].text


@pytest.mark.parametrize(
    "change", [*(not_fires for _, not_fires in CASES.values()), _xid_of_another_gpu, lambda seen: None]
)
def test_without_a_reason_nothing_is_rebooted(
    machine: Machine, seen: Seen, change: Callable[[Seen], None]
) -> None:
    change(seen)
    plan = reboot_plan(machine, seen.snapshot)
    assert plan.items == ()
    assert plan.notes == ()


def test_all_reasons_are_one_reboot_those_of_other_steps_first(machine: Machine, seen: Seen) -> None:
    _xid(seen)
    plan = reboot_plan(machine, seen.snapshot, [Reason("release.x", "0000:42:00.0", "a blocked unbind")])
    assert fired(plan) == ["release.x", "xid.154"]
    assert [item.kind for item in plan.items] == ["reboot", "reboot.confirm"]


def test_a_machine_that_somebody_else_looks_after_is_not_rebooted(machine: Machine, seen: Seen) -> None:
    _xid(seen)
    assert reboot_plan(machine.model_copy(update={"managed": False}), seen.snapshot) == Plan("box")


def test_the_plan_says_that_the_inventory_does_not_allow_it(machine: Machine, seen: Seen) -> None:
    _xid(seen)
    assert "--reboot" in reboot_plan(machine, seen.snapshot).items[0].text
    allowed = machine.model_copy(update={"reboot": "allowed"})
    assert "--reboot" not in reboot_plan(allowed, seen.snapshot).items[0].text


def test_what_could_not_be_looked_at_is_said(machine: Machine, seen: Seen) -> None:
    seen.cmd("nvidia-kernel-log", "dmesg: read kernel buffer failed: Operation not permitted\n", 1)
    (note,) = reboot_plan(machine, seen.snapshot).notes
    assert "xid.154" in note
    assert "not permitted" in note


@pytest.mark.parametrize("text", [json.dumps({"run": "R1", "boots_left": 2}), "", "{"])
def test_an_armed_machine_has_a_boot_to_confirm_whatever_its_file_says(
    machine: Machine, seen: Seen, text: str
) -> None:
    seen.put("file", ARM, text)
    (item,) = reboot_plan(machine, seen.snapshot).items
    assert item.kind == "reboot.confirm"


def test_a_run_that_the_machine_took_back_is_told(machine: Machine, seen: Seen) -> None:
    seen.put("file", TAKEN_BACK[0], json.dumps({"run": "R1"}))
    (note,) = reboot_plan(machine, seen.snapshot).notes
    assert "run R1 was taken back by the machine itself" in note


def test_permission_is_one_of_two_words() -> None:
    assert [parse_permission(word) for word in (None, "refused", "allowed")] == [False, False, True]
    with pytest.raises(ValueError, match="allowed and refused"):
        parse_permission("yes")
