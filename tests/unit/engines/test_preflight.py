"""Whether an environment can be built in a guest: the look is really run, and each reason has its red case."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from provision.data import engine_builds
from provision.spec import Engine
from provision.stack.engine import preflight
from provision.stack.engine.desired import Checkout, DesiredEngine, Wheel, desired_engine
from provision.stack.engine.preflight import Room

WELL = Room((2, 36), ("3.11",), (("/", 100.0), ("/", 100.0)), 64.0, 8, frozenset(), ("13.0",))
WELL = replace(WELL, tools=frozenset({"git", "cc", "c++", "cmake", "ninja"}))


@pytest.fixture
def engine() -> DesiredEngine:
    return desired_engine(Engine(kind="vllm", version="0.20.1"))


@pytest.fixture
def built(engine: DesiredEngine) -> DesiredEngine:
    return replace(engine, checkout=Checkout("https://example.org/vllm", "0" * 40, ""))


def told(engine: DesiredEngine, room: Room) -> list[str]:
    return [f"{r.where}: {r.seen}" for r in preflight.refusals(engine, room, "engine")]


def test_the_look_says_what_this_machine_has() -> None:
    done = subprocess.run(["sh", "-c", preflight.LOOK], capture_output=True, text=True, check=True)
    assert not done.stderr
    room = preflight.parse(done.stdout)
    assert "{}.{}".format(*sys.version_info) in (*room.pythons, "{}.{}".format(*sys.version_info))
    assert room.glibc is not None
    assert room.glibc > (2, 17)
    assert len(room.free) == 2
    assert room.memory is not None
    assert 0 < room.memory < 1 << 20
    assert room.cpus >= 1
    assert "cc" in room.tools or "git" in room.tools or not room.tools


def test_a_container_s_own_limit_of_memory_counts() -> None:
    assert preflight.parse("memory 67108864\nmemory 8388608\n").memory == 8


def test_a_guest_with_all_of_it_is_taken(engine: DesiredEngine, built: DesiredEngine) -> None:
    assert (told(engine, WELL), told(built, WELL)) == ([], [])


def test_a_python_that_is_not_there_is_refused(engine: DesiredEngine) -> None:
    (said,) = told(engine, replace(WELL, pythons=("3.13",)))
    assert said == "engine.python: the guest has no Python 3.11 (it has 3.13)"


def test_a_c_library_that_is_too_old_is_refused(engine: DesiredEngine) -> None:
    (said,) = told(engine, replace(WELL, glibc=(2, 31)))
    assert "needs glibc 2.35, and the guest has 2.31" in said


def test_the_wheel_itself_says_which_c_library_it_needs(engine: DesiredEngine) -> None:
    def of(platform: str) -> DesiredEngine:
        name = f"vllm-0.20.1-cp38-abi3-{platform}.whl"
        return replace(engine, wheels=(Wheel(name, "0" * 64, Path(name)),))

    assert told(of("manylinux_2_28_x86_64"), replace(WELL, glibc=(2, 31))) == []
    assert "needs glibc 2.39" in told(of("manylinux_2_39_x86_64"), WELL)[0]


def test_a_disk_without_room_is_refused_and_one_disk_holds_both(engine: DesiredEngine) -> None:
    row = engine_builds.room("vllm", "0.20.1")
    assert row is not None
    enough = row.gib + row.cache
    assert told(engine, replace(WELL, free=(("/", enough), ("/", enough)))) == []
    (said,) = told(engine, replace(WELL, free=(("/", enough - 1), ("/", enough - 1))))
    assert "/ of the guest has" in said
    apart = replace(WELL, free=(("/", row.gib), ("/var", row.cache)))
    assert told(engine, apart) == []


def test_every_reason_against_a_build_from_source_is_told_at_once(built: DesiredEngine) -> None:
    bare = Room((2, 36), ("3.11",), WELL.free, 4.0, 8, frozenset(), ())
    said = told(built, bare)
    assert len(said) == 3
    assert "the guest has no git, cc, c++, cmake, ninja" in said[0]
    assert "no nvcc, and its torch is CUDA 13.0" in said[1]
    assert "memory of the guest: 4.0 GiB" in said[2]


def test_an_nvcc_of_another_major_version_is_refused(built: DesiredEngine) -> None:
    (said,) = told(built, replace(WELL, nvcc=("12.9",)))
    assert "the guest has nvcc 12.9, and its torch is CUDA 13.0" in said


def test_memory_that_is_not_known_is_no_memory(built: DesiredEngine) -> None:
    assert "not known" in told(built, replace(WELL, memory=None))[0]


def test_an_engine_whose_build_nobody_described_is_not_begun(built: DesiredEngine) -> None:
    (said,) = told(replace(built, kind="vllm-cpu", version="0.32.0"), WELL)
    assert "nothing is known of building vllm-cpu" in said


@pytest.mark.parametrize(("memory", "cpus", "jobs"), [(64.0, 8, 8), (21.0, 8, 4), (16.0, 2, 2), (1.0, 8, 1)])
def test_no_more_compilers_run_than_memory_and_processors_allow(
    built: DesiredEngine, memory: float, cpus: int, jobs: int
) -> None:
    assert preflight.jobs(built, replace(WELL, memory=memory, cpus=cpus)) == jobs


def test_where_nothing_is_compiled_there_are_no_jobs(engine: DesiredEngine, built: DesiredEngine) -> None:
    assert preflight.jobs(engine, WELL) is None
    assert preflight.jobs(replace(built, kind="sglang", version="0.5.11"), WELL) is None


def test_every_row_has_its_source() -> None:
    rows = (*engine_builds.LEFT_OUT, *engine_builds.ROOMS, *engine_builds.SOURCE_BUILDS)
    assert all(row.source for row in rows)
