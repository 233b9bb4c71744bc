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
    monkeypatch.setattr(demo, "_MARKER", tmp_path / "marker")
    monkeypatch.setattr(
        demo.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=0, stderr="it is busy")
    )
    (tmp_path / CONFIG).parent.mkdir()
    (tmp_path / CONFIG).write_text(demo._MARK)
    return tmp_path


def ends(code: int, keep: bool, capsys: Any, makes: Path | None = None) -> str:
    def apply(*_: Any) -> int:
        if makes is not None:
            makes.write_text(demo._MARK)
        return code

    commands = SimpleNamespace(apply=apply, plan=lambda *_: 0)
    assert demo.run(commands, keep=keep) == code
    said: str = capsys.readouterr().err
    return said


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("code", [2, 3, 4])
def test_one_that_made_nothing_keeps_and_removes_nothing_and_says_whose_the_container_is(
    lxc: Path, capsys: Any, keep: bool, code: int
) -> None:
    """Another run holds the machine, or it was refused; the container is an earlier demonstration's."""
    said = ends(code, keep, capsys)
    assert "nothing was made, so nothing is kept or removed" in said
    assert "kept: look" not in said
    assert "cleaned up" not in said
    assert "that of the run that holds the machine" in said or code != 4
    assert "an earlier one, and as it was" in said
    assert f"lxc-destroy -n {demo.CONTAINER}" in said
    (lxc / CONFIG).unlink()
    assert "lxc-destroy" not in ends(code, keep, capsys)


def test_one_that_was_refused_after_it_had_made_its_container_keeps_or_removes_that(
    lxc: Path, capsys: Any
) -> None:
    for keep, words in ((True, "kept: look into it"), (False, "cleaned up")):
        (lxc / CONFIG).unlink()
        assert words in ends(3, keep, capsys, makes=lxc / CONFIG)


def test_what_was_made_is_kept_and_told_or_removed(lxc: Path, capsys: Any) -> None:
    assert "kept: look into it" in ends(0, True, capsys)
    assert "cleaned up" in ends(0, False, capsys)


def test_nothing_is_called_kept_that_was_never_made(lxc: Path, capsys: Any) -> None:
    (lxc / CONFIG).unlink()
    said = ends(1, True, capsys)
    assert "nothing is kept" in said
    assert "kept: look" not in said


def test_the_mark_of_its_container_goes_with_it_and_what_still_lists_it_is_said(
    lxc: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = lxc / "marker"
    mark.touch()
    said = ends(0, False, capsys)
    assert not mark.exists()
    assert "manifest.json and undo.sh still list it, and find it gone already" in said
    mark.touch()
    monkeypatch.setattr(
        demo.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=1, stderr="it is busy")
    )
    assert "could not be removed: it is busy" in ends(0, False, capsys)
    assert mark.exists(), "it is the mark of a container that is there"


def test_the_mark_of_one_that_was_removed_by_hand_goes_and_that_of_somebody_else_s_stays(
    lxc: Path, capsys: Any
) -> None:
    mark = lxc / "marker"
    mark.touch()
    (lxc / CONFIG).write_text("lxc.uts.name = mine\n")
    ends(1, False, capsys)
    assert mark.exists()
    (lxc / CONFIG).unlink()
    (lxc / CONFIG).parent.rmdir()
    ends(1, False, capsys)
    assert not mark.exists()


def test_the_line_that_removes_a_kept_one_removes_its_mark(lxc: Path, capsys: Any) -> None:
    assert "&& rm -f /run/kpro/guests/kpro-demo" in ends(0, True, capsys)
