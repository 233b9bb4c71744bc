"""What cannot be is said: a rate beyond the links, GPUs that nobody tested, the node that slows most pairs."""

from __future__ import annotations

from typing import Any

import pytest

from checks.model import Finding
from checks.nccl import launch, measured
from checks.nccl.judge import judge
from checks.nccl.scene import Scene
from tests.unit.nccl.test_judge import GIB, Values, gpu, judged, pair, rank, with_ranks


def at_rate(gbytes: float, **more: Any) -> Finding:
    seconds = GIB / gbytes / 1e9
    return judged(with_ranks(rank(0, seconds), rank(1, seconds)), **more)["nccl.busbw"]


def test_more_than_the_links_can_carry_is_never_a_silent_pass() -> None:
    assert at_rate(1.09 * 370.8).status.value == "pass"
    finding = at_rate(1.11 * 370.8)
    assert finding.status.value == "warn"
    assert "either the measurement or the limit is wrong" in finding.message


def test_a_hop_that_is_only_taken_as_shared_may_carry_its_whole_rate() -> None:
    more: Values = {"gpus": (gpu(0, links=0), gpu(1, links=0)), "p2p": [{"a": 0, "b": 1, "topo": 50}]}
    assert [at_rate(gbytes, **more).status.value for gbytes in (31.5, 41.7, 75.0)] == ["pass", "pass", "warn"]


def of_nodes(rates: dict[tuple[int, int], float]) -> dict[str, Finding]:
    """The findings on nodes whose pairs reached ``rates``."""
    count = max(max(both) for both in rates) + 1
    steps = []
    for both, gbytes in rates.items():
        ranks = [rank(number, GIB / gbytes / 1e9) for number in range(2)]
        steps.append({"name": "x", "nranks": 2, "ranks": ranks, "group": list(both), "silent": []})
    joined = {str(node): {"gpus": 1} for node in range(count)}
    told = {"nnodes": count, "joined": joined, "steps": steps, "of_rank": {"0": 0, "1": 1}}
    found = judge(Scene(measured.of(pair(nodes=told)), (gpu(0), gpu(1)), ()))
    return {finding.subject: finding for finding in found if finding.id == "nccl.node"}


@pytest.mark.parametrize(
    "pairs",
    [
        [(0, 1), (1, 2), (0, 2)],
        [(0, 1), (2, 3), (1, 2), (3, 0)],
        [(0, 1), (2, 3), (1, 2), (3, 4), (0, 4)],
    ],
    ids=["3 nodes", "4 nodes", "5 nodes"],
)
def test_one_slow_node_is_named_though_it_slows_most_pairs(pairs: list[tuple[int, int]]) -> None:
    found = of_nodes({both: 15.0 if 1 in both else 45.0 for both in pairs})
    assert {subject: finding.status.value for subject, finding in found.items()} == {"node1": "warn"}
    assert set(of_nodes(dict.fromkeys(pairs, 45.0))) == {"host"}


def test_gpus_that_the_launcher_gave_to_idle_processes_are_not_green() -> None:
    nvml: Values = {"devices": [{}, {}]}
    one: list[Any] = [{"ordinal": 0}]
    for environ in (
        {"LOCAL_WORLD_SIZE": "2"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
        {"SLURM_LOCALID": "0", "SLURM_TASKS_PER_NODE": "2(x4)"},
    ):
        hidden = launch.hidden(environ, one, nvml)
        assert hidden is not None
        assert launch.hidden(environ, [*one, {"ordinal": 1}], nvml) is None
    finding = judged(pair(hidden=hidden))["nccl.gpus"]
    assert finding.status.value == "unknown"
    assert "sees 1 of 2 GPUs" in finding.message
    assert launch.hidden({"LOCAL_WORLD_SIZE": "1"}, one, nvml) is None, "a service with GPUs of its own"
    assert launch.hidden({"SLURM_TASKS_PER_NODE": "2"}, one, nvml) is None, "an allocation, no task"


def with_error(text: str, code: int, phase: str = "sum 8388608") -> Values:
    bad = rank(1)
    told = [line for line in bad["told"] if "init_s" in line or "environment" in line]
    bad |= {"phase": phase, "done": False, "ended": "error", "told": [*told, {"error": text, "code": code}]}
    return with_ranks(rank(0), bad)


def test_a_gpu_lost_in_the_middle_is_not_blamed_on_what_fails_at_a_start() -> None:
    finding = judged(with_error("cuMemFreeHost gave 999 CUDA_ERROR_UNKNOWN: unknown error", 999))[
        "nccl.crash"
    ]
    assert finding.status.value == "fail"
    assert "uvm" not in str(finding.cause)
    copy = {"src": 0, "dst": 1, "direct": True, "copies": [], "error": "cuX gave 999 CUDA_ERROR_UNKNOWN: x"}
    found = judged(pair(pairs=[{**copy, "at": "copy"}]))["nccl.peer_copy"]
    assert (found.status.value, found.cause) == ("fail", None)
    assert "uvm" in str(judged(pair(pairs=[copy]))["nccl.peer_copy"].cause)


def test_memory_that_somebody_else_has_is_no_verdict_on_a_gpu() -> None:
    error = "cuMemAlloc_v2 gave 2 CUDA_ERROR_OUT_OF_MEMORY: out of memory"
    assert judged(with_error(error, 2, "sum 8"))["nccl.crash"].status.value == "unknown"
    nccl = "ncclCommInitRankConfig gave 2: unhandled system error"
    assert judged(with_error(nccl, 2))["nccl.crash"].status.value == "fail"
