"""Step 9 as an operation: what provcheck says inside the guest decides, and a red gate tells all that it knows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyinfra.api.state import StateStage

from checks import testhost
from checks.cli import main
from provision import operations
from provision.data import demo
from provision.host.transport import Completed
from provision.plan import Item, Plan, Step
from provision.run import carrying, resting
from provision.run.errors import ActFailed
from provision.run.session import Session

RECORDS = Path(__file__).parents[2] / "replay" / "gpus"
KERNEL = "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x62:0x25:1792)"

UNIT = SimpleNamespace(unit="kpro-demo.service")
Answer = Callable[..., Completed]


@pytest.fixture
def provcheck(capsys: pytest.CaptureFixture[str]) -> Answer:
    """What the gate's command prints; ``live`` makes of a replayed report what the same machine says live."""

    def run(*args: str, live: bool = False) -> Completed:
        code = main(["gpus", "--expect", "2", "--json", *args])
        report = json.loads(capsys.readouterr().out)
        if live:
            report["evidence"] = "live"
        return Completed(code, json.dumps(report).encode(), b"")

    return run


class Stage:
    """The gate's operation on one guest, in execute."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: list[str] = []
        self.journal: list[dict[str, Any]] = []
        self.problems: list[Exception] = []
        self.quiet: list[str] = []
        self.asked: list[tuple[str, ...]] = []
        self.plan = Plan("box")
        self.restart = Item(Step.SERVICE, "container.restart", "box", "llm", "restart container 100")
        self.resting: tuple[str, ...] = ()
        self.session = SimpleNamespace(
            exchanging=lambda machine: False,
            usage=None,
            phases=("install", "configure", "activate"),
            changed=[],
            plan=lambda machine: self.plan,
            say=self.said.append,
            problems=self.problems,
            failed_by={},
            pending={},
            journal=SimpleNamespace(
                write=lambda event, **more: self.journal.append({"event": event, **more})
            ),
            tell_journal=lambda event, **more: self.journal.append({"event": event, **more}),
            wanted=lambda machine: SimpleNamespace(
                services={"llm": (SimpleNamespace(name="demo", gate=("gate",), service=UNIT),)}
            ),
        )
        self.host = SimpleNamespace(
            name="@guest/box/llm",
            data=SimpleNamespace(
                machine=SimpleNamespace(name="box", host_name="box"),
                guest=SimpleNamespace(name="llm", managed=True, gpus=("42:00.0",)),
            ),
            noop=self.quiet.append,
        )
        self.state = SimpleNamespace(failed_hosts=set(), current_stage=StateStage.Execute)
        self.session.state = self.state
        monkeypatch.setattr(carrying, "context", SimpleNamespace(host=self.host, state=self.state))
        monkeypatch.setattr(Session, "of", lambda state: self.session)
        monkeypatch.setattr(resting, "rests", lambda session, machine, guest: guest.name in self.resting)
        self._patch = monkeypatch

    def ask(self, answer: Completed, *, restarted: bool = False) -> bool:
        """True when the chain goes on."""
        self._patch.setattr(
            "provision.acts.stack.gate", lambda host, command: self.asked.append(command) or answer
        )
        commands = list(operations.gate._inner(restarted=restarted))
        return all(command.function(self.state, self.host) for command in commands)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def test_a_driver_without_a_started_adapter_is_red_and_quotes_the_kernel(
    stage: Stage, provcheck: Answer
) -> None:
    answer = provcheck("--replay", str(RECORDS / "a6000_pair_not_started.json"), live=True)
    assert not stage.ask(answer)
    text = "\n".join(stage.said)
    assert "the gate of demo is red (fail); what runs is left as it is" in text
    for word in (
        "gpu.count host: 0 of 2 GPUs",
        "the nvidia driver is bound to 0000:01:00.0 but the adapter did not initialise",
        "the nvidia driver is bound to 0000:02:00.0 but the adapter did not initialise",
        KERNEL,
        "cause: the driver finds no video BIOS",
        "fix: on an emulated GPU this is how it must end",
    ):
        assert word in text
    assert isinstance(stage.problems[0], ActFailed)
    assert stage.quiet == []
    assert [entry["event"] for entry in stage.journal] == ["gate", "failed"]


def test_the_composed_record_is_no_gate_where_no_mark_is(
    stage: Stage, provcheck: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testhost, "marker", lambda root="": None)
    assert not stage.ask(provcheck("--gate", "--replay", str(demo.record())))
    text = "\n".join(stage.said)
    assert "red (unknown)" in text
    assert "node.test_host" in text
    assert "cause: /etc/kpro/test-host is not there" in text


def test_the_composed_record_opens_the_gate_of_a_marked_host_and_is_called_replayed(
    stage: Stage, provcheck: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testhost, "marker", lambda root="": "6f1d7a52-8a3c-4b5e-9f20-0d2f8f3b1c11")
    assert stage.ask(provcheck("--gate", "--replay", str(demo.record())))
    assert [line.rpartition(" (")[0] for line in stage.said] == [
        "@guest/box/llm: gate of demo: REPLAYED (pass)"
    ]
    assert stage.problems == []


def test_a_red_record_stays_red_on_a_marked_host(
    stage: Stage, provcheck: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testhost, "marker", lambda root="": "6f1d7a52-8a3c-4b5e-9f20-0d2f8f3b1c11")
    assert not stage.ask(provcheck("--gate", "--replay", str(RECORDS / "a6000_pair_not_started.json")))


@pytest.mark.parametrize(
    ("code", "out", "err"),
    [
        (127, b"", b"/usr/bin/python3: not found"),
        (0, b"", b""),
        (0, b"{}", b""),
        (0, b'{"schema": "other/1", "verdict": "pass", "findings": []}', b""),
        (1, b'{"schema": "provcheck/1", "verdict": "pass", "findings": []}', b""),
    ],
)
def test_what_is_no_report_or_contradicts_itself_is_never_green(
    code: int, out: bytes, err: bytes, stage: Stage
) -> None:
    assert not stage.ask(Completed(code, out, err))


def test_a_red_gate_with_a_live_pass_is_not_called_replayed(stage: Stage, provcheck: Answer) -> None:
    assert stage.ask(provcheck("--replay", str(demo.record()), live=True))
    assert [line.rpartition(" (")[0] for line in stage.said] == ["@guest/box/llm: gate of demo: pass"]


@pytest.mark.skipif(os.geteuid() != 0, reason="a marker belongs to root, so only root can make one")
def test_an_lxc_guest_of_a_virtual_test_host_believes_the_mark_and_its_bare_host_needs_the_product(
    tmp_path: Path,
) -> None:
    mark = tmp_path / "etc/kpro/test-host"
    mark.parent.mkdir(parents=True)
    mark.write_text("kpro-test-host 6f1d7a52-8a3c-4b5e-9f20-0d2f8f3b1c11\n")
    mark.chmod(0o444)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("flags\t\t: fpu hypervisor sse\n")
    dmi = tmp_path / "sys/class/dmi/id"
    dmi.mkdir(parents=True)
    (dmi / "product_name").write_text("Standard PC (Q35 + ICH9, 2009)\n")
    with pytest.raises(testhost.MarkerRefused, match="SMBIOS"):
        testhost.marker(str(tmp_path))
    (tmp_path / "run/systemd").mkdir(parents=True)
    (tmp_path / "run/systemd/container").write_text("lxc")
    assert testhost.marker(str(tmp_path)) == "6f1d7a52-8a3c-4b5e-9f20-0d2f8f3b1c11"
    (tmp_path / "run/systemd/container").unlink()
    (dmi / "product_name").write_text("kpro-test-host\n")
    assert testhost.marker(str(tmp_path)) == "6f1d7a52-8a3c-4b5e-9f20-0d2f8f3b1c11"


def test_gpus_of_a_guest_without_a_service_are_gated_too(stage: Stage, provcheck: Answer) -> None:
    stage.session.wanted = lambda machine: SimpleNamespace(services={"llm": ()})
    assert not stage.ask(provcheck("--replay", str(RECORDS / "a6000_pair_not_started.json"), live=True))
    assert stage.asked == [("/usr/bin/python3", "/opt/kpro/provcheck.pyz", "gpus", "--expect", "1", "--gate")]
    assert "the gate of llm is red" in "\n".join(stage.said)


def test_a_guest_without_service_and_gpus_has_no_gate(stage: Stage, provcheck: Answer) -> None:
    stage.session.wanted = lambda machine: SimpleNamespace(services={"llm": ()})
    stage.host.data.guest = SimpleNamespace(name="llm", gpus=())
    assert stage.ask(Completed(1, b"", b"no gate may be asked"))
    assert stage.asked == []


RED = Completed(1, b'{"schema": "provcheck/1", "verdict": "fail", "findings": []}', b"")
GREEN = Completed(0, b'{"schema": "provcheck/1", "verdict": "pass", "findings": []}', b"")


@pytest.fixture
def states(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """What systemctl says about the services of the guest, whose container waits for a restart."""
    stage.plan = Plan("box", (stage.restart,))

    def say(text: str) -> None:
        monkeypatch.setattr(
            "provision.acts.stack.transport.run", lambda *_, **__: Completed(3, text.encode(), b"")
        )

    return say


@pytest.mark.parametrize("state", ["inactive", "failed", "unknown"])
def test_a_red_gate_waits_for_the_restart_that_may_mend_it_where_nothing_serves(
    state: str, stage: Stage, states: Callable[[str], None]
) -> None:
    states(f"{state}\n")
    assert stage.ask(RED)
    assert "asked again" in stage.said[-1]
    stage.session.changed.append(stage.restart)
    assert not stage.ask(RED, restarted=True)
    assert "the gate of demo is red" in "\n".join(stage.said)


@pytest.mark.parametrize("state", ["active\n", "activating\n", "deactivating\n", "", "active\ninactive\n"])
def test_no_container_is_restarted_behind_a_red_gate_under_a_service_that_may_run(
    state: str, stage: Stage, states: Callable[[str], None]
) -> None:
    states(state)
    assert not stage.ask(RED)


def test_a_restart_of_another_guest_mends_nothing_here(stage: Stage, states: Callable[[str], None]) -> None:
    states("inactive\n")
    stage.plan = Plan("box", (Item(Step.SERVICE, "container.restart", "box", "other", ""),))
    assert not stage.ask(RED)


def test_a_red_gate_waits_for_no_restart_that_this_run_does_not_make(
    stage: Stage, states: Callable[[str], None]
) -> None:
    states("inactive\n")
    stage.session.phases = ("install", "configure")
    assert not stage.ask(RED)


def test_the_gate_is_asked_again_after_a_restart_and_only_then(stage: Stage) -> None:
    assert stage.ask(RED, restarted=True)
    assert stage.asked == []
    stage.session.changed.append(stage.restart)
    assert stage.ask(GREEN, restarted=True)
    assert len(stage.asked) == 1
