"""When must two services answer equally?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from provision.migrate.alike import ranks, told, unlike
from provision.spec import Engine
from tests.unit.migrate.answering import End

MakeEnd = Callable[..., End]
VLLM = Engine(kind="vllm", version="0.20.1")


def test_the_same_gpus_engine_and_ranks_must_answer_equally(end: MakeEnd) -> None:
    one, other = (end(name, alone=True, engine=VLLM, gpus=("A6000", "A6000")) for name in ("kpro6", "kpro5"))
    assert unlike(told(one), other) == ()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"gpus": ("A6000", "H200")}, "GPUs: A6000, A6000, here A6000, H200"),
        ({"gpus": ("A6000",)}, "tensor-parallel size: 2, here 1"),
        ({"engine": Engine(kind="vllm", version="0.32.0")}, "engine: vllm 0.20.1, here vllm 0.32.0"),
        ({"flags": ("--tensor-parallel-size", "1")}, "tensor-parallel size: 2, here 1"),
        ({"flags": ("-tp=1",)}, "tensor-parallel size: 2, here 1"),
    ],
)
def test_each_difference_is_a_reason(end: MakeEnd, more: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"engine": VLLM, "gpus": ("A6000", "A6000")}
    one, other = end("kpro6", alone=True, **given), end("kpro5", alone=True, **(given | more))
    assert said in unlike(told(one), other)


def test_ranks_are_those_of_the_flags_else_one_for_each_gpu(end: MakeEnd) -> None:
    assert ranks(end("a", alone=True)) == 1
    assert ranks(end("b", alone=True, engine=VLLM, gpus=("H200",) * 4)) == 4
    assert ranks(end("c", alone=True, engine=VLLM, gpus=("H200",) * 4, flags=("-tp", "2"))) == 2
