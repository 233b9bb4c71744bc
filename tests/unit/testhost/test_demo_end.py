"""How the quick demonstration ends: it keeps and removes what it made, and says no more than that."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from provision.testhost import demo

CONFIG = f"{demo.CONTAINER}/config"


@pytest.fixture
def lxc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(demo, "_files", lambda: 0)
    monkeypatch.setattr(demo, "_lxcpath", lambda: tmp_path)
    monkeypatch.setattr(demo.demo, "folder", lambda name: tmp_path / name)
    monkeypatch.setattr(demo.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=0))
    (tmp_path / CONFIG).parent.mkdir()
    (tmp_path / CONFIG).write_text(demo._MARK)
    return tmp_path


def ends(code: int, keep: bool, capsys: Any) -> str:
    commands = SimpleNamespace(apply=lambda *_: code, plan=lambda *_: 0)
    assert demo.run(commands, keep=keep) == code
    said: str = capsys.readouterr().err
    return said


@pytest.mark.parametrize("keep", [True, False])
def test_one_that_found_the_machine_held_by_another_run_keeps_and_removes_nothing(
    lxc: Path, capsys: Any, keep: bool
) -> None:
    said = ends(4, keep, capsys)
    assert "nothing was made, so nothing is kept or removed" in said
    assert "kept: look" not in said
    assert "cleaned up" not in said


def test_what_was_made_is_kept_and_told_or_removed(lxc: Path, capsys: Any) -> None:
    assert "kept: look into it" in ends(0, True, capsys)
    assert "cleaned up" in ends(0, False, capsys)


def test_nothing_is_called_kept_that_was_never_made(lxc: Path, capsys: Any) -> None:
    (lxc / CONFIG).unlink()
    said = ends(1, True, capsys)
    assert "nothing is kept" in said
    assert "kept: look" not in said
