"""What comes of a cut-over in a run: told in both journals, its reading kept by rule, a refusal no failure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from provision import acts
from provision.acts import baseline, shell
from provision.plan import Item, Step
from provision.run import carrying, host_journal, trying
from provision.run.errors import ActFailed, CandidateRefused, RunError
from provision.run.history import trial_lines
from provision.run.tried import Tried
from provision.spec import Engine, Gpu, Guest, Machine, Model, Service
from provision.stack import baselines, trials
from provision.stack.baselines import Belongs
from provision.stack.cutover import Cutover, Measure
from provision.stack.desired import DesiredService, desired_service
from provision.stack.trials import Trial

SERVICE = Service(
    name="tiny",
    engine=Engine(kind="standin", version="1.0.0"),
    model=Model(repo="kpro/tiny", revision="1" * 40),
)
GUEST = Guest(name="llm", backend="lxc", id="c1", gpus=["42:00.0"], services=[SERVICE])
MACHINE = Machine(name="box", gpus=[Gpu(bdf="42:00.0", model="RTX A6000")], gpu_count=1, guests=[GUEST])
OWN: DesiredService = desired_service(GUEST, SERVICE)
FRESH = '{"schema": "provcheck-baseline/1", "taken": "t", "tok_s": %s}'
TO: Belongs = baselines.belongs(MACHINE, GUEST, OWN)
KEY_PATH = baselines.path("tiny", TO.key)
OWN_PATH = baselines.path("tiny", baselines.own_key(TO.key, OWN.digest))


@dataclass
class Guests:
    """The files of a guest, as far as they are read and written here."""

    files: dict[str, str] = field(default_factory=dict)

    def read(self, host: Any, script: str, *_: Any, **__: Any) -> Any:
        path = script.split()[-1]
        return SimpleNamespace(ok=path in self.files, text=self.files.get(path, ""), rc=0, error_text="")

    def shell(self, host: Any, script: str, what: str, **_: Any) -> str:
        path = script.split()[-1]
        if script.startswith("rm "):
            self.files.pop(path, None)
        return self.files.get(path, "") if "cat" in script else ""

    def put(self, host: Any, path: str, data: bytes, *, mode: str) -> None:
        assert mode == "600"
        self.files[path] = data.decode()


class Run:
    """As much of a session as a cut-over asks for."""

    id = "r1"

    def __init__(self) -> None:
        self.tried = Tried()
        self.problems: list[Exception] = []
        self.said: list[str] = []
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.journal = SimpleNamespace(write=self.write)

    def write(self, event: str, **facts: Any) -> str:
        self.told.append((event, facts))
        return json.dumps(facts)

    tell_journal = write

    def say(self, text: str) -> None:
        self.said.append(text)

    def host(self, name: str) -> Any:
        return SimpleNamespace(name=name)

    def exchanging(self, machine: Any) -> bool:
        raise AssertionError("a refused candidate never brings the old driver back")

    def begin(self, machine: Any, item: Item) -> None:
        pass

    def end(self, machine: Any, item: Item, error: str | None = None) -> None:
        pass


@pytest.fixture
def guest(monkeypatch: pytest.MonkeyPatch) -> Guests:
    made = Guests()
    monkeypatch.setattr(trying.transport, "run", made.read)
    monkeypatch.setattr(shell, "run", made.shell)
    monkeypatch.setattr(shell, "put", made.put)
    monkeypatch.setattr(host_journal, "append", lambda *_: None)
    return made


def carry(
    monkeypatch: pytest.MonkeyPatch, run: Run, asked: Cutover | Measure, fails: str | None = None
) -> bool:
    def act(*_: Any) -> None:
        if fails is not None:
            raise ActFailed(fails)

    monkeypatch.setattr(acts, "carry_out", act)
    monkeypatch.setattr(carrying, "take_back", lambda *_: None)
    kind = "service.candidate" if isinstance(asked, Cutover) and asked.candidate else "service.cutover"
    item = Item(Step.SERVICE, kind, "@guest/box/llm", "tiny", "try it", asked, details={"forecast_s": 31.0})
    host: Any = SimpleNamespace(name="@guest/box/llm", connected=True, data=SimpleNamespace(guest=GUEST))
    done: bool = trying.tried(run, MACHINE, item)(None, host)  # type: ignore[arg-type]
    return done


def cutover(candidate: bool = True) -> Cutover:
    return Cutover(
        OWN, None, "swap", keep_baseline=baselines.fresh(KEY_PATH), forecast="31 s", candidate=candidate
    )


def record(said: str, **more: Any) -> str:
    facts: dict[str, Any] = {
        "digest": OWN.digest,
        "verdict": said,
        "run": "r1",
        "why": "slow\nmore",
        "mode": "swap",
    }
    return Trial(**facts | {"downtime_s": 28.5} | more).dump().decode()


def test_a_refused_candidate_is_told_and_fails_no_host(
    monkeypatch: pytest.MonkeyPatch, guest: Guests
) -> None:
    run = Run()
    guest.files[trials.path("tiny")] = record("refused")
    assert carry(monkeypatch, run, cutover(), "ended with 1")
    (problem,) = run.problems
    assert isinstance(problem, CandidateRefused)
    assert problem.exit_code == 1
    assert "slow" in str(problem)
    assert run.tried.refused == [problem]
    ((event, facts),) = run.told
    assert (event, facts["verdict"], facts["forecast_s"], facts["downtime_s"]) == (
        "trial",
        "refused",
        31.0,
        28.5,
    )


@pytest.mark.parametrize(
    "text",
    [
        None,
        record("refused", run="r0"),
        record("refused", digest="e" * 64),
        record("accepted"),
        record("refused").replace("kpro-trial/1", "kpro-trial/2"),
    ],
)
def test_a_failure_without_this_run_s_own_verdict_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, guest: Guests, text: str | None
) -> None:
    run = Run()
    monkeypatch.setattr(Run, "exchanging", lambda *_: False)
    if text is not None:
        guest.files[trials.path("tiny")] = text
    assert not carry(monkeypatch, run, cutover(), "the service is down")
    assert not run.tried.refused
    assert isinstance(run.problems[0], ActFailed)


def test_a_refused_profile_of_the_service_itself_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, guest: Guests
) -> None:
    run = Run()
    monkeypatch.setattr(Run, "exchanging", lambda *_: False)
    guest.files[trials.service_path("tiny")] = record("refused")
    assert not carry(monkeypatch, run, cutover(candidate=False), "ended with 1")
    assert run.told[0][1]["verdict"] == "refused"


def test_a_green_measurement_is_kept_for_its_kind_and_its_profile(
    monkeypatch: pytest.MonkeyPatch, guest: Guests
) -> None:
    run = Run()
    guest.files |= {trials.path("tiny"): record("accepted"), baselines.fresh(KEY_PATH): FRESH % "100.0"}
    assert carry(monkeypatch, run, cutover())
    for path in (KEY_PATH, OWN_PATH):
        kept = baselines.read("k", guest.files[path])
        assert kept is not None
        assert (kept.tok_s, kept.run, kept.digest, kept.belongs) == (100.0, "r1", OWN.digest, TO.as_dict())
    assert baselines.fresh(KEY_PATH) not in guest.files
    assert [event for event, _ in run.told] == ["trial", "baseline", "baseline"]


def test_a_worse_measurement_leaves_what_was_kept(monkeypatch: pytest.MonkeyPatch, guest: Guests) -> None:
    run = Run()
    before = {KEY_PATH: FRESH % "120.0", OWN_PATH: FRESH % "99.0"}
    guest.files |= before | {
        trials.path("tiny"): record("accepted"),
        baselines.fresh(KEY_PATH): FRESH % "100.0",
    }
    assert carry(monkeypatch, run, cutover())
    assert {path: guest.files[path] for path in before} == before


def test_nothing_is_kept_of_what_was_refused(monkeypatch: pytest.MonkeyPatch, guest: Guests) -> None:
    guest.files |= {trials.path("tiny"): record("refused"), baselines.fresh(KEY_PATH): FRESH % "500.0"}
    assert carry(monkeypatch, Run(), cutover(), "ended with 1")
    assert KEY_PATH not in guest.files


def test_a_reading_of_a_profile_that_the_inventory_no_longer_has_belongs_to_nothing(
    monkeypatch: pytest.MonkeyPatch, guest: Guests
) -> None:
    path = baselines.path("tiny", "e" * 12)
    guest.files[baselines.fresh(path)] = FRESH % "70.0"
    assert carry(monkeypatch, Run(), Measure(OWN, (), path, "e" * 64))
    kept = baselines.read("k", guest.files[path])
    assert kept is not None
    assert (kept.digest, kept.belongs) == ("e" * 64, None)


def test_a_measurement_that_is_none_is_said_and_fails_nothing(
    monkeypatch: pytest.MonkeyPatch, guest: Guests
) -> None:
    run = Run()
    guest.files |= {trials.path("tiny"): record("accepted"), baselines.fresh(KEY_PATH): "{cut"}
    assert carry(monkeypatch, run, cutover())
    assert any("cannot be kept" in text for text in run.said)


NOT_SPEED = ("serve.diagnosis", "fail", "nothing to explain")


@pytest.mark.parametrize(
    ("findings", "causes", "said", "not_said"),
    [
        ([("serve.output", "fail", "it repeats one word")], [], "serve.output fail: it repeats one word", "x"),
        (
            [("serve.ready", "fail", "401: the key was refused"), NOT_SPEED],
            [],
            "401: the key was refused",
            "nothing to explain",
        ),
        (
            [("serve.speed", "fail", "0.4x"), ("serve.diagnosis", "fail", "infrastructure: starved CPU")],
            [{"id": "starved_cpu"}],
            "serve.diagnosis fail: infrastructure: starved CPU",
            "0.4x",
        ),
        (
            [("serve.metrics", "unknown", "no page"), ("serve.speed", "fail", "0.4x"), NOT_SPEED],
            [],
            "serve.speed fail: 0.4x",
            "nothing to explain",
        ),
    ],
)  # fmt: skip
def test_a_service_that_is_not_well_is_no_baseline_and_the_cause_is_named(
    monkeypatch: pytest.MonkeyPatch, guest: Guests, findings: Any, causes: Any, said: str, not_said: str
) -> None:
    told = [dict(zip(("id", "status", "message"), one, strict=True)) for one in findings]
    report = {"findings": told, "facts": {"diagnosis": {"headline": "h", "causes": causes}}}
    done = SimpleNamespace(ok=False, stdout=json.dumps(report), text="none http://a:1", rc=1, error_text="")
    monkeypatch.setattr(baseline.transport, "run", lambda *_, **__: done)
    host: Any = SimpleNamespace(name="x")
    with pytest.raises(RunError, match=r"nothing is tried against it.*provcheck serve http") as raised:
        baseline.measure(host, Measure(OWN, (), KEY_PATH, OWN.digest), lambda text: None)  # type: ignore[arg-type]
    assert said in str(raised.value)
    assert not_said not in str(raised.value)


def test_a_run_shows_the_forecast_above_what_was_measured() -> None:
    seen = trials.read(record("refused", start_s=30.1, tok_s=95.2, acceptance=3.99))
    assert seen is not None
    event = {
        "at": "t",
        "service": "tiny",
        "host": "h",
        "profile": "p",
        "candidate": True,
        "forecast": "down for 31 s",
    }
    head, forecast, measured, *why = trial_lines(
        event | {k: v for k, v in seen.as_dict().items() if k != "forecast"}
    )
    assert "tiny on h: candidate p, swap: refused" in head
    assert forecast.split() == ["forecast", "down", "for", "31", "s"]
    assert "down for 28.5 s, started in 30.1 s, 95.2 tok/s, acceptance length 3.99" in measured
    assert [line.strip() for line in why] == ["slow", "more"]
    assert "no time that was measured" in trial_lines({"at": "t"})[2]
