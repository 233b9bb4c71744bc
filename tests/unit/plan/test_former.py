"""A service that was renamed or taken out goes on: it is said, with the command that ends it, and never removed."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from provision.plan import Plan
from provision.spec import Machine
from provision.stack import former
from provision.stack.decide import Shipped, requests, stack_plan
from provision.stack.desired import DesiredService
from tests.unit.plan.seen import Seen

LISTEN = "  sl  local_address\n   0: 00000000:4A37 00000000:0000 0A\n"
"""Port 18999."""

Decide = Callable[[Seen], Plan]


@pytest.fixture
def decide(machine: Machine, desired: DesiredService, host: Seen, shipped: tuple[Shipped, Shipped]) -> Decide:
    def plan(inside: Seen) -> Plan:
        return stack_plan(machine, machine.guests[0], [desired], host.snapshot, inside.snapshot, *shipped)

    return plan


def test_a_unit_that_no_service_owns_is_said_and_nothing_is_done_to_it(decide: Decide, inside: Seen) -> None:
    inside.cmd(former.NAME, "kpro-tiny.service active enabled 18999\nkpro-old.service active enabled 18000\n")
    plan = decide(inside)
    assert plan.items == ()
    assert plan.refusals == ()
    (note,) = plan.notes
    assert note.startswith("kpro-old.service is kpro's, and no service of the inventory owns it")
    assert "runs and starts at boot, on port 18000" in note
    assert "systemctl disable --now kpro-old.service && rm -f /etc/systemd/system/kpro-old.service" in note


def test_the_inventory_s_own_unit_is_no_former_one(decide: Decide, inside: Seen) -> None:
    assert decide(inside.cmd(former.NAME, "kpro-tiny.service active enabled 18999\n")) == Plan("box")


@pytest.mark.parametrize(
    ("seen", "named"),
    [
        ("kpro-old.service active enabled 18999\n", True),
        ("kpro-old.service activating disabled 18999\n", True),
        ("kpro-old.service inactive enabled 18999\n", False),
        ("kpro-old.service active enabled 18998\n", False),
        ("kpro-old.service active enabled\n", False),
        ("kpro-tiny.service active enabled 18999\n", False),
        ("", False),
    ],
)
def test_a_port_that_a_former_unit_holds_is_refused_by_its_name(
    decide: Decide, inside: Seen, seen: str, named: bool
) -> None:
    inside.cmd("unit-tiny", "ActiveState=inactive\nUnitFileState=enabled\n").put(
        "file", "/proc/net/tcp", LISTEN
    )
    refusal = decide(inside.cmd(former.NAME, seen)).refusals[0]
    assert ("systemctl disable --now kpro-old.service" in refusal.next_step) is named
    assert ("ss -ltnp" in refusal.next_step) is not named


def test_a_record_that_has_no_such_look_is_planned_all_the_same(decide: Decide, inside: Seen) -> None:
    assert decide(inside) == Plan("box")


def test_it_is_looked_at_also_where_the_inventory_has_no_service_left(machine: Machine) -> None:
    assert former.REQUEST in requests(machine.guests[0], [])


def test_the_look_finds_kpro_s_services_and_no_other_unit(desired: DesiredService, tmp_path: Path) -> None:
    units, programs = tmp_path / "units", tmp_path / "bin"
    units.mkdir()
    programs.mkdir()
    (programs / "systemctl").write_text('#!/bin/sh\n[ "$1" = is-active ] && echo active || echo enabled\n')
    (programs / "systemctl").chmod(0o755)
    (units / "kpro-tiny.service").write_text(desired.unit)
    (units / "kpro-recover.service").write_text(f"{former.MARK}\n[Unit]\nDescription=kpro puts back\n")
    (units / "kpro-mine.service").write_text(f"[Unit]\n{former.DESCRIPTION}by hand\n")
    (units / "other.service").write_text(desired.unit)
    done = subprocess.run(
        ["/bin/sh", "-c", former.LOOK.replace("/etc/systemd/system", str(units))],
        env={"PATH": f"{programs}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "kpro-tiny.service active enabled 18999\n"
    seen = former.units(Seen().cmd(former.NAME, done.stdout).snapshot)
    assert seen == [former.Former("kpro-tiny.service", True, True, 18999)]
