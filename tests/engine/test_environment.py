"""scripts/engine-env makes the environment once, and says in one line why it cannot."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.engine.rig import ROOT

MADE_S = 10


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the script reads, in a checkout of its own, with this one's uv."""
    folder = tmp_path / "checkout"
    (folder / "scripts").mkdir(parents=True)
    (folder / "tests").mkdir()
    shutil.copy(ROOT / "scripts/engine-env", folder / "scripts")
    shutil.copytree(ROOT / "tests/engine", folder / "tests/engine")
    return folder


def run(folder: Path, *words: str | Path, **environ: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [folder / "scripts/engine-env", *words],
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=MADE_S * 4,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_made_once_it_is_found_again_without_a_word_and_changes_nothing(engine_folder: Path) -> None:
    before = (engine_folder / "log").stat().st_mtime_ns
    assert run(ROOT, engine_folder) == (0, f"{engine_folder}\n", "")
    assert (engine_folder / "log").stat().st_mtime_ns == before


def test_a_machine_without_python_3_11_is_told_so_apart_from_a_failure(
    checkout: Path, tmp_path: Path
) -> None:
    script = checkout / "scripts/engine-env"
    script.write_text(
        script.read_text().replace("/usr/bin/python3.11 python3.11 python3;", "python3.9 python3.15;")
    )
    code, out, said = run(checkout, tmp_path / "made")
    assert (code, out, said.count("\n")) == (3, "", 1)
    assert "needs Python 3.11" in said
    assert not (tmp_path / "made").exists()


def test_another_machine_than_x86_64_is_told_so(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    uname = tmp_path / "bin/uname"
    uname.write_text("#!/bin/sh\necho Linux aarch64\n")
    uname.chmod(0o755)
    code, _, said = run(checkout, tmp_path / "made", PATH=f"{tmp_path}/bin:{os.environ['PATH']}")
    assert (code, said.count("\n")) == (3, 1)
    assert "this is Linux aarch64" in said


@pytest.mark.parametrize(
    "spoilt",
    [{"UV_OFFLINE": "1"}, {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}],
    ids=["no pip to download with", "nothing to download"],
)
def test_a_download_that_fails_says_why_and_is_never_taken_for_made(
    checkout: Path, tmp_path: Path, spoilt: dict[str, str]
) -> None:
    made = tmp_path / "made"
    for _ in range(2):
        code, out, said = run(checkout, made, **spoilt, UV_CACHE_DIR=str(tmp_path / "cache"))
        assert (code, out) == (1, "")
        assert "that failed" in said
        assert "run this again" in said
    assert not list(made.glob("*/.stamp"))
    assert not (made / "wheels/engine.lock").exists()


def test_an_environment_comes_from_its_wheelhouse_alone(
    engine_folder: Path, checkout: Path, tmp_path: Path
) -> None:
    """One wheel less than the lock names: said, and what is there is not taken for an environment."""
    made = tmp_path / "made"
    shutil.copytree(engine_folder / "wheels", made / "wheels", copy_function=os.link)
    for wheel in (made / "wheels").glob("click-*.whl"):
        wheel.unlink()
    code, out, said = run(checkout, made, UV_CACHE_DIR=str(tmp_path / "cache"))
    assert (code, out) == (1, "")
    assert "click" in said
    assert not (made / "env/.stamp").exists()


@pytest.mark.parametrize("word", ["--nothing", "-h"])
def test_an_unknown_option_is_a_usage_error(checkout: Path, word: str) -> None:
    code, _, said = run(checkout, word)
    assert (code, said.startswith("usage: ")) == (2, True)
