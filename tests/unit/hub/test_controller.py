"""Whose token, which hub: read on the controller, shown to nobody else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from provision.hub import controller
from provision.hub.order import Order
from provision.hub.problems import Problem
from provision.plan import Item, Plan, Step
from provision.run.hub import Asked
from provision.spec import Hub, Machine, Model
from provision.stack.fetching import Fetch
from tests.doubles.hub.server import TOKEN
from tests.doubles.hub.server import Hub as Served

COMMIT = "ab" * 20


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "_from_environment", [])
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def served() -> Iterator[Served]:
    hub = Served()
    hub.add("org/m", {"config.json": b"{}", "m.safetensors": b"weights"})
    yield hub
    hub.close()


def model(**more: object) -> Model:
    return Model(repo="org/m", revision=COMMIT, source="hub", **more)  # type: ignore[arg-type]


def test_the_models_own_file_comes_before_the_machines_and_that_before_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, machines = tmp_path / "own", tmp_path / "machines"
    own.write_text("hf_own\n")
    machines.write_text("hf_machine\n")
    assert controller.token_of(model(), Hub()) is None
    monkeypatch.setenv("HF_TOKEN", "hf_environment")
    assert controller.token_of(model(), Hub()) == "hf_environment"
    assert controller.token_of(model(), Hub(token_file=machines)) == "hf_machine"
    assert controller.token_of(model(token_file=own), Hub(token_file=machines)) == "hf_own"


def test_a_token_of_the_environment_is_kept_from_every_program_that_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_environment")
    controller.hide_token()
    assert "HF_TOKEN" not in os.environ
    controller.hide_token()
    assert controller.token_of(model(), Hub()) == "hf_environment"


@pytest.mark.parametrize("text", ["", "two words", "hf_a\nhf_b", "hf_ü"])
def test_what_is_no_token_is_told_without_showing_it(text: str, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    with pytest.raises(Problem) as caught:
        controller.token_of(model(token_file=path), Hub())
    assert str(path) in str(caught.value)
    assert not text or text not in str(caught.value)


def test_a_token_file_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="cannot be read: No such file"):
        controller.token_of(model(token_file=tmp_path / "none"), Hub())


def test_an_order_shows_its_token_to_its_reader_alone() -> None:
    order = Order("org/m", COMMIT, "/srv/models/x@y", files=("*.json",), token="hf_secret")
    assert "hf_secret" not in repr(order)
    assert Order.from_json(order.to_json()) == order
    assert order.staging == "/srv/models/.incoming/x@y"


def test_the_endpoint_is_the_inventorys_else_the_environments_else_the_usual_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert controller.endpoint_of(Hub()) == "https://huggingface.co"
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example/")
    assert controller.endpoint_of(Hub()) == "https://mirror.example"
    assert controller.endpoint_of(Hub(endpoint="http://127.0.0.1:8/")) == "http://127.0.0.1:8"
    monkeypatch.setenv("HF_ENDPOINT", "nonsense")
    with pytest.raises(Problem, match="HF_ENDPOINT"):
        controller.endpoint_of(Hub())


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "huggingface.co",
        "ftp://h",
        "https://user:word@h",
        "https://h?x=1",
        "http://mirror.example",
        "https://h:x",
    ],
)
def test_an_address_that_a_token_may_not_be_shown_to_is_refused(endpoint: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Hub(endpoint=endpoint)
    assert "word" not in str(caught.value.errors()[0]["msg"]).replace("password", "")


@pytest.mark.parametrize(
    ("given", "origin"),
    [
        ({}, "in place"),
        ({"folder": "/a"}, "folder"),
        ({"path": "/a"}, "path"),
        ({"source": "hub"}, "hub"),
        ({"source": "hub", "files": ["*.json"], "token_file": "/t"}, "hub"),
        ({"source": "in place"}, "in place"),
    ],
)
def test_where_a_model_comes_from_is_said_once(given: dict[str, object], origin: str) -> None:
    assert Model(repo="a/b", revision=COMMIT, **given).origin == origin  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"source": "hub", "folder": "/a"}, "folder"),
        ({"source": "hub", "path": "/a"}, "path"),
        ({"source": "folder"}, "folder"),
        ({"source": "path"}, "path"),
        ({"folder": "/a", "path": "/b"}, "path"),
        ({"folder": "/a", "token_file": "/t"}, "token_file"),
        ({"files": ["*"]}, "files"),
        ({"source": "hub", "revision": "main"}, "revision"),
        ({"path": "relative"}, "path"),
    ],
)
def test_what_does_not_go_together_is_refused_by_its_field(given: dict[str, object], field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Model(**{"repo": "a/b", "revision": COMMIT, **given})  # type: ignore[arg-type]
    assert field in {str(error["loc"][0]) for error in caught.value.errors()}


def _plan(hub: Hub, **more: object) -> Plan:
    wanted = Fetch(model(**more), "model", "/srv/models/x", hub)
    return Plan("box", (Item(Step.STACK, "stack.fetch", "@local", "/srv/models/x", "fetch", wanted),))


def test_the_hub_is_asked_once_for_each_model_and_not_at_all_for_none(served: Served) -> None:
    asked, hub = Asked(), Hub(endpoint=served.endpoint)
    assert not asked.ask(Plan("box"))
    assert served.asked == []
    assert asked.ask(_plan(hub))
    (answer,) = asked.answers.values()
    assert isinstance(answer, Problem)
    assert answer.kind == "no-revision"
    requests = len(served.asked)
    assert not asked.ask(_plan(hub))
    assert len(served.asked) == requests


def test_a_hub_that_is_not_there_is_an_answer_too() -> None:
    answer = controller.answer(model(), "model", Hub(endpoint="http://127.0.0.1:9"))
    assert isinstance(answer, Problem)
    assert answer.kind == "unreachable"
    assert "this controller" in answer.seen


def test_a_machine_without_a_word_about_the_hub_uses_the_usual_one() -> None:
    assert Machine(name="box").hub == Hub()
    assert TOKEN not in repr(Machine(name="box", hub=Hub(token_file="/t")))  # type: ignore[arg-type]
