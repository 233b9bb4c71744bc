"""Room beside what runs: only where every figure is known, and more is free than the engine says it takes."""

from __future__ import annotations

from typing import Any

import pytest

from provision.data.room import GIB, MARGINS, margin
from provision.stack.room import Ram, ram_of, room
from tests.unit.gates.conftest import facts, gpu

FIT: dict[str, Any] = {"takes_gib": 20.0, "ranks": 1, "memory": "gpu"}
RAM = FIT | {"memory": "ram", "takes_gib": 2.0}


def test_a_free_gpu_has_room_and_one_that_is_too_full_has_none() -> None:
    found = room(FIT, facts(gpu(0, free=23 * GIB)))
    assert (found.beside, found.gpus) == (True, (0,))
    full = room(FIT, facts(gpu(0, free=21 * GIB)))
    assert not full.beside
    assert "20.0 GiB" in full.why
    assert "gpu0 has 21.0 GiB free" in full.why


def test_the_gpus_that_the_engine_takes_decide_and_not_those_that_happen_to_be_free() -> None:
    seen = facts(gpu(0, free=GIB), gpu(1, free=40 * GIB))
    assert not room(FIT, seen).beside
    assert room(FIT, seen, visible=(1,)).beside
    assert room(FIT, seen, visible=(1,)).gpus == (1,)
    assert not room(FIT | {"ranks": 2}, seen).beside
    assert not room(FIT | {"ranks": 3}, seen).beside


@pytest.mark.parametrize(
    ("fit", "seen"),
    [
        ({}, facts(gpu(0))),
        (FIT | {"takes_gib": None}, facts(gpu(0))),
        (FIT | {"takes_gib": "20"}, facts(gpu(0))),
        (FIT | {"takes_gib": -1}, facts(gpu(0))),
        (FIT | {"takes_gib": float("nan")}, facts(gpu(0))),
        (FIT | {"ranks": 0}, facts(gpu(0))),
        (FIT, {}),
        (FIT, {"gpus": None}),
        (FIT, facts()),
        (FIT, facts(gpu(0) | {"memory": None})),
        (FIT, facts({"index": 0})),
        (FIT, {"gpus": ["gpu0"]}),
        (RAM, facts()),
    ],
)
def test_what_is_not_known_is_no_room(fit: dict[str, Any], seen: dict[str, Any]) -> None:
    assert not room(fit, seen).beside


def test_without_gpus_the_memory_decides_with_a_reserve() -> None:
    assert room(RAM, facts(), Ram(available=4 * GIB, whole=8 * GIB)).beside
    short = room(RAM, facts(), Ram(available=3 * GIB - 1, whole=8 * GIB))
    assert not short.beside
    assert "1.0 GiB of reserve" in short.why
    assert not room(RAM, facts(), Ram(available=8 * GIB, whole=200 * GIB)).beside


MEMINFO = "MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:    8388608 kB\n"


def test_a_container_s_limit_bounds_what_the_machine_has() -> None:
    assert ram_of(MEMINFO) == Ram(8 * GIB, 16 * GIB)
    assert ram_of(MEMINFO, "max\n", "1\n") == Ram(8 * GIB, 16 * GIB)
    assert ram_of(MEMINFO, f"{4 * GIB}\n", f"{3 * GIB}\n") == Ram(GIB, 4 * GIB)
    cached = f"anon 5\ninactive_file {2 * GIB}\n"
    assert ram_of(MEMINFO, f"{4 * GIB}\n", f"{3 * GIB}\n", cached) == Ram(3 * GIB, 4 * GIB)
    assert ram_of(MEMINFO, f"{4 * GIB}\n", f"{5 * GIB}\n") == Ram(0, 4 * GIB)


@pytest.mark.parametrize(
    "read", [(None,), ("MemTotal: 1 kB\n",), (MEMINFO, "lots", "1"), (MEMINFO, "1", None), (MEMINFO, "1", "")]
)
def test_memory_that_cannot_be_read_is_not_known(read: tuple[str | None, ...]) -> None:
    assert ram_of(*read) is None


def test_every_margin_has_a_source_and_an_unknown_one_is_an_error() -> None:
    assert all(row.source and row.why and row.bytes > 0 for row in MARGINS)
    with pytest.raises(KeyError):
        margin("disk", 1)
