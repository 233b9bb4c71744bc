"""The source may be a service that somebody set up by hand, as ``provision init`` wrote it down."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from provision.adopt import models
from provision.init.describe import Description
from provision.init.write import inventory_text
from provision.migrate import looks
from provision.migrate.case import Case
from provision.migrate.decide import by_rule, judge
from provision.migrate.ends import End
from provision.migrate.moves import moves
from provision.migrate.notes import notes
from provision.migrate.reading import guest_look
from provision.migrate.seen import GuestLook, UnitLook
from provision.spec import Engine, Found, Machine, Model
from tests.unit.adopt import test_described as adopted
from tests.unit.migrate import preflight_pair as pairs
from tests.unit.migrate.preflight_pair import Given, green
from tests.unit.plan.seen import Seen

UNIT = """\
Id=llm.service
LoadState=loaded
ActiveState=active
SubState=running
UnitFileState=enabled
MainPID=77
NRestarts=0
ActiveEnterTimestamp=Mon
FragmentPath=/etc/systemd/system/llm.service
DropInPaths=
name=HF_TOKEN
name=VLLM_USE_V1
name=PATH
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """What init found, written to a file and read back."""
    path = tmp_path / "kpro6.py"
    path.write_text(inventory_text(adopted.described(), "As it was found."))
    spec = importlib.util.spec_from_file_location("kpro6", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Machine = module.machine
    return found


def answers(end: End, state: str = "active", words: list[str] | None = None) -> Seen:
    """The guest's answers to what is asked of it."""
    seen = adopted.inside(words or adopted.WORDS, state)
    seen.cmd("systemd", "").tools("python3").cmd("unit", UNIT.replace("State=active", f"State={state}", 1))
    seen.cmd("listening", "owners\n").cmd("generates", "generated\n")
    assert end.folder("model") == adopted.MODEL
    seen.cmd(models.look_name(adopted.MODEL), f"{adopted.MODEL}\n3 config.json\n")
    return seen.cmd("folder-model", f"{adopted.MODEL}\n0 0\n1 3 512 1.0\n3 config.json\n")


def given(machine: Machine, look: GuestLook | None = None, state: str = "active") -> Given:
    base = green()
    end = pairs.end("source", machine)
    service = end.service
    more = {
        "name": service.name,
        "model": Model(repo=service.model.repo, revision=service.model.revision),
        "engine": Engine(kind="vllm", version="0.20.1"),
        "flags": service.flags,
        "migration": None,
    }
    target = pairs.machine("kpro5", 5, pairs.service(**more))
    pair = replace(base.pair, source=end, target=pairs.end("target", target), digests={})
    seen = look or guest_look(pair, end, answers(end, state).snapshot)
    assert base.source is not None
    return Given(replace(base.source, guest=seen), base.target, pair, base.plan)


def kinds(one: Given) -> set[str]:
    return set(by_rule(one.source, one.target, one.pair, one.plan))


def test_a_service_that_init_described_may_move(machine: Machine) -> None:
    one = given(machine)
    assert [str(text) for text in judge(one.source, one.target, one.pair, one.plan)] == []


def test_its_unit_and_its_folder_are_those_that_were_found(machine: Machine) -> None:
    one = given(machine)
    (unit,) = [
        text for text in looks.guest_requests(one.pair, one.pair.source) if text.startswith("cmd:unit:")
    ]
    assert "'llm.service'" in unit
    assert one.source is not None
    assert one.source.guest is not None
    assert isinstance(one.source.guest.unit, UnitLook)
    found = {move.kind: move for move in moves(Case(one.pair, one.source, one.target, one.plan)).moves}
    assert found["model"].source == adopted.MODEL
    assert found["model"].target == one.pair.target.service.model.directory
    assert found["unit"].source == "/etc/systemd/system/llm.service"
    assert found["unit"].what == f"kpro-{one.pair.target.service.name}.service"
    assert found["engine environment"].source == "/opt/v"


def test_it_is_held_against_its_inventory_as_a_plan_would(machine: Machine) -> None:
    end = pairs.end("source", machine)
    pair = given(machine).pair
    other = answers(end, words=[*adopted.WORDS, "--seed", "1"])
    assert kinds(given(machine, guest_look(pair, end, other.snapshot))) == {"drift"}
    gone = answers(end)
    gone.cmd(models.look_name(adopted.MODEL), "sh: cd: no such folder\n", 1)
    assert {"drift", "model files"} <= kinds(given(machine, guest_look(pair, end, gone.snapshot)))


def test_a_stopped_one_is_refused_with_the_way_out(machine: Machine) -> None:
    one = given(machine, state="inactive")
    assert {"source serves", "drift"} == kinds(one)
    assert any("--cold" in str(text) for text in judge(one.source, one.target, one.pair, one.plan))


def test_its_variables_are_told_by_name_where_the_target_does_not_set_them(machine: Machine) -> None:
    one = given(machine)
    said = notes(Case(one.pair, one.source, one.target, one.plan))
    assert any("variables only on kpro6: HF_TOKEN, VLLM_USE_V1" in text for text in said)
    assert not any("PATH" in text for text in said)


def test_a_key_in_its_words_counts_as_a_key() -> None:
    found: Description = adopted.described(seen=adopted.inside([*adopted.WORDS, "--api-key", "sk-x"]))
    assert pairs.end("source", found.machine).has_key
    assert kinds(given(found.machine)) >= {"key"}


def test_a_drafter_in_the_hub_s_cache_lies_beside_its_model() -> None:
    commit, other = "a" * 40, "b" * 40
    words = (
        "vllm",
        "serve",
        "org/m",
        "--speculative-config",
        '{"model": "org/d", "num_speculative_tokens": 3}',
    )
    found = Found(unit="x.service", command=words, model=f"/h/hub/models--org--m/snapshots/{commit}")
    one = pairs.service(
        found=found,
        model=Model(repo="org/m", revision=commit),
        drafter=Model(repo="org/d", revision=other),
        flags=(),
        migration=None,
    )
    end = pairs.end("source", pairs.machine("kpro6", 6, one, managed=False))
    assert end.folder("drafter") == f"/h/hub/models--org--d/snapshots/{other}"
    by_path = (*words[:-1], '{"model": "/data/d/"}')
    named = one.model_copy(update={"found": found.model_copy(update={"command": by_path})})
    assert pairs.end("source", pairs.machine("kpro6", 6, named, managed=False)).folder("drafter") == "/data/d"
