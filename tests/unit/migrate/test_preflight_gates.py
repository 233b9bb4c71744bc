"""Gates that are asked before anything is copied, versions of rsync that fail, and what the inventories know."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from provision.data.migrating import BROKEN, LIMITS, limit, version_of
from provision.host.transport import Completed
from provision.migrate import gates, known
from provision.migrate.ends import Asked, Pair
from provision.migrate.preflight import asked
from provision.planner import Observed, Wanted
from provision.spec import Candidate, Engine, Gpu, Model
from provision.stack.decide import Shipped
from provision.stack.desired import desired_service
from tests.unit.migrate import preflight_pair as pairs
from tests.unit.migrate.preflight_pair import green
from tests.unit.plan.seen import Seen

COMMAND = (
    "/opt/kpro/envs/x/bin/vllm",
    "serve",
    "/m",
    "--max-model-len",
    "32768",
    "--tensor-parallel-size",
    "1",
)


def pair(**more: object) -> Pair:
    return replace(green().pair, commands={"target": COMMAND}, **more)  # type: ignore[arg-type]


def test_the_source_s_files_are_asked_for_the_target_s_gpus_and_engine() -> None:
    ((gate, words),) = gates.questions(pair())
    assert gate == "fit"
    assert words[:2] == ("fit", pairs.model().directory)
    assert words[words.index("--gpus") + 1] == "1xRTX A6000"
    assert words[words.index("--context") + 1] == "32768"
    assert words[words.index("--engine") + 1] == "vllm==0.20.1"
    assert gates.script(words).startswith("'/usr/bin/python3' '/opt/kpro/provcheck.pyz' 'fit'")


def test_a_drafter_that_moves_is_judged_with_the_target_s_engine() -> None:
    drafter = Model(repo="z-lab/D", revision=pairs.OTHER)
    given = green()
    for role in ("source", "target"):
        given = pairs.written(given, role, pairs.with_service(drafter=drafter))
    found = dict(gates.questions(replace(given.pair, commands={"target": COMMAND})))
    assert found["drafter"][1] == drafter.directory
    assert "--drafter" in found["fit"]


def test_what_cannot_be_asked_from_files_is_not_asked() -> None:
    assert gates.questions(replace(pair(), commands={})) == []
    strange = (Gpu(bdf="42:00.0", model="X1"),)
    other = pairs.written(green(), "target", lambda one: one.model_copy(update={"gpus": strange}))
    assert gates.questions(replace(other.pair, commands={"target": COMMAND})) == []
    unknown = pairs.written(
        green(), "target", pairs.with_service(engine=Engine(kind="standin", version="1.0.0"))
    )
    assert gates.questions(replace(unknown.pair, commands={"target": COMMAND})) == []


class Guest:
    def __init__(self, done: Completed | OSError) -> None:
        self.done = done

    def inside(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
        if isinstance(self.done, OSError):
            raise self.done
        return self.done

    host = inside


def answered(code: int, out: str, error: str = "") -> Asked:
    (one,) = asked(pair(), Guest(Completed(code, out.encode(), error.encode())))
    return one


FINDINGS = [
    {"id": "fit.memory", "status": "fail", "message": "60 of 47 GiB"},
    {"id": "fit.other", "status": "pass"},
]
RED = {"verdict": "fail", "findings": FINDINGS}


def test_a_red_gate_keeps_its_reasons_and_no_answer_is_unknown() -> None:
    assert answered(1, json.dumps(RED)) == Asked("fit", "fail", ("fit.memory: 60 of 47 GiB",))
    assert answered(0, json.dumps({"verdict": "pass", "findings": []})) == Asked("fit", "pass")
    assert answered(127, "", "python3: not found").verdict == "unknown"
    assert answered(0, "[]").verdict == "unknown"
    assert answered(0, json.dumps({"verdict": "splendid"})).verdict == "unknown"
    (lost,) = asked(pair(), Guest(OSError("the connection broke")))
    assert lost == Asked("fit", "unknown", ("the connection broke",))


@pytest.mark.parametrize(
    ("version", "package", "hit"),
    [
        ("3.4.0", None, [True, False]),
        ("3.4.1", None, [False, True]),
        ("3.2.7", "3.2.7-1", [False, False]),
        ("3.2.7", "3.2.7-1+deb12u1", [True, False]),
        ("3.2.7", "3.2.7-1+deb12u6", [False, True]),
        ("3.2.7", "3.2.7-1ubuntu1.1", [True, False]),
        ("3.2.7", "3.2.7-1ubuntu1.4", [False, True]),
        ("3.5.0", "3.5.0+ds1-0+deb12u1", [False, False]),
        ("3.4.0", "3.4.0+deb13u9", [False, False]),
    ],
)
def test_a_version_of_rsync_is_known_to_fail_by_its_release_and_its_revision(
    version: str, package: str | None, hit: list[bool]
) -> None:
    assert [row.hits(version, package) for row in BROKEN] == hit


def test_every_row_and_limit_says_why_and_where_that_is_from() -> None:
    assert all(row.text and row.source for row in BROKEN)
    assert all(row.why and row.source and row.value > 0 for row in LIMITS)
    with pytest.raises(KeyError):
        limit("nothing")


def test_versions_are_compared_as_numbers() -> None:
    assert version_of("3.10.1pre2") == (3, 10, 1)
    assert version_of("3.10.1") > version_of("3.9")
    assert version_of("v3") == ()


def test_the_inventories_know_which_profiles_may_run_and_whether_the_keys_are_one() -> None:
    tried = Candidate(engine=Engine(kind="vllm", version="0.20.1"), profile="plain", flags=("--seed", "1"))
    given = pairs.written(green(), "source", pairs.with_service(candidate=tried))
    end = given.pair.source
    made = desired_service(end.guest, end.service, end.machine)
    wanted = Wanted({"llm": (made,)}, Shipped("/x", "a" * 64), None)
    one = known.desired(end, wanted)
    assert one is not None
    assert one.candidate is not None
    assert known.digests(one) == {one.digest: "own profile", one.candidate.digest: "candidate"}
    assert known.digests(None) == {}
    assert known.command(end, one)[1] == "serve"
    assert known.same_key(one, one) is True
    assert known.same_key(one, replace(one, key="sk-x")) is False
    assert known.same_key(one, None) is None
    assert known.starts(end, wanted, Observed(Seen().snapshot, {"llm": None})).start is None
    assert known.starts(end, wanted, Observed(Seen().snapshot, {"llm": Seen().snapshot})).start is None
