"""Several engines behind one page: each counts for itself, the ranks of one count once."""

from __future__ import annotations

import pytest

from checks.serving.counters import Counters, of_page
from checks.serving.metrics import parse


def sglang(*ranks: tuple[int, int, float, int, float]) -> Counters:
    """One scheduler each: dp rank, tp rank, acceptance length, running requests, tokens per second."""
    lines = []
    for dp, tp, length, running, rate in ranks:
        labels = f'{{dp_rank="{dp}",model_name="m",pp_rank="0",tp_rank="{tp}"}}'
        lines += [
            f"sglang:spec_accept_length{labels} {length}",
            f"sglang:num_running_reqs{labels} {running}",
            f"sglang:gen_throughput{labels} {rate}",
        ]
    return of_page(parse("\n".join(lines)))


def vllm(*running: float) -> Counters:
    lines = [f'vllm:num_requests_running{{engine="{n}",model_name="m"}} {r}' for n, r in enumerate(running)]
    return of_page(parse("\n".join(lines)))


def test_one_dead_engine_is_not_hidden_behind_a_healthy_one() -> None:
    assert sglang((0, 0, 3.1, 1, 70), (1, 0, 1.0, 1, 20)).accept_length == 1.0


def test_an_engine_without_work_says_nothing_of_acceptance() -> None:
    assert sglang((0, 0, 3.1, 1, 70), (1, 0, 0.0, 0, 0)).accept_length == 3.1
    assert sglang((0, 0, 0.0, 0, 0)).accept_length == 0.0


def test_requests_and_tokens_of_all_engines_are_added() -> None:
    seen = sglang((0, 0, 3.1, 1, 70), (1, 0, 3.0, 1, 50))
    assert (seen.running, seen.gen_throughput) == (2, 120)


def test_the_ranks_of_one_engine_count_once() -> None:
    seen = sglang((0, 0, 3.1, 1, 70), (0, 1, 3.1, 1, 70))
    assert (seen.accept_length, seen.running, seen.gen_throughput) == (3.1, 1, 70)


@pytest.mark.parametrize(("running", "together"), [((1, 0), 1), ((0, 0), 0), ((2, 1), 3)])
def test_one_request_on_one_of_two_engines_is_one_request(running: tuple[float, ...], together: int) -> None:
    """A mean of 0.5 was told as none."""
    assert vllm(*running).running == together
