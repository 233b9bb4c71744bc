"""The way to the host, green and red: lanes, generation, replays, BAR1, CPUs; and the words about each pair."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from checks.bdf import Bdf
from checks.gpus import dump
from checks.gpus.host_bus import Bus
from checks.gpus.host_seat import Seat
from checks.gpus.judge import judge
from checks.gpus.node import Node
from checks.gpus.rule import Scene
from checks.model import Finding, Status
from tests.unit.checks.gpu_full import GIB, NOT_SUPPORTED, OTHER, Dump, bad, field, judged, link, machine, way

WIDTH, WIDEST = "nvmlDeviceGetCurrPcieLinkWidth", "nvmlDeviceGetMaxPcieLinkWidth"
NOW, HERE, OWN = (
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetGpuMaxPcieLinkGeneration",
)
BUSY = {"nvmlDeviceGetCurrentClocksEventReasons": 0, "nvmlDeviceGetUtilizationRates": {"gpu": 95}}
BAR1 = "nvmlDeviceGetBAR1MemoryInfo"

CASES: list[tuple[str, Dump, Status, str]] = [
    ("gpu.pcie_width", {WIDTH: 8}, Status.FAIL, "gpu0 runs at x16"),
    ("gpu.pcie_width", {WIDTH: 8, WIDEST: 8}, Status.WARN, "the board has x16"),
    ("gpu.pcie_generation", {NOW: 1}, Status.PASS, "it is idle"),
    ("gpu.pcie_generation", {NOW: 5}, Status.PASS, "gen5"),
    ("gpu.pcie_generation", {NOW: 1, **BUSY}, Status.PASS, "provcheck load"),
    ("gpu.pcie_generation", {HERE: 4}, Status.WARN, "siblings reach it"),
    ("gpu.pcie_generation", {HERE: NOT_SUPPORTED}, Status.SKIP, "not supported"),
    ("gpu.pcie_generation", {OWN: NOT_SUPPORTED}, Status.PASS, "gen5"),
    ("gpu.pcie_generation", {OWN: OTHER}, Status.UNKNOWN, "999"),
    ("gpu.pcie_replay", {"nvmlDeviceGetPcieReplayCounter": 4711}, Status.PASS, "no finding"),
    (
        "gpu.pcie_replay",
        {"nvmlDeviceGetPcieReplayCounter": NOT_SUPPORTED, "fields": {}},
        Status.SKIP,
        "not supported",
    ),
    ("gpu.pcie_replay", {"nvmlDeviceGetPcieReplayCounter": OTHER}, Status.UNKNOWN, "999"),
    ("gpu.bar1", {BAR1: {"bar1Total": 0}}, Status.WARN, "no BAR1"),
    ("gpu.bar1", {BAR1: {"bar1Total": GIB // 4}}, Status.WARN, "a sibling has"),
    ("gpu.bar1", {BAR1: {}}, Status.UNKNOWN, "bar1Total"),
    ("gpu.bar1", {BAR1: NOT_SUPPORTED}, Status.SKIP, "not supported"),
    ("gpu.numa", {"nvmlDeviceGetNumaNodeId": 1}, Status.PASS, "node 1, CPUs 0-15"),
    ("gpu.numa", {"nvmlDeviceGetCpuAffinity": NOT_SUPPORTED}, Status.SKIP, "neither driver nor bus"),
    ("gpu.numa", {"nvmlDeviceGetCpuAffinity": [0, 0, 0, 0]}, Status.SKIP, "neither driver nor bus"),
    ("gpu.numa", {"nvmlDeviceGetCpuAffinity": [0, 1 << 63, 3, 0]}, Status.PASS, "CPUs 127-129"),
    ("gpu.numa", {"nvmlDeviceGetCpuAffinity": OTHER}, Status.UNKNOWN, "999"),
]


@pytest.mark.parametrize(("identity", "change", "status", "said"), CASES)
def test_one_wrong_value_on_the_way_is_one_finding(
    identity: str, change: Dump, status: Status, said: str
) -> None:
    data = machine(2)
    data["devices"][1].update(change)
    found = judged(data)
    finding = found[identity, "gpu1"]
    assert (finding.status, said in finding.message) == (status, True), finding
    assert set(bad(found)) <= {(identity, "gpu1")} | (
        {("gpu.recovery", "gpu1")} if "fields" in change else set()
    )
    assert finding.fix or status is not Status.WARN


def test_a_slot_that_is_slower_than_the_board_is_told_without_a_sibling_too() -> None:
    data = machine(1)
    data["devices"][0][HERE] = 4
    assert judged(data)["gpu.pcie_generation", "gpu0"].status is Status.WARN


def test_a_bar1_smaller_than_the_memory_is_told_on_a_data_centre_board() -> None:
    data = machine(1)
    data["devices"][0][BAR1] = {"bar1Total": 32 * GIB}
    assert judged(data)["gpu.bar1", "gpu0"].status is Status.WARN


@pytest.mark.parametrize(
    ("mib", "gpus", "status"), [(256, 2, Status.PASS), (128, 2, Status.WARN), (128, 1, Status.PASS)]
)
def test_a_workstation_board_s_small_window_is_told_where_there_are_peers(
    mib: int, gpus: int, status: Status
) -> None:
    data = machine(gpus)
    for device in data["devices"]:
        device.update({"nvmlDeviceGetName": "NVIDIA GeForce RTX 4090", BAR1: {"bar1Total": mib << 20}})
    assert judged(data)["gpu.bar1", "gpu0"].status is status


@pytest.mark.parametrize(
    ("then", "now", "status"), [(1, 1, "pass"), (1, 13, "warn"), (1, 82, "fail"), (90, 2, "pass")]
)
def test_only_growth_of_the_replay_counter_is_a_finding(then: int, now: int, status: str) -> None:
    data, since = machine(2), machine(2)
    since["devices"][0]["nvmlDeviceGetPcieReplayCounter"] = then
    data["devices"][0]["nvmlDeviceGetPcieReplayCounter"] = now
    assert judged(data, since=since)["gpu.pcie_replay", "gpu0"].status.value == status
    since["devices"][0]["nvmlDeviceGetUUID"] = "GPU-another"
    assert judged(data, since=since)["gpu.pcie_replay", "gpu0"].status is Status.PASS


def seated(mine: set[int], near: set[int]) -> Finding:
    data = machine(1)
    data["devices"][0]["nvmlDeviceGetCpuAffinity"] = [0, 0, 0, 0]
    node = Node(bus=Bus(cpus={Bdf.parse("0000:10:00.0"): frozenset(near)}), seat=Seat(cpus=frozenset(mine)))
    scene = Scene(dump.parse(data, "dump"), node)
    return next(finding for finding in judge(scene) if finding.id == "gpu.numa")


def test_a_process_that_may_not_run_near_its_gpu_is_told() -> None:
    found = seated({0, 1}, {32, 33, 34, 300})
    assert found.status is Status.WARN
    assert "CPUs 32-34,300 are near it, this process may use 0-1 only" in found.message
    assert seated({1, 32}, {32, 33}).status is Status.PASS
    assert seated(set(), {32, 33}).status is Status.PASS


def pair(*ways: Dump, gpus: int = 2, **change: Any) -> Finding:
    data = machine(gpus)
    data["p2p"] = list(ways)
    for device in data["devices"]:
        device.update(change)
    return judged(data)["pcie.p2p", "pair 0-1"]


NO_LINKS = {"nvlink": {str(number): link(NOT_SUPPORTED) for number in range(18)}}
BY_PCIE = {"nvmlDeviceGetName": "NVIDIA RTX A6000", **NO_LINKS}


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (0, "pass"),
        (1, "warn"),
        (2, "skip"),
        (3, "warn"),
        (4, "warn"),
        (5, "skip"),
        (6, "unknown"),
        (9, "warn"),
    ],
)
def test_each_word_of_the_driver_about_a_pair_has_its_verdict(status: int, verdict: str) -> None:
    assert pair(way(0, 1, read=status, nvlink=5), **BY_PCIE).status.value == verdict
    assert pair(way(0, 1, nvlink=5), way(1, 0, write=status, nvlink=5), **BY_PCIE).status.value == verdict


def test_ok_is_said_to_be_the_driver_s_word_and_no_proof() -> None:
    assert "provcheck nccl" in pair(way(0, 1)).message
    assert "not the data path" in pair(way(0, 1)).message


@pytest.mark.parametrize("status", [1, 2, 3, 4, 5])
def test_nvlinks_up_and_peer_to_peer_off_is_a_failure(status: int) -> None:
    assert pair(way(0, 1, read=status)).status is Status.FAIL, "the driver calls the links usable"
    assert pair(way(0, 1, read=status, nvlink=status)).status is Status.FAIL, "both hang on the same switches"
    ends = {"nvlink": {"0": link(remote_type=0, remote={"busId": "00000000:11:00.0"})}}
    found = pair(way(0, 1, write=status, nvlink=status), **ends)
    assert found.status is Status.FAIL, "a link of one ends at the other"
    away = {"nvlink": {"0": link(remote_type=0, remote={"busId": "00000000:77:00.0"})}}
    assert pair(way(0, 1, write=status, nvlink=status), **away).status is not Status.FAIL


def test_a_pair_with_a_lost_gpu_is_unknown_and_the_others_are_not() -> None:
    data = machine(3)
    data["devices"][2] = {"handle": {"err": 15, "msg": "GPU is lost"}}
    found = judged(data)
    assert found["pcie.p2p", "pair 0-2"].status is Status.UNKNOWN
    assert found["pcie.p2p", "pair 1-2"].status is Status.UNKNOWN
    assert found["pcie.p2p", "pair 0-1"].status is Status.PASS


def test_one_gpu_has_no_pair() -> None:
    assert judged(machine(1))["pcie.p2p", "host"].status is Status.SKIP


@pytest.mark.parametrize("topo", [10, 20, 30, 40, 50])
def test_how_far_apart_the_two_are_is_said(topo: int) -> None:
    words = {
        10: "one PCIe switch",
        20: "several PCIe",
        30: "host bridge",
        40: "within one NUMA",
        50: "across NUMA",
    }
    assert words[topo] in pair(way(0, 1, topo=topo)).message


def test_a_gpu_that_is_part_of_its_host_s_chip_has_no_slot_to_judge() -> None:
    data = machine(1)
    data["devices"][0].update(
        {
            "nvmlDeviceGetName": "NVIDIA GB10",
            WIDTH: 1,
            WIDEST: 16,
            HERE: 1,
            "nvmlDeviceGetMemoryInfo": NOT_SUPPORTED,
            "memv2": NOT_SUPPORTED,
        }
    )
    found = judged(data)
    for identity in ("gpu.pcie_width", "gpu.pcie_generation", "gpu.pcie_replay", "gpu.bar1", "gpu.memory"):
        assert found[identity, "gpu0"].status is Status.SKIP
        assert "GB10" in found[identity, "gpu0"].message


def test_growth_is_read_by_field_where_the_getter_is_not_supported() -> None:
    data = machine(1)
    data["devices"][0]["nvmlDeviceGetPcieReplayCounter"] = NOT_SUPPORTED
    since = copy.deepcopy(data)
    data["devices"][0]["fields"]["NVML_FI_DEV_PCIE_REPLAY_COUNTER"] = field(9)
    assert judged(data, since=since)["gpu.pcie_replay", "gpu0"].status is Status.WARN
