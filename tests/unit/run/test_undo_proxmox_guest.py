"""The undo script after a Proxmox container was stopped for another driver: it runs again, last of all."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.host.changes import Change
from tests.unit.run.kernel import Machine
from tests.unit.run.test_undo import undo
from tests.unit.run.test_undo_driver import EXCHANGE, OLD, has_driver

ASLEEP = Change(
    "guest", "r2", id="105", folder="pct", before="/opt/kpro/nvidia/1/lib", names=("kpro-tiny.service",)
)
GONE = "Configuration file 'nodes/box/lxc/105.conf' does not exist"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    has_driver(machine, "580.159.04")
    pct(machine)
    return machine


def pct(machine: Machine, state: str = "stopped", start: str = "") -> None:
    """A stand-in that knows container 105."""
    file = machine.root / "pct-105"
    file.write_text(f"{state}\n")
    machine.program(
        "pct",
        f"""case "$*" in
  'status 105') echo "status: $(cat {file})" ;;
  'start 105') {start or f"echo running >{file}"} ;;
  'shutdown 105 '*) echo stopped >{file} ;;
  'exec 105 -- systemctl is-system-running') echo running ;;
  'exec 105 -- sh -c '*) ;;
  *) exit 99 ;;
esac""",
    )


def asked(machine: Machine) -> list[str]:
    """What pct was asked, in two words, and when modules went and came."""
    calls = [call.split() for call in machine.calls if call]
    return [
        " ".join(words[:2]) for words in calls if words[:1] == ["pct"] or words[0] in ("rmmod", "modprobe")
    ]


def test_it_runs_again_once_the_driver_that_gave_way_is_loaded(machine: Machine) -> None:
    code, said = undo(machine, (ASLEEP, EXCHANGE), "--look", "r2")
    assert (code, "would start container 105 again" in said) == (0, True), said
    assert "pct start" not in asked(machine)
    code, said = undo(machine, (ASLEEP, EXCHANGE), "r2")
    assert code == 0, said
    assert f"driver {OLD} is loaded again" in said
    assert "container 105 runs again, with kpro-tiny.service" in said
    calls = asked(machine)
    assert calls.index("rmmod nvidia") < calls.index("pct start") < calls.index("pct exec")
    inside = "\n".join(machine.calls).partition("pct start")[2]
    assert "/opt/kpro/nvidia/1/lib" in inside
    assert "kpro-tiny.service" in inside


def test_one_that_runs_with_the_new_driver_is_shut_down_before_the_old_one_comes(machine: Machine) -> None:
    pct(machine, "running")
    code, said = undo(machine, (ASLEEP, EXCHANGE), "r2")
    assert code == 0, said
    calls = asked(machine)
    assert calls.index("pct shutdown") < calls.index("rmmod nvidia") < calls.index("pct start")


def test_one_that_does_not_start_again_is_no_success_and_the_command_is_said(machine: Machine) -> None:
    pct(machine, start="exit 255")
    code, said = undo(machine, (ASLEEP,), "r2")
    assert (code, "container 105 does not start: pct start 105" in said) == (1, True), said
    assert "runs again" not in said


def test_one_that_cannot_be_looked_at_is_neither_started_nor_called_well(machine: Machine) -> None:
    machine.program("pct", "echo 'ipcc_send_rec failed: Connection refused' >&2; exit 255")
    code, said = undo(machine, (ASLEEP,), "r2")
    assert (code, "container 105 cannot be looked at: ipcc_send_rec failed" in said) == (1, True), said
    assert "pct start" not in asked(machine)


def test_one_that_its_operator_removed_since_is_not_missed(machine: Machine) -> None:
    machine.program("pct", f'echo "{GONE}" >&2; exit 2')
    code, said = undo(machine, (ASLEEP,), "r2")
    assert (code, "container 105 is gone already" in said) == (0, True), said


def test_one_that_kpro_made_and_that_goes_is_not_started_again(machine: Machine) -> None:
    machine.program("pct", 'case $1 in status) echo "status: running" ;; esac')
    code, said = undo(machine, (Change("container", "r1", id="105", folder="pct"), ASLEEP))
    assert (code, "runs again" in said) == (0, False), said
    assert "pct start" not in asked(machine)


def test_all_together_only_the_first_run_starts_it(machine: Machine) -> None:
    later = Change("guest", "r3", id="105", folder="pct", before="x", names=("kpro-tiny.service",))
    code, said = undo(machine, (ASLEEP, later))
    assert code == 0, said
    assert said.count("container 105 runs again") == 1
    assert asked(machine).count("pct start") == 1
