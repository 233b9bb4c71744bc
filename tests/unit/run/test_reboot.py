"""The reboot act: what is done in which order, and how a machine that comes back, or does not, is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from provision.acts import confirm, reboot
from provision.acts.voice import Voice
from provision.host import reconnect
from provision.host.moves import Reason, Reboot
from provision.host.reconnect import BOOT_ID
from provision.host.transport import Completed, TransportError
from provision.plan import Item, Plan, Refusal, Step
from provision.run import back, rebooting
from provision.run.errors import ActFailed, RebootPending, RunError
from provision.spec import Machine, Ssh
from tests.unit.plan.seen import Seen

WANTED = Reboot((Reason("xid.154", "0000:42:00.0", "the driver asks for it"),), deadline=100)
RUN = "20261129T152000Z-a1b2c3"
Answer = str | None


@dataclass
class Box:
    """A machine that answers each look with the next of ``answers`` (None: no answer) and keeps to the last one."""

    answers: Iterator[Answer]
    name: str = "box"
    connected: bool = True
    connects: bool = True
    last: Answer = None
    did: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    now: float = 0.0

    def look(self, host: Any, command: str, **_: object) -> Completed:
        assert host is self
        assert command == reboot._LOOK
        assert self.connected
        self.last = next(self.answers, self.last)
        if self.last is None:
            raise TransportError("the SSH connection broke")
        return Completed(0, self.last.encode(), b"")

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    @property
    def pace(self) -> reboot.Pace:
        return reboot.Pace(lambda: self.now, self.sleep)


def look(boot: str, state: str, *more: str) -> str:
    return "\n".join((boot, state, *more)) + "\n"


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Box]:
    def made(*answers: Answer) -> Box:
        box = Box(iter(answers))

        def drop(host: Box) -> None:
            box.did.append("drop")
            box.connected = False

        def connect(host: Box) -> str | None:
            box.did.append("connect")
            box.connected = box.connects
            return None if box.connects else "Could not connect (refused)"

        def run(host: Box, script: str, what: str, *, stdin: bytes | None = None, timeout: float) -> str:
            box.did.append(what)
            if stdin:
                box.did.append(stdin.decode())
            return ""

        monkeypatch.setattr(reboot.transport, "run", box.look)
        monkeypatch.setattr(reconnect, "boot_id", lambda host: "b0")
        monkeypatch.setattr(reconnect, "drop", drop)
        monkeypatch.setattr(reconnect, "connect", connect)
        monkeypatch.setattr(reboot.shell, "run", run)
        monkeypatch.setattr(confirm, "prepare", lambda host, wanted: box.did.append("prepare"))
        monkeypatch.setattr(confirm, "disarm", lambda host: box.did.append("disarm"))
        return box

    return made


def call(box: Box) -> None:
    reboot.reboot(box, WANTED, Voice(RUN, box.said.append), box.pace)  # type: ignore[arg-type]


def test_the_machine_is_armed_before_the_reboot_starts_and_waited_for(make: Callable[..., Box]) -> None:
    box = make(look("b0", "running"), None, look("b1", "starting"), look("b1", "running"))
    call(box)
    arm = '{"run": "' + RUN + '", "boot_id": "b0", "boots_left": 2, "seconds": 600}\n'
    assert box.did == ["prepare", "starting the reboot", arm, "drop", "connect"]
    assert "is back after 8 s" in box.said[-1]


def test_a_reboot_that_puts_back_is_not_armed(make: Callable[..., Box]) -> None:
    box = make(look("b1", "running"))
    wanted = Reboot(WANTED.reasons, 100, armed=False)
    reboot.reboot(box, wanted, Voice(RUN, box.said.append), box.pace)  # type: ignore[arg-type]
    assert box.did == ["starting the reboot"]


def test_an_answer_with_the_old_boot_id_is_not_taken_for_the_new_boot(make: Callable[..., Box]) -> None:
    box = make(*[look("b0", "stopping")] * 20, look("b1", "running"))
    call(box)
    assert "is back after 42 s" in box.said[-1]


def test_a_degraded_machine_is_back_and_its_failed_units_are_named(make: Callable[..., Box]) -> None:
    box = make(look("b1", "degraded", "unit foo.service", "unit bar.mount"))
    call(box)
    assert "foo.service, bar.mount failed" in box.said[-1]


def test_a_machine_that_still_starts_is_not_back(make: Callable[..., Box]) -> None:
    box = make(look("b1", "starting"))
    with pytest.raises(ActFailed, match="has booted but is not ready after 100 s"):
        call(box)


def test_a_machine_that_does_not_boot_is_said_to_have_its_old_boot_id(make: Callable[..., Box]) -> None:
    box = make(look("b0", "running"))
    with pytest.raises(ActFailed, match="its boot_id is the one from before"):
        call(box)
    assert "disarm" not in box.did, "it may still go down: then it must be able to take the run back"


def test_a_machine_that_is_not_back_in_time_is_told_with_the_last_thing_seen(
    make: Callable[..., Box],
) -> None:
    box = make(look("b0", "stopping"), None)
    box.connects = False
    with pytest.raises(
        ActFailed, match=r"is not back after 100 s \(does not answer \(Could not connect \(refused"
    ):
        call(box)
    assert box.now <= 110


def test_a_reboot_that_systemd_refuses_is_disarmed_and_told_at_once(make: Callable[..., Box]) -> None:
    box = make(look("b0", "running", "Operation inhibited by backup"))
    with pytest.raises(ActFailed, match="did not reboot: Operation inhibited by backup"):
        call(box)
    assert box.did[-1] == "disarm"
    assert box.now < 10


def test_progress_is_told_every_few_seconds(make: Callable[..., Box]) -> None:
    box = make(*[look("b0", "stopping")] * 30, look("b1", "running"))
    call(box)
    told = [line for line in box.said if " s of 100:" in line]
    assert len(told) == 10


def test_an_answer_that_is_cut_off_is_no_answer() -> None:
    for text in ("", "b1\n"):
        with pytest.raises(TransportError):
            reboot.parse(text)


# May it be rebooted?


def item() -> Item:
    return Item(Step.REBOOT, "reboot", "box", "box", "reboot", WANTED)


def session(there: str = "another", reboot: bool = False) -> Any:
    observed = SimpleNamespace(host=Seen().put("file", BOOT_ID, f"{there}\n").snapshot)
    return SimpleNamespace(reboot=reboot, observed=lambda machine: observed)


def ask(machine: Machine, session: Any, **data: str) -> None:
    host = SimpleNamespace(name=machine.host_name, data=SimpleNamespace(get=data.get))
    rebooting.check(session, host, machine, item())  # type: ignore[arg-type]


BOX = Machine(name="box", ssh=Ssh(host="box.example"))


def test_without_permission_the_reboot_is_pending_with_its_reasons_and_exit_10() -> None:
    with pytest.raises(RebootPending) as pending:
        ask(BOX, session())
    assert pending.value.exit_code == 10
    assert pending.value.reasons == ("the driver asks for it",)
    assert "--reboot" in str(pending.value)


def test_each_of_three_ways_permits_it() -> None:
    ask(BOX, session(reboot=True))
    ask(BOX, session(), reboot="allowed")
    ask(BOX.model_copy(update={"reboot": "allowed"}), session())
    with pytest.raises(RebootPending):
        ask(BOX, session(), reboot="refused")
    with pytest.raises(RunError, match="allowed and refused"):
        ask(BOX, session(), reboot="yes")


@pytest.mark.parametrize("machine", [Machine(name="box"), BOX], ids=["local", "by ssh to itself"])
def test_the_machine_that_kpro_runs_on_is_never_rebooted(machine: Machine) -> None:
    here = Path(BOOT_ID).read_text().strip()
    with pytest.raises(RebootPending, match="run it from another machine"):
        ask(machine, session(here, reboot=True), reboot="allowed")


# The proof before the confirmation


@pytest.mark.parametrize(
    ("left", "confirmed"),
    [
        (Item(Step.DEVICE_NODES, "nodes.make", "box", "/dev/nvidia*", "make nodes"), False),
        (Item(Step.REBOOT, "reboot", "box", "box", "reboot again"), False),
        (Item(Step.DEVICE_NODES, "reboot.confirm", "box", "box", "confirm"), True),
        (Item(Step.CONTAINER, "container.create", "box", "llm", "create"), True),
        (Refusal("machine.driver", "no module", "needed", "install it"), False),
    ],
)
def test_a_boot_is_confirmed_only_when_nothing_is_left_on_the_metal(
    left: Item | Refusal, confirmed: bool
) -> None:
    plan = Plan("box", (left,)) if isinstance(left, Item) else Plan("box", (), (left,))
    if confirmed:
        back.prove_metal(plan, "box")
    else:
        with pytest.raises(ActFailed, match="a fresh look finds left"):
            back.prove_metal(plan, "box")
