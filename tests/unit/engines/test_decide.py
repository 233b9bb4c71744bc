"""What a guest lacks of an engine environment, one spoilt thing at a time."""

from __future__ import annotations

import json

import pytest

from provision.plan import Item, Refusal
from provision.spec import Engine
from provision.stack.engine import tree
from provision.stack.engine.decide import earlier, engine_items
from provision.stack.engine.desired import DesiredEngine, Shipped, desired_engine
from tests.unit.plan.seen import Seen

UV = Shipped("/x/uv", "b" * 64)
LOOKED = "python 3.12.3\nversion 0.20.1\nfolder 0a\nfolder 0b\n"


def decide(engine: DesiredEngine, inside: Seen | None) -> tuple[list[Item], list[Refusal]]:
    refusals: list[Refusal] = []
    seen = inside.snapshot if inside is not None else None
    return engine_items(engine, "@guest/box/llm", seen, UV, refusals, "services[0]"), refusals


@pytest.fixture
def in_tree() -> DesiredEngine:
    return desired_engine(
        Engine(
            kind="vllm",
            version="0.20.1",
            source="tree",
            python="3.12",
            interpreter="/usr/bin/python3.12",
            folders=("/opt/site", "/opt/torch"),
        )
    )


def made(engine: DesiredEngine, looked: str = LOOKED) -> Seen:
    """The environment as the act leaves it, with the tree that was looked at then."""
    marker = {"digest": engine.digest, "tree": tree.parse(looked).digest}
    return Seen().put("file", engine.marker, json.dumps(marker)).cmd(tree.name(engine), looked)


def test_a_tree_needs_no_uv_and_names_its_folders(in_tree: DesiredEngine) -> None:
    items, refusals = decide(in_tree, None)
    assert ([item.kind for item in items], refusals) == (["stack.engine"], [])
    assert "/opt/site, /opt/torch" in items[0].text


def test_a_tree_that_was_verified_and_has_not_changed_is_in_sync(in_tree: DesiredEngine) -> None:
    assert decide(in_tree, made(in_tree)) == ([], [])


def test_a_changed_tree_is_noticed_and_seen_importing_again(in_tree: DesiredEngine) -> None:
    inside = made(in_tree).cmd(tree.name(in_tree), LOOKED.replace("0a", "0c"))
    items, _ = decide(in_tree, inside)
    assert "is not what was verified" in items[0].text


def test_another_patch_level_of_the_interpreter_is_a_change(in_tree: DesiredEngine) -> None:
    inside = made(in_tree).cmd(tree.name(in_tree), LOOKED.replace("3.12.3", "3.12.4"))
    assert len(decide(in_tree, inside)[0]) == 1


def test_a_tree_that_is_gone_is_refused_and_nothing_is_planned(in_tree: DesiredEngine) -> None:
    inside = made(in_tree).cmd(tree.name(in_tree), "python 3.12.3\nabsent /opt/site\nabsent /opt/torch\n")
    items, refusals = decide(in_tree, inside)
    assert items == []
    assert [refusal.where for refusal in refusals] == ["services[0].engine.folders"] * 2


def test_order_and_place_of_the_folders_make_another_environment(in_tree: DesiredEngine) -> None:
    def with_folders(*folders: str) -> str:
        return desired_engine(
            Engine(
                kind="vllm",
                version="0.20.1",
                source="tree",
                python="3.12",
                interpreter="/usr/bin/python3.12",
                folders=folders,
            )
        ).path

    assert with_folders("/opt/site", "/opt/torch") == in_tree.path
    assert with_folders("/opt/torch", "/opt/site") != in_tree.path


@pytest.fixture
def from_index() -> DesiredEngine:
    return desired_engine(Engine(kind="standin", version="1.0.0"))


def bare(engine: DesiredEngine, room: str = "glibc glibc 2.36\npython 3.11\n") -> Seen:
    return (
        Seen()
        .put("file", engine.marker, None)
        .put("sha", "/opt/kpro/bin/uv", UV.sha256)
        .cmd("engine-room", room)
    )


def test_what_is_built_says_where_it_comes_from(from_index: DesiredEngine) -> None:
    items, refusals = decide(from_index, bare(from_index))
    assert refusals == []
    assert "kpro-standin==1.0.0 from the guest's Python index" in items[0].text


def test_a_guest_that_cannot_have_it_is_refused_before_anything_is_put(from_index: DesiredEngine) -> None:
    _, refusals = decide(from_index, bare(from_index, "glibc glibc 2.36\npython 3.13\n"))
    assert [refusal.where for refusal in refusals] == ["services[0].engine.python"]


def test_an_environment_that_is_there_asks_for_no_room(from_index: DesiredEngine) -> None:
    marker = json.dumps({"digest": from_index.digest})
    inside = bare(from_index, "").put("file", from_index.marker, marker)
    assert decide(from_index, inside) == ([], [])


def test_environments_of_before_are_told_and_kept(from_index: DesiredEngine) -> None:
    inside = Seen().put("dir", "/opt/kpro/envs", f"{from_index.name}\nvllm-0.20.1-aaaaaaaaaaaa\n")
    (note,) = earlier([from_index], inside.snapshot)
    assert "vllm-0.20.1-aaaaaaaaaaaa" in note
    assert from_index.name not in note
    assert earlier([from_index], Seen().put("dir", "/opt/kpro/envs", f"{from_index.name}\n").snapshot) == []
