"""When a copy is done: its files are in their place, and equal."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from provision.migrate.on_files import is_copied


@pytest.mark.parametrize(
    ("placed", "differs", "done"),
    [(True, [], True), (False, [], False), (True, ["model.safetensors"], False), (False, ["x"], False)],
)
def test_what_is_gathered_and_not_in_its_place_is_not_copied(
    placed: bool, differs: list[str], done: bool
) -> None:
    copy = SimpleNamespace(placed=lambda: placed, verify=lambda: differs)
    assert is_copied(SimpleNamespace(copy=copy)) is done  # type: ignore[arg-type]
