"""What a status says of a service: what runs, its last trial, what it is held against, what has drifted."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from provision.spec import Baseline, Engine, Guest, Model, Service
from provision.stack import baselines, candidate, trials
from provision.stack.baselines import Belongs
from provision.stack.desired import DesiredService, desired_service, sha256
from provision.stack.trials import Trial
from provision.status import serving
from provision.status.show import show
from provision.status.state import Status
from tests.unit.plan.seen import Seen
from tests.unit.plan.tried import promoted

SERVICE = Service(
    name="tiny",
    engine=Engine(kind="standin", version="1.0.0"),
    model=Model(repo="kpro/tiny", revision="1" * 40),
    baseline=Baseline(decode_tok_s=73.5, source="by hand"),
    candidate={
        "engine": {"kind": "standin", "version": "1.0.0"},
        "profile": "plain",
        "flags": ["--tok-s", "9"],
    },
)
GUEST = Guest(name="llm", backend="lxc", id="c1", services=[SERVICE])
OWN = desired_service(GUEST, SERVICE)
TO = Belongs("kpro/tiny@1", "standin 1.0.0", OWN.engine.digest[:12], ("RTX A6000",))
MEASURED = (
    b'{"schema": "provcheck-baseline/1", "taken": "2026-11-29T15:30:00Z", "tok_s": 88.5, "length": 3.9}'
)


def runs(desired: DesiredService, verdict: Trial | None = None, **other: Any) -> Seen:
    seen = Seen().remembers(
        OWN,
        verdict.dump().decode() if verdict else None,
        {TO.key: baselines.with_origin(MEASURED, "r7", OWN.digest, TO)},
        **other,
    )
    seen.put("sha", OWN.unit_path, sha256(desired.unit)).put(
        "sha", OWN.environment_path, sha256(desired.environment)
    )
    seen.put("file", OWN.good_path, desired.digest).cmd("running-tiny", desired.digest)
    return seen.cmd("unit-tiny", "ActiveState=active\nSubState=running\nUnitFileState=enabled\n")


def kept(seen: Seen) -> dict[str, Any]:
    told = serving.kept(OWN, seen.snapshot)
    status = Status("box", "in sync", (), (), "d", "k", ({"guest": "llm", "backend": "lxc", "id": "c1", "state": "running", "services": [{"unit": "u", "active": "active", "model": "m", "port": 1, "engine": "e", **told}]},), None, [], (), None, None, {})  # fmt: skip # noqa: E501
    out = io.StringIO()
    show([status], [{}], Console(file=out, width=400))
    return told | {"table": out.getvalue()}


REFUSED = Trial(promoted(OWN).digest, "refused", "beats=1.1", "not better: 0.5x\nmore", "swap", "", 94.2, 31.0, 44.0, 40.0, 2.5, "2026-11-29", "r8")  # fmt: skip # noqa: E501


def test_the_own_profile_with_its_environment_and_every_reading() -> None:
    told = kept(runs(OWN))
    assert (told["runs"], told["environment"], told["seen_well"], told["drift"]) == (
        "own profile",
        OWN.engine.digest[:12],
        True,
        [],
    )
    stated, measured = told["baselines"]
    assert (stated["key"], stated["tok_s"], stated["source"]) == ("stated", 73.5, "by hand")
    assert (measured["key"], measured["tok_s"], measured["acceptance_length"], measured["run"]) == (
        TO.key, 88.5, 3.9, "r7",
    )  # fmt: skip
    assert measured["belongs_to"] == TO.as_dict()
    assert (
        "baseline measured: 88.5 tok/s, acceptance length 3.90, 2026-11-29T15:30:00Z, run r7" in told["table"]
    )
    assert "RTX A6000" in told["table"]


def test_a_refused_candidate_with_its_figures_and_cause() -> None:
    told = kept(runs(OWN, REFUSED))
    assert told["verdict"]["downtime_s"] == 94.2
    assert told["verdict_is_of_today"] is True
    assert (
        "last candidate: refused, swap, 2026-11-29, run r8, down for 94.2 s, started in 31.0 s"
        in told["table"]
    )
    assert "not better: 0.5x" in told["table"]
    assert "more" in told["table"]
    other = kept(runs(OWN, Trial("e" * 64, "refused")))
    assert other["verdict_is_of_today"] is False


def test_a_refused_change_of_the_own_profile_says_so_and_why() -> None:
    why = "tiny did not come to generate: x; it said: boom\nits log is in the guest: journalctl\na\nb\nc"
    own = Trial("e" * 64, "refused", why=why, mode="beside", when="2026-11-29")
    table = kept(runs(OWN).put("file", trials.service_path("tiny"), own.dump().decode()))["table"]
    assert "last cut-over of the service's own profile: refused, beside, 2026-11-29" in table
    assert "it said: boom" in table
    assert "journalctl" in table
    well = Trial(OWN.digest, "accepted", why="odd", mode="beside", when="2026-11-29")
    table = kept(runs(OWN).put("file", trials.service_path("tiny"), well.dump().decode()))["table"]
    assert "own profile: accepted, beside" in table
    assert "odd" not in table


def test_profiles_that_differ_by_flags_alone_have_names_apart() -> None:
    own, other = (candidate.name_of(one) for one in (OWN, promoted(OWN)))
    assert own != other
    assert own.startswith("standin 1.0.0 plain (")
    assert f"runs: own profile plain ({OWN.digest[:6]})" in kept(runs(OWN))["table"]


@pytest.mark.parametrize(
    ("running", "verdict", "word"),
    [
        (promoted(OWN).digest, None, "candidate"),
        ("e" * 64, Trial("e" * 64, "accepted"), "earlier candidate"),
        ("e" * 64, None, "another profile"),
        ("", None, "nothing"),
    ],
)
def test_what_runs_is_named(running: str, verdict: Trial | None, word: str) -> None:
    assert kept(runs(OWN, verdict).cmd("running-tiny", running))["runs"] == word


@pytest.mark.parametrize(
    ("spoil", "field"),
    [
        (lambda seen: seen.put("sha", OWN.unit_path, "0" * 64), "unit"),
        (lambda seen: seen.put("sha", OWN.environment_path, None), "environment file"),
        (lambda seen: seen.cmd("running-tiny", "e" * 64), "profile"),
        (lambda seen: seen.put("file", OWN.good_path, None), "seen well"),
        (lambda seen: seen.cmd("unit-tiny", "ActiveState=active\nUnitFileState=disabled\n"), "boot"),
    ],
)
def test_drift_is_named(spoil: Any, field: str) -> None:
    assert field in [row["field"] for row in kept(spoil(runs(OWN)))["drift"]]


def test_a_record_that_makes_no_sense_is_said_and_is_no_verdict() -> None:
    seen = runs(OWN).put("file", "/var/lib/kpro/trials/tiny.json", "{cut")
    told = kept(seen)
    assert told["verdict"] is None
    assert "holds no verdict" in told["table"]


def test_a_service_that_somebody_else_set_up_shows_what_the_inventory_states_of_it() -> None:
    (one,) = serving.stated(SERVICE)
    assert (one["key"], one["tok_s"], one["concurrency"]) == ("stated", 73.5, 1)
    assert "baseline stated: 73.5 tok/s, by hand" in serving.lines({"baselines": [one]})
    # The same reading under two keys is one line.
    twice = [{**one, "key": key} for key in ("ab12", "cd34")]
    assert serving.lines({"baselines": twice}) == ["baseline measured: 73.5 tok/s, by hand"]
    assert serving.stated(SERVICE.model_copy(update={"baseline": None})) == []
