"""A guest is stopped for another driver: what is noted before, in which time, and when it did not work."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.acts import guests
from provision.host import keeping
from provision.host.changes import Change
from provision.host.moves import PCT, Asleep
from provision.host.swap import unfinished
from provision.planner import requests
from provision.run.errors import ActFailed
from provision.spec import Guest, Machine
from tests.unit.plan.seen import Seen
from tests.unit.run import kernel
from tests.unit.run.test_assign_acts import RUN, Host

ASLEEP = Asleep("105", PCT, ("kpro-tiny.service",))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    host = Host(kernel.Machine(tmp_path), monkeypatch, tmp_path)
    pct(host, "echo stopped >{state}")
    return host


def pct(host: Host, shutdown: str, status: str = "cat {state}") -> None:
    """Container 105, which runs."""
    state = host.folder / "pct-105"
    state.write_text("running\n")
    host.machine.program(
        "pct",
        f"""case "$*" in
  'exec 105 -- sh -c '*) echo /opt/kpro/nvidia/550.163.01/lib ;;
  'shutdown 105 '*) {shutdown.format(state=state)} ;;
  'status 105') echo "status: $({status.format(state=state)})" ;;
  *) exit 99 ;;
esac""",
    )


def shutdowns(host: Host) -> list[str]:
    return [call for call in host.machine.calls if call.startswith("pct shutdown")]


def test_the_way_back_is_written_before_a_proxmox_container_is_shut_down(host: Host) -> None:
    pct(host, f"grep -q 'wake 105 pct' {host.machine.state}/undo.sh && echo stopped >{{state}} || exit 7")
    guests.stop(host.host, ASLEEP, host.say)
    (change,) = keeping.changes_on(host.host)
    assert change == Change(
        "guest",
        RUN,
        id="105",
        folder="pct",
        before="/opt/kpro/nvidia/550.163.01/lib",
        names=("kpro-tiny.service",),
    )
    assert shutdowns(host) == ["pct shutdown 105 --timeout 150 --forceStop 1"]
    assert "container 105: stopping, kpro-tiny.service with it" in host.said


def test_it_is_known_to_a_later_run_until_all_serves_again(host: Host) -> None:
    guests.stop(host.host, ASLEEP, host.say)
    note = host.machine.state / "exchange"
    guests.stop(host.host, ASLEEP, host.say)
    assert note.read_text() == f"{RUN}\n"
    assert unfinished(Seen().put("file", "/var/lib/kpro/exchange", note.read_text()).snapshot) == (RUN,)
    guests.over(host.host)
    assert not note.exists()


def test_every_look_at_a_machine_asks_for_runs_that_were_cut() -> None:
    guest = Guest(name="llm", backend="lxc", id="c1")
    assert "file:/var/lib/kpro/exchange" in requests(Machine(name="box", guests=[guest]))


def test_its_operator_says_how_long_it_may_take(host: Host) -> None:
    guests.stop(host.host, Asleep("105", PCT, (), 600), host.say)
    assert shutdowns(host) == ["pct shutdown 105 --timeout 600 --forceStop 1"]


def test_one_that_only_is_asked_to_stop_is_waited_for(host: Host) -> None:
    pct(host, "(sleep 1; echo stopped >{state}) >/dev/null 2>&1 &")
    guests.stop(host.host, ASLEEP, host.say)
    assert (host.folder / "pct-105").read_text() == "stopped\n"


def test_one_that_does_not_stop_keeps_the_driver(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guests, "SETTLE_SECONDS", 0)
    pct(host, ":")
    with pytest.raises(ActFailed, match="container 105 was shut down, and pct says: status: running"):
        guests.stop(host.host, Asleep("105", PCT, (), 1), host.say)


def test_one_that_was_locked_meanwhile_is_left_running_and_not_ended_by_force(host: Host) -> None:
    pct(host, "echo 'CT is locked (backup)' >&2; exit 255")
    with pytest.raises(ActFailed, match=r"CT is locked \(backup\)"):
        guests.stop(host.host, ASLEEP, host.say)
    assert [call for call in host.machine.calls if call.startswith("pct stop")] == []
    assert (host.folder / "pct-105").read_text() == "running\n"


def test_a_plain_container_is_stopped_as_before(host: Host) -> None:
    guests.stop(host.host, Asleep("c1", "/var/lib/lxc/c1", ()), host.say)
    assert "lxc-stop -n c1 -t 150" in host.machine.calls
    assert not [call for call in host.machine.calls if call.startswith("pct")]
