"""A lock: what it must say, and where the next build finds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.spec import Engine
from provision.stack.engine import locks
from provision.stack.engine.desired import desired_engine

HASH = f"--hash=sha256:{'a' * 64}"
GOOD = (
    f"# a comment\nvllm==0.20.1 \\\n    {HASH} \\\n    {HASH}\n"
    f"Torch_x==2.11.0+cu130 ; sys_platform == 'linux' {HASH}\n"
)


def wrong(text: str) -> list[str]:
    return list(locks.wrong(text, "vllm==0.20.1"))


def test_a_lock_with_versions_and_hashes_is_taken() -> None:
    assert wrong(GOOD) == []
    assert [row[:2] for row in locks.rows(GOOD)] == [("vllm", "0.20.1"), ("torch-x", "2.11.0+cu130")]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (GOOD + "numpy==2.0\n", "numpy without --hash"),
        (GOOD + "numpy>=2.0\n", "is no NAME==VERSION"),
        (GOOD + "--index" + "-url https:" + "//user:secret@example.org/simple\n", "is no NAME==VERSION"),
        (GOOD.replace("vllm==0.20.1", "vllm==0.20.2"), "does not pin vllm==0.20.1, but 0.20.2"),
        ("", "does not pin vllm==0.20.1"),
    ],
)
def test_what_is_no_lock_is_told_with_the_line(text: str, why: str) -> None:
    assert why in wrong(text)[0]


def test_a_wheelhouse_s_lock_gets_the_hashes_of_its_wheels() -> None:
    wheels = [("torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl", "b" * 64), ("a-1-py3-none-any.whl", "c" * 64)]
    made = locks.with_hashes("torch==2.13.0\na==1\nmissing==2\n", wheels)
    assert made.splitlines() == [
        f"torch==2.13.0 --hash=sha256:{'b' * 64}",
        f"a==1 --hash=sha256:{'c' * 64}",
        "missing==2",
    ]
    assert "missing without --hash" in next(iter(locks.wrong(made, None)))


def test_a_kept_lock_is_found_by_the_same_environment_and_no_other() -> None:
    one, two = Engine(kind="vllm", version="0.20.1"), Engine(kind="vllm", version="0.33.0")
    locks.keep(desired_engine(one).name, GOOD)
    found = desired_engine(one).lock
    assert found is not None
    assert (found.text, found.given) == (GOOD, False)
    assert desired_engine(two).lock is None


def test_a_lock_of_the_inventory_makes_an_environment_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text(GOOD)
    free = desired_engine(Engine(kind="vllm", version="0.20.1"))
    pinned = desired_engine(Engine(kind="vllm", version="0.20.1", lock=tmp_path / "lock"))
    assert pinned.path != free.path
    assert pinned.lock is not None
    assert pinned.lock.given
    (tmp_path / "lock").write_text(GOOD.replace("a" * 64, "b" * 64))
    assert desired_engine(Engine(kind="vllm", version="0.20.1", lock=tmp_path / "lock")).path != pinned.path
