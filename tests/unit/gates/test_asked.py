"""Step 9 behind the gate of the GPUs: which gates are asked of what, what is told, and what a red one stops."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from pyinfra.api.state import StateStage

from provision import operations, operations_trial
from provision.acts import gates as gate_acts
from provision.host.transport import CommandTimeout, Completed
from provision.plan import Item, Plan, Step
from provision.run import carrying, resting
from provision.run.session import Session
from provision.run.tried import Tried
from provision.spec import Model
from provision.stack import measured
from provision.stack.cutover import Cutover
from provision.stack.gates import Case
from tests.unit.gates.conftest import COMMIT, Make, facts, gpu

BOOT = "boot-1"
DRAFTER = Model(repo="org/drafter", revision=COMMIT)


def report(verdict: str = "pass", *, evidence: str = "live", **more: Any) -> dict[str, Any]:
    status = verdict if verdict != "replayed" else "pass"
    finding = {"id": "x.y", "status": status, "subject": "host", "message": f"it is {verdict}"}
    finding |= {"cause": "a cause", "fix": "a fix"} if verdict in ("fail", "unknown") else {}
    document = {
        "schema": "provcheck/1",
        "command": "x",
        "evidence": evidence,
        "verdict": verdict,
        "facts": {},
    }
    return document | {"findings": [finding]} | more


def done(document: Mapping[str, Any]) -> Completed:
    code = {"pass": 0, "warn": 0, "fail": 1, "unknown": 3}[document["verdict"]]
    return Completed(code, json.dumps(document).encode(), b"")


class Guest:
    """A guest whose gates answer as a test says; ``asked`` are the words that it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
        self.said: list[str] = []
        self.journal: list[dict[str, Any]] = []
        self.problems: list[Exception] = []
        self.asked: list[str] = []
        self.lines: list[str] = []
        self.changed: list[Item] = []
        self.kept: dict[str, str] = {}
        self.gpus = report(facts=dict(case.gpus.facts))
        self.answers: dict[str, Any] = {}
        self.running = False
        self.mode = "first"
        self.restart = False
        self.kinds = ("service.cutover",)
        self.case = case
        self.state = SimpleNamespace(failed_hosts=set(), current_stage=StateStage.Execute)
        self.session = SimpleNamespace(
            failed_by={},
            id="run-1",
            tried=Tried(),
            check_against_shown=lambda machine, plan: None,
            state=self.state,
            exchanging=lambda machine: False,
            usage=None,
            phases=("install", "configure", "activate"),
            changed=self.changed,
            plan=lambda machine: self.plan(),
            say=self.said.append,
            problems=self.problems,
            pending={},
            journal=SimpleNamespace(
                write=lambda event, **more: self.journal.append({"event": event, **more})
            ),
            tell_journal=lambda event, **more: None,
            wanted=lambda machine: SimpleNamespace(
                services={"llm": (case.desired,) if case.desired else ()},
                pyz=SimpleNamespace(sha256="a" * 64),
            ),
        )
        self.host = SimpleNamespace(
            name="@guest/box/llm",
            data=SimpleNamespace(machine=SimpleNamespace(name="box", host_name="box"), guest=case.guest),
            noop=lambda text: None,
        )
        monkeypatch.setattr(carrying, "context", SimpleNamespace(host=self.host, state=self.state))
        monkeypatch.setattr(Session, "of", lambda state: self.session)
        monkeypatch.setattr(resting, "rests", lambda session, machine, guest: False)
        monkeypatch.setattr("provision.acts.stack.gate", lambda host, command: done(self.gpus))
        monkeypatch.setattr("provision.acts.stack.running", lambda host, units: self.running)
        monkeypatch.setattr(gate_acts, "kept", lambda host: (BOOT, dict(self.kept)))
        monkeypatch.setattr(gate_acts, "keep", lambda host, path, text: self.kept.update({path: text}))
        monkeypatch.setattr(gate_acts, "ask", self._answer)

    def plan(self) -> Plan:
        items = []
        if self.case.desired is not None and self.mode != "in sync":
            payload = Cutover(self.case.desired, None, self.mode)  # type: ignore[arg-type]
            items += [Item(Step.SERVICE, kind, self.host.name, "chat", "", payload) for kind in self.kinds]
        if self.restart:
            items.append(Item(Step.SERVICE, "container.restart", "box", "llm", ""))
        return Plan("box", tuple(items))

    def _answer(self, host: object, line: str, seconds: int) -> Completed:
        gate = next(
            name for name in ("flags", "drafter", "fit", "load", "nccl") if f"pyz {name} --json" in line
        )
        self.asked.append(gate)
        self.lines.append(line)
        answer = self.answers.get(gate, report())
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Completed) else done(answer)

    def run(self, *, restarted: bool = False) -> bool:
        """True when the chain goes on."""
        self.asked.clear()
        commands = list(operations.gate._inner(restarted=restarted))
        return all(command.function(self.state, self.host) for command in commands)

    @property
    def text(self) -> str:
        return "\n".join(self.said)

    def verdicts(self) -> dict[str, str]:
        return {entry["gate"]: entry["verdict"] for entry in self.journal if entry["event"] == "checked"}


At = Callable[..., Guest]


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch, make: Make) -> At:
    return lambda **case: Guest(monkeypatch, make(**case))


def test_all_gates_are_asked_the_cheap_ones_first_and_each_says_in_a_line_what_it_saw(at: At) -> None:
    guest = at(profile="vllm-dflash", drafter=DRAFTER)
    assert guest.run()
    assert guest.asked == ["flags", "drafter", "fit", "load", "nccl"]
    for gate in guest.asked:
        assert sum(f"gate {gate} of chat: pass (" in line for line in guest.said) == 1
    assert set(guest.verdicts().values()) == {"pass"}
    assert all("seconds" in entry for entry in guest.journal)


def test_every_red_gate_is_told_with_cause_and_fix_and_the_others_are_asked_all_the_same(at: At) -> None:
    guest = at(profile="vllm-dflash", drafter=DRAFTER)
    guest.answers = {"flags": report("fail"), "fit": report("unknown"), "nccl": report("fail")}
    assert not guest.run()
    assert guest.asked == ["flags", "drafter", "fit", "load", "nccl"]
    for gate, verdict in (("flags", "fail"), ("fit", "unknown"), ("nccl", "fail")):
        assert f"the gate of chat is red ({gate}: {verdict}); what runs is left as it is" in guest.text
    assert guest.text.count("cause: a cause") == guest.text.count("fix: a fix") == 3
    assert (
        "again, in the guest: /usr/bin/python3 /opt/kpro/provcheck.pyz fit /srv/models/org--target@"
        in guest.text
    )
    assert len(guest.problems) == 1


@pytest.mark.parametrize(
    "answer",
    [
        Completed(2, b"", b"Error: --context is missing"),
        Completed(124, b"", b""),
        Completed(1, json.dumps(report()).encode(), b""),
        Completed(0, b'{"schema": "other/1", "verdict": "pass", "findings": []}', b""),
        CommandTimeout("no answer in 170 s"),
        OSError("the way to the guest broke"),
    ],
)
@pytest.mark.parametrize("gate", ["flags", "fit", "load"])
def test_a_gate_without_a_sound_answer_is_red(at: At, gate: str, answer: object) -> None:
    guest = at()
    guest.answers = {gate: answer}
    assert not guest.run()
    assert f"the gate of chat is red ({gate}: " in guest.text


@pytest.mark.parametrize("gate", ["flags", "fit", "load", "nccl"])
def test_replayed_evidence_opens_no_gate_but_that_of_a_test_host_s_gpus(at: At, gate: str) -> None:
    guest = at()
    guest.answers = {gate: report(evidence="replayed")}
    assert not guest.run()
    assert f"the gate of chat is red ({gate}: unknown)" in guest.text
    assert guest.kept.keys() & {measured.path_of(gate, {})} == set()


@pytest.mark.parametrize("mode", ["in sync", "again"])
def test_what_serves_already_or_was_proven_is_not_asked_about_again(at: At, mode: str) -> None:
    guest = at()
    guest.mode = mode
    assert guest.run()
    assert guest.asked == []


@pytest.mark.parametrize("busy", ["in use", "running", "replayed", "red"])
def test_gpus_are_never_put_to_work_beside_a_service_or_while_they_are_not_in_order(
    at: At, busy: str
) -> None:
    guest = at()
    if busy == "in use":
        guest.gpus["facts"] = facts(gpu(0), gpu(1, "process 9 vllm (compute)"))
    elif busy == "running":
        guest.running = True
    elif busy == "replayed":
        guest.gpus["evidence"] = "replayed"
    else:
        guest.gpus = report("fail", facts=facts(gpu(0), gpu(1)))
    assert guest.run() is (busy != "red")
    assert {"load", "nccl"} & set(guest.asked) == set()
    assert (guest.verdicts()["load"], guest.verdicts()["nccl"]) == ("skip", "skip")
    assert "gates of chat that were not asked: " in guest.text


def test_a_red_gate_of_the_gpus_hides_no_reason_that_lies_in_files(at: At) -> None:
    guest = at()
    guest.gpus = report("fail", facts=facts(gpu(0), gpu(1)))
    guest.answers = {"flags": report("fail")}
    assert not guest.run()
    assert guest.asked == ["flags"]
    assert "the gate of chat is red (fail); what runs is left as it is" in guest.text
    assert "the gate of chat is red (flags: fail)" in guest.text


def test_a_measurement_is_kept_and_a_second_run_measures_nothing(at: At) -> None:
    guest = at()
    assert guest.run()
    assert set(guest.kept) == {"/var/lib/kpro/measured/load.json", "/var/lib/kpro/measured/nccl.json"}
    assert guest.run()
    assert guest.asked == ["flags", "fit"]
    assert "load (pass, as measured at " in guest.text


def test_a_red_measurement_is_kept_as_proof_and_made_again(at: At) -> None:
    guest = at()
    guest.answers = {"nccl": report("fail")}
    assert not guest.run()
    assert measured.parsed(guest.kept["/var/lib/kpro/measured/nccl.json"])["verdict"] == "fail"  # type: ignore[index]
    assert not guest.run()
    assert guest.asked == ["flags", "fit", "nccl"]


def test_what_the_service_switches_off_is_measured_so_and_the_proof_for_it_stays(at: At) -> None:
    guest = at(environment={"NCCL_P2P_DISABLE": "1"})
    guest.kept = {"/var/lib/kpro/measured/nccl.json": "the proof"}
    assert guest.run()
    assert guest.kept["/var/lib/kpro/measured/nccl.json"] == "the proof"
    assert "/var/lib/kpro/measured/nccl-service.json" in guest.kept
    assert " env NCCL_P2P_DISABLE=1 " in guest.lines[-1]


def test_gpus_without_a_service_are_loaded_once(at: At, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    case = make()
    guest = Guest(monkeypatch, Case(case.guest.model_copy(update={"services": ()}), None, case.gpus))
    assert len(guest.case.guest.gpus) == 2
    assert guest.run()
    assert guest.asked == ["load"]
    assert guest.run()
    assert guest.asked == []


def test_after_a_restart_only_what_it_can_have_changed_is_asked(at: At) -> None:
    guest = at()
    guest.gpus = report("fail", facts=facts(gpu(0), gpu(1)))
    guest.restart = True
    assert guest.run()
    assert guest.asked == ["flags"]
    guest.changed.append(Item(Step.SERVICE, "container.restart", "box", "llm", ""))
    guest.gpus = report(facts=facts(gpu(0), gpu(1)))
    assert guest.run(restarted=True)
    assert guest.asked == ["fit", "load", "nccl"]


def test_a_bad_flag_is_red_at_once_also_where_a_restart_waits(at: At) -> None:
    guest = at()
    guest.gpus = report("fail", facts=facts(gpu(0), gpu(1)))
    guest.restart = True
    guest.answers = {"flags": report("fail")}
    assert not guest.run()


def test_silences_go_to_every_gate_and_one_that_is_silenced_says_so(at: At) -> None:
    silence = {"id": "fit.memory", "owner": "ops", "reason": "known", "until": "2099-01-01"}
    guest = at(silences=[silence])
    finding = report("fail")["findings"][0] | {"silence": {"owner": "ops"}}
    guest.answers = {"fit": report("warn", findings=[finding])}
    assert guest.run()
    assert all(" --silences /etc/kpro/chat.silences.json" in line for line in guest.lines)
    assert "x.y silenced by ops" in guest.text


def test_code_of_an_engine_runs_without_gpus_secrets_or_rights(at: At) -> None:
    guest = at(environment={"HF_TOKEN": "hf_secret"})
    assert guest.run()
    line = guest.lines[guest.asked.index("flags")]
    for part in (
        "setpriv --reuid 8100",
        "--no-new-privs",
        "env -i ",
        "CUDA_VISIBLE_DEVICES= ",
        "trap 'rm -rf",
    ):
        assert part in line
    assert "hf_secret" not in "".join(guest.lines)
    assert all("timeout -k 10 " in one for one in guest.lines)


def test_a_flag_that_only_the_installed_parser_knows_is_a_note(at: At) -> None:
    guest = at(flags=("--brand-new", "1"))
    assert guest.run()
    assert (
        "note: the installed parser knows what the table of releases does not: vllm 0.33.0: --brand-new"
        in guest.text
    )


def test_a_red_candidate_is_not_tried_and_keeps_the_service_from_nothing(
    at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = at()
    guest.kinds = ("service.cutover", "service.candidate")
    red = iter([report(), report("fail")])
    monkeypatch.setattr(
        gate_acts,
        "ask",
        lambda host, line, seconds: done(next(red) if "pyz flags" in line else report()),
    )
    started: list[str] = []
    monkeypatch.setattr(
        operations_trial,
        "tried",
        lambda session, machine, item: lambda state, host: started.append(item.kind) or True,
    )
    assert guest.run()
    assert "its candidate is red and will not be tried" in guest.text
    for kind in guest.kinds:
        for command in operations_trial.cut_over._inner(kind=kind):
            assert command.function(guest.state, guest.host)
    assert started == ["service.cutover"]
    (last,) = operations_trial.verdicts._inner()
    assert not last.function(guest.state, guest.host)
    assert "the gate of chat is red (flags: fail)" in str(guest.problems[0])


def test_a_red_profile_of_the_service_itself_stops_the_run(at: At) -> None:
    guest = at()
    guest.kinds = ("service.cutover", "service.candidate")
    guest.answers = {"flags": report("fail")}
    assert not guest.run()


def test_what_a_restart_may_mend_waits_for_it(at: At) -> None:
    guest = at(kind="vllm-cpu", version="0.32.0", gpus=())
    guest.gpus = report("fail")
    guest.restart = True
    guest.answers = {"fit": report("fail")}
    assert guest.run()
    assert guest.asked == ["flags"]
    guest.changed.append(Item(Step.SERVICE, "container.restart", "box", "llm", ""))
    guest.gpus = report()
    assert not guest.run(restarted=True)
    assert guest.asked == ["fit"]
