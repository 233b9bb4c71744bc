"""Nodes tell each other which GPUs they have: one under two host names is named, and nothing is measured."""

from __future__ import annotations

import queue
import threading
import time
from typing import Any

import pytest

from checks.model import Finding
from checks.nccl import measured, own, rules_nodes
from checks.nccl.rendezvous import Client, Line, Server
from checks.nccl.scene import Scene
from tests.unit.nccl.conftest import Rig
from tests.unit.nccl.test_nodes import by_hand, free_port, of, on_host, together


def test_one_gpu_under_two_nodes_is_named_by_both_and_nothing_is_measured(rig: Rig) -> None:
    for report in together(rig, *((args, on_host(0)) for args in by_hand(2))):
        (finding,) = of(report, "nccl.own_gpu")
        assert (finding["status"], finding["subject"]) == ("fail", "node1")
        assert "GPU 0 of node 0 and GPU 0 of node 1 are one: GPU-00000000-" in finding["message"]
        assert report["verdict"] == "fail"
        assert report["facts"]["runs"] == []
        assert of(report, "nccl.sums") == []


def test_of_three_nodes_only_those_that_are_one_are_named(rig: Rig) -> None:
    args = by_hand(3, "--pairwise")
    for report in together(rig, (args[0], on_host(0)), (args[1], on_host(1)), (args[2], on_host(0))):
        (finding,) = of(report, "nccl.own_gpu")
        assert (finding["status"], finding["subject"]) == ("fail", "node2")
        assert "GPU 0 of node 0 and GPU 0 of node 2" in finding["message"]


def test_other_gpus_of_one_machine_are_ranks_of_their_own(rig: Rig) -> None:
    args = [[*words, "--gpus", str(number)] for number, words in enumerate(by_hand(2))]
    for report in together(rig, *((words, on_host(0)) for words in args)):
        (finding,) = of(report, "nccl.own_gpu")
        assert (finding["status"], finding["message"]) == ("pass", "2 GPUs on 2 nodes, no two of them one")
        assert of(report, "nccl.sums")[0]["status"] == "pass"


def test_node_0_is_not_gone_before_the_others_know_who_came(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is measured it is through at once, and the others would only know that they could not meet."""
    say, port, answers = Line.say, free_port(), iter((0.0, 1.0))

    def one_late(line: Line, **words: Any) -> None:
        time.sleep(next(answers) if "nodes" in words else 0.0)
        say(line, **words)

    monkeypatch.setattr(Line, "say", one_late)
    server = Server("127.0.0.1", port, b"t", 2, join_s=5, id_s=5)
    clients = [Client.connect("127.0.0.1", port, b"t", node, 5) for node in range(2)]
    came: queue.Queue[set[int]] = queue.Queue()
    asking = [threading.Thread(target=lambda c=c: came.put(set(c.join(1, {}, "", 5)))) for c in clients]
    for thread in asking:
        thread.start()
    assert came.get(timeout=5) == {0, 1}
    server.close()
    assert server.board.told == {0, 1}
    assert came.get(timeout=5) == {0, 1}
    for client, thread in zip(clients, asking, strict=True):
        thread.join(5)
        client.close()


@pytest.mark.parametrize(("slices", "status"), [((1, 2), "pass"), ((1, 1), "fail")])
def test_a_mig_instance_is_known_by_its_own_uuid(rig: Rig, slices: tuple[int, int], status: str) -> None:
    cut = ({"KPRO_DOUBLE_CUDA": f"slice={number}", "KPRO_DOUBLE_NVML": "mig:gpu0"} for number in slices)
    for report in together(rig, *zip(by_hand(2, "--force"), cut, strict=True)):
        (finding,) = of(report, "nccl.own_gpu")
        assert finding["status"] == status
        assert status == "pass" or "are one: MIG-00000000-" in finding["message"]


def test_a_driver_without_uuids_of_mig_instances_tells_nothing_of_them() -> None:
    gpus = [
        {"ordinal": 0, "name": "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "uuid": "GPU-00000001-aaaa"},
        {"ordinal": 1, "name": "NVIDIA A100-SXM4-40GB", "uuid": "GPU-00000002-aaaa"},
        {"ordinal": 2, "name": "GRID", "uuid": "GPU-00000000-0000-0000-0000-000000000000"},
    ]
    assert own.named(gpus, [0, 1, 2], 11040) == {"0": "MIG-00000001-aaaa", "1": "GPU-00000002-aaaa", "2": ""}
    for older in (11020, None):
        assert own.named(gpus, [0], older) == {"0": ""}
    assert own.named(gpus, [], 13000) == {}


@pytest.mark.parametrize("told", [None, {}, {"0": ""}])
def test_a_node_that_does_not_say_which_gpus_it_has_leaves_it_unknown(told: dict[str, str] | None) -> None:
    joined = {"0": {"gpus": 1, "uuids": {"0": "GPU-1"}}, "1": {"gpus": 1, "uuids": told}}
    (finding,) = own_gpu_of(joined)
    assert (finding.status, finding.subject) == ("unknown", "host")
    assert "node 1 did not say" in finding.message
    assert own_gpu_of({node: {"gpus": 1} for node in joined}) == [], (
        "a record that is older than the question"
    )


def test_a_node_whose_gpu_the_other_holds_is_told_why() -> None:
    """Whoever looks a moment later finds the GPU in use, by the other node's own test, and takes no part."""
    busy = {"gpus": 0, "why": "gpu0: process 12", "uuids": {"0": "GPU-1"}}
    (finding,) = own_gpu_of({"0": {"gpus": 1, "uuids": {"0": "GPU-1"}}, "1": busy})
    assert finding.status == "fail"


def own_gpu_of(joined: dict[str, dict[str, Any]]) -> list[Finding]:
    told = {"node": 0, "nnodes": 2, "at": "a:1", "joined": joined}
    seen = measured.of({"look": {}, "gpus": [0], "size": 8, "runs": [], "nodes": told})
    return list(rules_nodes.own_gpu(Scene(seen)))


@pytest.mark.parametrize(
    "told",
    ["GPU-1", [], {"0": 7}, {"0": "G" * 65}, {"0": "a\nb"}, {str(n): "GPU-1" for n in range(65)}],
)
def test_what_another_node_says_of_its_gpus_is_taken_in_no_other_form(told: Any) -> None:
    assert own.heard(told) is None
    assert own.heard({"0": "GPU-1"}) == {"0": "GPU-1"}
