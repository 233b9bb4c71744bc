"""Peer access is proven broken by data, or by a run that is right only without it; by nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from checks.nccl import measured
from checks.nccl.proof import peer_to_peer
from tests.unit.nccl.conftest import Rig

SHORT = ("--size", "1M", "--init-deadline", "2", "--size-deadline", "2.5")
HANGS = ("--size", "64K", "--init-deadline", "1.5", "--size-deadline", "1.2")


@pytest.mark.parametrize(
    ("options", "double", "state"),
    [
        (SHORT, {}, "works"),
        (SHORT, {"KPRO_DOUBLE_CUDA": "corrupt-peer:0-1"}, "broken"),
        (HANGS, {"KPRO_DOUBLE_NCCL": "hang:after=4:p2p"}, "broken"),
        (SHORT, {"KPRO_DOUBLE_NCCL": "wrong-sum:gpu1:after=4:p2p"}, "broken"),
        (HANGS, {"KPRO_DOUBLE_NCCL": "hang:after=4"}, "unproven"),
        (SHORT, {"KPRO_DOUBLE_NCCL": "wrong-sum:gpu1:after=4"}, "unproven"),
        (SHORT, {"KPRO_DOUBLE_NCCL": "crash:gpu1:after=6"}, "unproven"),
        (SHORT, {"KPRO_DOUBLE_CUDA": "hang:cuMemcpyPeerAsync:gpu0"}, "unproven"),
    ],
    ids=["well", "corrupt", "hang-by-p2p", "sums-by-p2p", "hang", "sums", "crash", "copy-hangs"],
)
def test_peer_access_is_broken_only_where_it_is_the_difference(
    rig: Rig, options: tuple[str, ...], double: dict[str, str], state: str
) -> None:
    found = rig.run(*options, **double).report["facts"]["p2p"]
    assert (found["state"], bool(found["because"])) == (state, True)


def test_with_one_gpu_nothing_is_proven(rig: Rig) -> None:
    assert rig.run("--size", "1M", "--gpus", "0").report["facts"]["p2p"]["state"] == "untested"


def test_what_was_switched_off_during_the_measurement_is_not_proven_to_work(rig: Rig) -> None:
    found = rig.run(*SHORT, NCCL_P2P_DISABLE="1").report["facts"]["p2p"]
    assert found["state"] == "unproven"


def scene(pairs: list[dict[str, Any]], **more: Any) -> measured.Measured:
    look = {"gpus": [], "nccl": {}}
    return measured.of({"look": look, "gpus": [0, 1], "size": 8, "pairs": pairs, **more})


def test_a_wrong_copy_through_the_host_says_nothing_of_peer_access() -> None:
    wrong = [{"src": 0, "dst": 1, "copies": [{"bytes": 8, "wrong": 2}]}]
    assert peer_to_peer(scene([{**wrong[0], "direct": True}]))["state"] == "broken"
    assert peer_to_peer(scene([{**wrong[0], "direct": False}]))["state"] == "none"
    assert peer_to_peer(scene([{**wrong[0], "direct": None}]))["state"] == "unproven"


def run_of(name: str, extra: dict[str, str], *ranks: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "extra": extra, "nranks": 2, "ranks": list(ranks)}


@pytest.mark.parametrize(
    ("letter", "state"), [("T", "unproven"), ("t", "unproven"), ("R", "broken"), (None, "broken")]
)
def test_a_rank_that_was_stopped_from_outside_proves_nothing_of_peer_access(
    letter: str | None, state: str
) -> None:
    told = [{"sum": 8, "repeat": 0, "wrong": 0, "first": None}]
    well = {"phase": "end", "in_phase_s": 0.1, "done": True, "ended": None, "code": 0, "told": told}
    hung = {**well, "phase": "bench 8", "done": False, "ended": "deadline", "code": None, "state": letter}
    runs = [
        run_of("as found", {}, {**well, "rank": 0, "gpu": 0}, {**hung, "rank": 1, "gpu": 1}),
        run_of("without P2P", {"NCCL_P2P_DISABLE": "1"}, *({**well, "rank": n, "gpu": n} for n in range(2))),
    ]
    ways = [{"src": 0, "dst": 1, "direct": True, "copies": [{"bytes": 8, "wrong": 0}]}]
    assert peer_to_peer(scene(ways, runs=runs))["state"] == state
