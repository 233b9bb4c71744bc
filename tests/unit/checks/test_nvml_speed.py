"""What ``provcheck gpus`` costs, interpreter included, held against what importing its two libraries costs here."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from checks import pack
from tests.doubles.build import library

TRIES = 6
SECONDS, RATIO = 0.4, 4
"""A machine without GPUs: 0.4 s; on a slower one so many times the bare import of click and pynvml."""


def cost(argv: list[str], env: dict[str, str], code: int | None = None) -> float:
    """Seconds of processor time: what else the machine does is not counted."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(argv, env=env, capture_output=True, timeout=60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert code is None or done.returncode == code, done.stderr
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.fixture(scope="module", params=["checkout", "single file"])
def ways(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, repo_root: Path
) -> Iterator[tuple[list[str], str]]:
    """How to start provcheck, and where its libraries are imported from."""
    if request.param == "checkout":
        yield [sys.executable, "-m", "checks"], str(repo_root)
        return
    single = tmp_path_factory.mktemp("speed") / "provcheck.pyz"
    pack.build(single)
    yield [sys.executable, "-I", str(single)], str(single)


@pytest.mark.parametrize("double", [False, True])
def test_the_whole_check_costs_little_more_than_its_imports(
    ways: tuple[list[str], str], double: bool
) -> None:
    argv, home = ways
    env = {**os.environ, "PYTHONPATH": home}
    env["LD_LIBRARY_PATH"] = str(library("nvml")) if double else "/nonexistent"
    bare = whole = float("inf")
    for _ in range(TRIES):
        bare = min(bare, cost([sys.executable, "-c", "import click, pynvml"], env, 0))
        whole = min(whole, cost([*argv, "gpus", "--expect", "8" if double else "0"], env))
    assert whole < max(SECONDS, RATIO * bare), f"{whole:.3f} s, the imports alone {bare:.3f} s"
