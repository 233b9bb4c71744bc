"""Going back to the profile that served before: which one that is, and that it is not put into service again."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from provision.acts import shell
from provision.run import rollback_service
from provision.run.rollback_service import KEPT, Before
from provision.spec import Candidate, Engine, Guest, Machine, Model, Service
from provision.stack import trials
from provision.stack.desired import DesiredService, desired_service
from provision.stack.held import Held
from provision.stack.trials import Trial

ENGINE = Engine(kind="standin", version="1.0.0")
SERVICE = Service(
    name="tiny",
    engine=ENGINE,
    model=Model(repo="kpro/tiny", revision="1" * 40),
    candidate=Candidate(engine=ENGINE, profile="plain", flags=["--tok-s", "400"]),
)
GUEST = Guest(name="llm", backend="lxc", id="c1", services=[SERVICE])
OWN: DesiredService = desired_service(GUEST, SERVICE)
PROMOTED = OWN.candidate or OWN
SERVES = Held(
    good=PROMOTED.digest, running=PROMOTED.digest, up=True, verdict=Trial(PROMOTED.digest, "accepted")
)
HOST: Any = SimpleNamespace(name="@guest/box/llm")


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    made = {
        f"{KEPT}/tiny/unit": OWN.unit,
        f"{KEPT}/tiny/env": OWN.environment,
        f"{KEPT}/tiny/url": f"{OWN.url}\n",
    }

    def run(host: Any, script: str, **_: Any) -> Any:
        path = script.removeprefix("cat ")
        return SimpleNamespace(ok=path in made, text=made.get(path, ""))

    def put(host: Any, path: str, data: bytes, *, mode: str) -> None:
        made[path] = data.decode()

    monkeypatch.setattr(rollback_service.transport, "run", run)
    monkeypatch.setattr(shell, "run", lambda *_, **__: "")
    monkeypatch.setattr(shell, "put", put)
    return made


def test_what_served_before_is_what_the_last_cut_over_kept(files: dict[str, str]) -> None:
    back, said = rollback_service._kept(HOST, OWN, SERVES)
    assert back is not None
    assert said == ""
    assert (back.digest, back.unit, back.environment) == (OWN.digest, OWN.unit, OWN.environment)
    assert back.staged_unit == "/etc/kpro/staged/back/kpro-tiny.service"
    assert back.trial is None


@pytest.mark.parametrize(
    ("spoil", "held", "said"),
    [
        ({"unit": None}, SERVES, "no profile served before"),
        ({"env": None}, SERVES, "no profile served before"),
        ({"unit": "[Service]\nExecStart=/bin/x\n"}, SERVES, "no unit of kpro's"),
        ({"url": "http://127.0.0.1:9\n"}, SERVES, "http://127.0.0.1:9"),
        ({}, replace(SERVES, good=OWN.digest, running=OWN.digest), "serves now"),
        ({}, replace(SERVES, verdict=Trial(OWN.digest, "refused", when="then")), "taken back already (then)"),
    ],
)
def test_where_there_is_nothing_to_go_back_to_it_says_why(
    files: dict[str, str], spoil: dict[str, str | None], held: Held, said: str
) -> None:
    for part, text in spoil.items():
        files.pop(f"{KEPT}/tiny/{part}")
        if text is not None:
            files[f"{KEPT}/tiny/{part}"] = text
    back, why = rollback_service._kept(HOST, OWN, held)
    assert back is None
    assert said in why


def test_a_candidate_that_is_taken_back_is_refused_from_then_on(files: dict[str, str]) -> None:
    machine = Machine(name="box", guests=[GUEST])
    session: Any = SimpleNamespace(id="r9")
    rollback_service._taken_back(session, Before(machine, HOST, OWN, SERVES, OWN, ""))
    found = trials.read(files[trials.path("tiny")])
    assert found is not None
    assert (found.digest, found.verdict, found.run) == (PROMOTED.digest, "refused", "r9")
    assert not replace(SERVES, verdict=found, accepted=Trial(PROMOTED.digest, "accepted")).allows(
        PROMOTED.digest
    )


def test_going_back_from_a_profile_of_the_service_itself_leaves_the_verdicts(files: dict[str, str]) -> None:
    held = replace(SERVES, good="e" * 64, running="e" * 64)
    before = Before(Machine(name="box", guests=[GUEST]), HOST, OWN, held, OWN, "")
    rollback_service._taken_back(SimpleNamespace(id="r9"), before)  # type: ignore[arg-type]
    assert trials.path("tiny") not in files
