"""The judge on recorded values: limits, ratios, causes. Nothing here starts a program."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from checks.errors import BadInput
from checks.gpus.dump import Gpu
from checks.model import Finding
from checks.nccl import debuglog, limits, measured
from checks.nccl.foreign import judge_text
from checks.nccl.judge import judge
from checks.nccl.limits import Limit, NoLimit
from checks.nccl.scene import Scene

Values = dict[str, Any]
GIB = 1 << 30


def gpu(index: int, links: int = 18, remote: int = 2, sm: tuple[int, int] = (9, 0), **values: Any) -> Gpu:
    active = {str(link): {"state": 1 if link < links else 0, "remote_type": remote} for link in range(18)}
    return Gpu(
        index,
        {
            "nvmlDeviceGetName": "NVIDIA H200",
            "nvmlDeviceGetUUID": f"GPU-{index}",
            "nvmlDeviceGetCudaComputeCapability": list(sm),
            "nvmlDeviceGetPciInfo": {"busId": f"00000000:0{index + 1}:00.0"},
            "nvmlDeviceGetMaxPcieLinkGeneration": 5,
            "nvmlDeviceGetMaxPcieLinkWidth": 16,
            "nvlink": active,
            **values,
        },
    )


def rank(number: int, seconds: float = 0.0033, size: int = GIB, own: float = 0.001) -> Values:
    told: list[Values] = [{"phase": "library"}, {"environment": {"NCCL_DEBUG": "INFO"}}, {"init_s": 0.7}]
    told += [
        {"sum": bytes_, "repeat": n, "wrong": 0, "first": None} for bytes_ in (8, size) for n in range(3)
    ]
    told += [
        {"own_s": [own] * 5},
        {"bench": size, "medians_s": [seconds * 1.1, seconds, seconds * 1.2]},
        {"end": True},
    ]
    log = f"h:1:2 [{number}] NCCL INFO Channel 00/0 : {number}[{number}] -> {1 - number}[{1 - number}] via P2P/CUMEM"
    whole = {
        "rank": number,
        "gpu": number,
        "phase": "end",
        "in_phase_s": 0.1,
        "done": True,
        "ended": None,
        "code": 0,
    }
    return {**whole, "told": told, "log": log, "stderr": ""}


def pair(**changes: Any) -> Values:
    data: Values = {
        "look": {
            "nccl": {"path": "/x/libnccl.so.2", "version": 23007},
            "runtime": {"path": "/x/libcudart.so.13", "version": 13000, "driver": 13000, "count": 2},
            "driver": {"version": 13000, "count": 2},
            "gpus": [{"ordinal": n, "uuid": f"GPU-{n}", "name": "NVIDIA H200"} for n in range(2)],
            "access": [[0, 1], [1, 0]],
        },
        "gpus": [0, 1],
        "size": GIB,
        "source": {"how": "--library"},
        "environment": {"NCCL_DEBUG": "INFO"},
        "pairs": [],
        "runs": [{"name": "as found", "nranks": 2, "extra": {}, "ranks": [rank(0), rank(1)]}],
    }
    return {**data, **changes}


def judged(data: Values, gpus: tuple[Gpu, ...] = (gpu(0), gpu(1)), p2p: Any = ()) -> dict[str, Finding]:
    found = judge(Scene(measured.of(json.loads(json.dumps(data))), gpus, p2p))
    return {finding.id: finding for finding in found}


def with_ranks(*ranks: Values, **changes: Any) -> Values:
    return pair(
        runs=[{"name": "as found", "nranks": len(ranks), "extra": {}, "ranks": list(ranks)}], **changes
    )


@pytest.mark.parametrize(
    ("gbytes", "status"),
    [(348.5, "pass"), (332.2, "pass"), (316.0, "pass"), (300.0, "warn"), (277.0, "fail"), (180.0, "fail")],
)
def test_a_pair_of_h200_is_judged_by_its_share_of_370_8(gbytes: float, status: str) -> None:
    seconds = GIB / gbytes / 1e9
    finding = judged(with_ranks(rank(0, seconds), rank(1, seconds * 0.9)))["nccl.busbw"]
    assert finding.status.value == status
    assert finding.limit == 370.8
    assert finding.value == pytest.approx(gbytes, rel=1e-3)


def test_a_smaller_message_never_fails_the_ratio() -> None:
    small = 64 << 20
    data = with_ranks(*(rank(n, small / 228.1e9, small) for n in range(2)))
    assert judged({**data, "size": small})["nccl.busbw"].status.value == "skip"
    assert judged(data)["nccl.busbw"].status.value == "unknown"


def test_multicast_beats_the_links_and_gets_no_ratio() -> None:
    ranks = [rank(0, 0.0025), rank(1, 0.0025)]
    ranks[0]["log"] += "\nh:1:2 [0] NCCL INFO NVLS comm 0x55 headRank 0 nHeads 2 buffSize 1048576"
    finding = judged(with_ranks(*ranks))["nccl.busbw"]
    assert finding.status.value == "skip"
    assert "NVLS" in finding.message


def test_without_nvml_there_is_no_ratio_and_no_green() -> None:
    assert judged(pair(), gpus=())["nccl.busbw"].status.value == "unknown"


def test_pcie_is_judged_by_its_own_thresholds() -> None:
    def at(gbytes: float) -> str:
        seconds = GIB / gbytes / 1e9
        gpus = (gpu(0, links=0), gpu(1, links=0))
        p2p = [{"a": 0, "b": 1, "topo": 30}]
        return judged(with_ranks(rank(0, seconds), rank(1, seconds)), gpus, p2p)["nccl.busbw"].status.value

    assert [at(40.0), at(20.0), at(10.0)] == ["pass", "warn", "fail"]


@pytest.mark.parametrize(
    ("gpus", "p2p", "gbytes", "kind"),
    [
        ([gpu(n) for n in range(8)], (), 370.8, "nvlink"),
        ([gpu(n, links=12, sm=(8, 0)) for n in range(8)], (), 240.0, "nvlink"),
        ([gpu(n, links=4, remote=0, sm=(8, 6)) for n in range(2)], (), 48.0, "nvlink"),
        ([gpu(0), gpu(1, links=17)], (), 350.2, "nvlink"),
        ([gpu(0, links=0), gpu(1)], [{"a": 0, "b": 1, "topo": 30}], 63.0, "pcie"),
        ([gpu(n, links=0) for n in range(2)], [{"a": 0, "b": 1, "topo": 50}], 31.5, "pcie"),
        ([gpu(0, links=0, nvmlDeviceGetMaxPcieLinkWidth=8), gpu(1, links=0)], [], 31.5, "pcie"),
    ],
)
def test_the_limit_is_that_of_the_weakest_link(gpus: list[Gpu], p2p: Any, gbytes: float, kind: str) -> None:
    limit = limits.of_ring(gpus, p2p)
    assert isinstance(limit, Limit)
    assert (round(limit.gbytes, 1), limit.kind) == (pytest.approx(gbytes, abs=0.06), kind)


def test_a_bridge_to_one_gpu_is_no_link_to_a_third() -> None:
    def bridged(index: int, peer: int) -> Gpu:
        one = gpu(index, links=4, remote=0, sm=(8, 6))
        links = copy.deepcopy(dict(one.values["nvlink"]))
        for link in links.values():
            link["remote"] = {"busId": f"00000000:0{peer + 1}:00.0"}
        return Gpu(index, {**one.values, "nvlink": links})

    both = limits.of_ring([bridged(0, 1), bridged(1, 0)], ())
    assert isinstance(both, Limit)
    assert (both.kind, both.gbytes) == ("nvlink", 48.0)
    three = limits.of_ring([bridged(0, 1), bridged(1, 0), gpu(2, links=0, sm=(8, 6))], ())
    assert isinstance(three, Limit)
    assert three.kind == "pcie"


def test_a_gpu_that_tells_nothing_gives_no_limit() -> None:
    assert isinstance(limits.of_ring([gpu(0), Gpu(1, {})], ()), NoLimit)


def test_one_late_rank_of_many_is_named_and_noise_is_not() -> None:
    many = [rank(n) for n in range(4)]
    assert judged(with_ranks(*many))["nccl.slow_rank"].status.value == "pass"
    many[2] = rank(2, own=0.009)
    finding = judged(with_ranks(*many))["nccl.slow_rank"]
    assert (finding.status.value, finding.message[:6]) == ("warn", "rank 2")
    assert judged(with_ranks(rank(0), rank(1, own=0.0015)))["nccl.slow_rank"].status.value == "pass"


def test_a_rank_without_its_variables_is_a_failure() -> None:
    wrong = pair(environment={"NCCL_DEBUG": "INFO", "NCCL_P2P_LEVEL": "SYS"})
    assert judged(wrong)["nccl.environment"].status.value == "fail"
    unread = pair(
        source={"how": "x", "service": "kpro-chat.service", "unread": ["/etc/kpro/env: Permission denied"]}
    )
    assert judged(unread)["nccl.environment"].status.value == "unknown"


def of_two_nodes(node: int, *, there: Values, here: Values, told: Values) -> Finding:
    """What node 0 (or 1) says of the variables of two ranks on two nodes, of which the second read ``there``."""
    ranks = [rank(0), rank(1)]
    ranks[0]["told"][1]["environment"], ranks[1]["told"][1]["environment"] = here, there
    nodes = {"node": node, "nnodes": 2, "joined": {}, "steps": [], "of_rank": {"0": 0, "1": 1}}
    return judged(with_ranks(*ranks, environment=told, nodes=nodes))["nccl.environment"]


@pytest.mark.parametrize("name", ["CUDA_VISIBLE_DEVICES", "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA"])
def test_a_variable_of_one_node_is_held_against_the_ranks_of_that_node_alone(name: str) -> None:
    own, other = {"NCCL_ALGO": "Ring", name: "a"}, {"NCCL_ALGO": "Ring", name: "b"}
    green = of_two_nodes(0, here=own, there=other, told=own)
    assert green.status.value == "pass"
    assert green.message.endswith(f"read back by every rank: NCCL_ALGO=Ring; each node's own: {name}")
    assert of_two_nodes(1, here=own, there=other, told=other).status.value == "pass"
    red = of_two_nodes(0, here=other, there=other, told=own)
    assert (red.status.value, red.value) == ("fail", 1)
    assert red.message == f"variables did not reach the ranks: rank 0: {name} is 'b', not 'a'"
    assert of_two_nodes(1, here=own, there=own, told=other).status.value == "fail"


def test_a_variable_that_all_nodes_need_is_held_against_the_ranks_of_every_node() -> None:
    own = {"NCCL_ALGO": "Ring", "CUDA_VISIBLE_DEVICES": "a"}
    red = of_two_nodes(0, here=own, there={"CUDA_VISIBLE_DEVICES": "b"}, told=own)
    assert red.status.value == "fail"
    assert red.message == "the nodes' variables differ: rank 1 (node 1): NCCL_ALGO is 'not set', not 'Ring'"
    assert red.fix == "start the command of every node with the same variables"


def test_on_one_node_a_rank_without_its_gpus_is_a_failure() -> None:
    wrong = pair(environment={"NCCL_DEBUG": "INFO", "CUDA_VISIBLE_DEVICES": "0,1"})
    assert judged(wrong)["nccl.environment"].status.value == "fail"


def test_a_mismatch_in_a_second_run_still_fails_the_sums() -> None:
    data = pair()
    second = copy.deepcopy(data["runs"][0])
    second["ranks"][1]["told"][4]["wrong"] = 7
    data["runs"].append({**second, "name": "without P2P", "extra": {"NCCL_P2P_DISABLE": "1"}})
    assert judged(data)["nccl.sums"].status.value == "fail"


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (
            "misc/shmutils.cc:87 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-a (size 7)",
            "/dev/shm",
        ),
        ("include/shm.h:28 NCCL WARN Call to posix_fallocate failed: No space left on device", "/dev/shm"),
        (
            "misc/ibvwrap.cc:278 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
            "memory",
        ),
        (
            "graph/paths.cc:1 NCCL WARN P2P is disabled between NVLINK connected GPUs 1 and 0. This",
            "NVLinks are up",
        ),
        ("transport/nvls.cc:244 NCCL WARN Cuda failure 1 'invalid argument'", "fabric"),
        (
            "init.cc:9 NCCL WARN Mismatched NCCL version detected : rank 0 version 22203 rank 1 version 23007",
            "versions",
        ),
    ],
)
def test_nccls_own_words_give_the_cause(line: str, word: str) -> None:
    ranks = [rank(0), rank(1)]
    for one in ranks:
        one |= {"done": False, "ended": "error", "phase": "init"}
        one["told"] = [
            {"phase": "init"},
            {"error": "ncclCommInitRankConfig: unhandled system error (2)", "code": 2},
        ]
        one["log"] = f"node1:10:11 [0] {line}"
    finding = judged(with_ranks(*ranks))["nccl.init"]
    assert finding.cause is not None
    assert word in finding.cause


def test_every_form_of_a_channel_line_gives_its_transport() -> None:
    lines = [
        "h:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
        "h:1:1 [0] NCCL INFO Channel 00/1 : 1[0] -> 2[1] via P2P/IPC/read",
        "h:1:1 [0] NCCL INFO Channel 02 : 2[1b000] -> 3[1c000] via P2P/direct pointer",
        "h:1:1 [0] NCCL INFO Channel 01 : 3[3] -> 4[4] via SHM/direct/direct",
        "h:1:1 [0] NCCL INFO Channel 00/0 : 4[4] -> 5[5] [send] via NET/IB/0/GDRDMA",
        "h:1:1 [0] NCCL INFO Channel 00/0 : 5[5] -> 6[6] [receive] via NET/Socket/0",
        "h:1:1 [0] NCCL INFO Channel 01 : 6[6] -> 7[7] via direct shared memory",
    ]
    found = [hop.transport for hop in debuglog.parse("\n".join(lines)).hops]
    assert found == [
        "P2P/CUMEM",
        "P2P/IPC",
        "P2P/direct pointer",
        "SHM",
        "NET/IB/GDRDMA",
        "NET/Socket",
        "SHM",
    ]


def test_lines_of_others_are_no_channels() -> None:
    assert debuglog.parse("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\nhello\n\x00").hops == ()
    assert not debuglog.parse("h:1:1 [0] NCCL INFO NVLS multicast support is not available on dev 0").nvls


@pytest.mark.parametrize("part", [{"look": []}, {"gpus": "x"}, {"runs": [{}]}, {"size": None}, {"runs": [5]}])
def test_a_record_with_a_wrong_part_is_refused(part: Values) -> None:
    with pytest.raises(BadInput):
        measured.parse(json.dumps({**pair(), **part}).encode(), "x.json")


GREEN = "# Out of bands\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 361.2 OK\n"
WRONG = "# Out of bounds values : 4 FAILED\n# Avg bus bandwidth    : 361.2\n"
SLOW = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 21.4 FAILED\n"


@pytest.mark.parametrize(
    ("text", "statuses"),
    [(GREEN, ["pass", "pass"]), (WRONG, ["fail", "skip"]), (SLOW, ["pass", "fail"]), ("nothing", [])],
)
def test_what_nccl_tests_printed_is_judged_too(text: str, statuses: list[str]) -> None:
    assert [finding.status.value for finding in judge_text(text)] == statuses


def test_the_reference_footers_give_their_conclusions(shared: Path) -> None:
    text = (shared / "fixtures/health/text/nccl_tests_footer.txt").read_text()
    found = [finding.status.value for finding in judge_text(text)]
    assert found == ["pass", "pass", "fail", "skip", "pass", "fail"]
