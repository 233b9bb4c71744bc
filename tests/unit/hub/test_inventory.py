"""An inventory with models from the hub: what is wrong in it is told by its field."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.inventory import InventoryRefused, load
from tests.doubles.hub.server import Hub

TEXT = """\
from provision.spec import *

machine = Machine(
    name="box",
    hub=Hub({hub}),
    guests=[
        Guest(name="llm", backend="lxc", id="c1", services=[
            Service(
                name="s",
                engine=Engine(kind="standin", version="1.0.0"),
                model=Model(repo="org/m", revision={revision!r}, {model}),
            ),
        ]),
    ],
)
metal, guests = machine.pyinfra_groups()
"""
FIELD = "machine.guests[0].services[0].model"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    hub = Hub()
    hub.add("org/m", {"config.json": b"{}"})
    yield hub
    hub.close()


def reasons(
    folder: Path, *, hub: str = "", model: str = "source='hub'", revision: str = "1" * 40
) -> list[str]:
    path = folder / "box.py"
    path.write_text(TEXT.format(hub=hub, model=model, revision=revision))
    try:
        load(str(path))
    except InventoryRefused as refused:
        return refused.reasons
    return []


def test_a_branch_is_refused_with_the_commit_that_it_is_at_now(served: Hub, tmp_path: Path) -> None:
    endpoint = f"endpoint={served.endpoint!r}"
    (text,) = reasons(tmp_path, hub=endpoint, revision="main")
    assert text.startswith(f"{FIELD}.revision: 'main' is no commit of 40 hex digits")
    assert f"it is at {served.repos['org/m'].commit} now" in text
    (text,) = reasons(tmp_path, hub=endpoint, revision="no-such-branch")
    assert "now" not in text


def test_a_model_that_does_not_come_from_the_hub_is_not_asked_about(served: Hub, tmp_path: Path) -> None:
    (text,) = reasons(tmp_path, hub=f"endpoint={served.endpoint!r}", model="path='/x'", revision="main")
    assert "is no commit" in text
    assert served.asked == []


def test_a_hub_that_is_away_changes_nothing_about_the_refusal(tmp_path: Path) -> None:
    (text,) = reasons(tmp_path, hub="endpoint='http://127.0.0.1:9'", revision="main")
    assert "is no commit of 40 hex digits" in text


@pytest.mark.parametrize("field", ["model", "hub"])
@pytest.mark.parametrize(
    ("mode", "content", "why"),
    [
        (0o600, "hf_x\n", None),
        (0o640, "hf_x\n", "is open to others"),
        (0o600, "", "is empty"),
        (0o600, "\n", "is empty"),
        (0o600, "hf_x hf_y", "more than one word"),
    ],
)
def test_a_token_file_is_secret_and_holds_one_token(
    tmp_path: Path, field: str, mode: int, content: str, why: str | None
) -> None:
    token = tmp_path / "token"
    token.write_text(content)
    token.chmod(mode)
    given = f"token_file={str(token)!r}"
    found = (
        reasons(tmp_path, hub=given) if field == "hub" else reasons(tmp_path, model=f"source='hub', {given}")
    )
    where = "machine.hub.token_file" if field == "hub" else f"{FIELD}.token_file"
    if why is None:
        assert found == []
    else:
        (text,) = found
        assert text.startswith(f"{where}: ")
        assert why in text
        assert "hf_x" not in text
