"""NVLinks against siblings, their error counters, and the fabric over machines, green and red."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from checks.model import Status
from tests.unit.checks.gpu_full import NOT_SUPPORTED, OTHER, Dump, bad, judged, link, machine

A6000, A100 = "NVIDIA RTX A6000", "NVIDIA A100 80GB PCIe"


def links(up: int, there: int = 4) -> Dump:
    states = [1] * up + [0] * (there - up) + [NOT_SUPPORTED] * (18 - there)
    return {str(number): link(state) for number, state in enumerate(states)}


def bridged(name: str, *ups: int) -> Dump:
    """A machine with so many active links on each board."""
    data = machine(len(ups))
    data["p2p"] = []
    for device, up in zip(data["devices"], ups, strict=True):
        device.update(nvmlDeviceGetName=name, nvlink=links(up), fabricV=NOT_SUPPORTED)
        device["fields"]["NVML_FI_DEV_NVLINK_LINK_COUNT"] = {"ret": 3}
    return data


@pytest.mark.parametrize(
    ("name", "ups", "verdicts"),
    [
        (A6000, (0, 0), "skip skip"),
        (A6000, (4, 4), "pass pass"),
        (A6000, (4, 0), "pass fail"),
        (A6000, (4, 3), "pass fail"),
        (A6000, (4, 4, 0, 0), "pass pass warn warn"),
        (A6000, (4, 4, 4, 0), "pass pass pass fail"),
        (A100, (0, 0, 0, 0), "skip skip skip skip"),
        (A6000, (0,), "skip"),
    ],
)
def test_no_bridge_anywhere_is_no_fault_and_one_gpu_fewer_is(
    name: str, ups: tuple[int, ...], verdicts: str
) -> None:
    found = judged(bridged(name, *ups))
    assert [found["nvlink.symmetry", f"gpu{n}"].status.value for n in range(len(ups))] == verdicts.split()


def test_siblings_of_another_name_are_not_compared() -> None:
    data = bridged(A6000, 4, 4)
    data["devices"].append({**data["devices"][0], "nvmlDeviceGetName": "NVIDIA L40S", "nvlink": links(0)})
    data["nvmlDeviceGetCount"] = 3
    assert judged(data)["nvlink.symmetry", "gpu2"].status is Status.SKIP


def test_on_a_board_with_fixed_links_one_gpu_without_any_fails() -> None:
    data = machine(4)
    data["devices"][2]["nvlink"] = {str(number): link(0) for number in range(18)}
    found = judged(data)
    assert found["nvlink.symmetry", "gpu2"].status is Status.FAIL
    assert found["nvlink.state", "gpu2"].status is Status.FAIL
    assert found["nvlink.symmetry", "gpu1"].status is Status.PASS


def test_a_dead_link_is_a_failure_although_another_cannot_be_read() -> None:
    data = machine(2)
    data["devices"][0]["nvlink"]["2"]["state"] = 0
    data["devices"][0]["nvlink"]["5"]["state"] = OTHER
    finding = judged(data)["nvlink.state", "gpu0"]
    assert (finding.status, "down: 2" in finding.message) == (Status.FAIL, True)


ERRORS = [
    ({"replay": 7}, "pass"),
    ({"crc_flit": 900}, "pass"),
    ({"crc_flit": 5000}, "warn"),
    ({"replay": 5000}, "warn"),
    ({"recovery": 1}, "warn"),
    ({"recovery": OTHER}, "unknown"),
    ({"recovery": 2, "replay": OTHER}, "warn"),
    ({"recovery": NOT_SUPPORTED, "replay": NOT_SUPPORTED, "crc_flit": NOT_SUPPORTED}, "pass"),
]


@pytest.mark.parametrize(("counters", "verdict"), ERRORS)
def test_repaired_errors_are_noise_and_a_link_that_trained_anew_is_not(counters: Dump, verdict: str) -> None:
    data = machine(2)
    data["devices"][0]["nvlink"]["3"].update(counters)
    assert judged(data)["nvlink.errors", "gpu0"].status.value == verdict


def test_errors_on_all_links_alike_are_no_single_bad_link() -> None:
    data = machine(2)
    for one in data["devices"][0]["nvlink"].values():
        one["crc_flit"] = 5000
    assert judged(data)["nvlink.errors", "gpu0"].status is Status.PASS


@pytest.mark.parametrize(
    ("kind", "verdict"), [("replay", "warn"), ("crc_flit", "warn"), ("recovery", "fail")]
)
def test_link_errors_that_grow_are_a_finding(kind: str, verdict: str) -> None:
    data = machine(2)
    data["devices"][1]["nvlink"]["9"][kind] = 5
    since = copy.deepcopy(data)
    assert judged(data, since=since)["nvlink.errors", "gpu1"].status is not Status.FAIL
    data["devices"][1]["nvlink"]["9"][kind] = 6
    found = judged(data, since=since)
    assert found["nvlink.errors", "gpu1"].status.value == verdict
    assert "since the earlier record" in found["nvlink.errors", "gpu1"].message
    assert found["nvlink.errors", "gpu0"].status is Status.PASS


def test_a_gpu_without_links_has_no_link_errors() -> None:
    data = machine(1)
    counters = dict.fromkeys(("replay", "recovery", "crc_flit"), NOT_SUPPORTED)
    data["devices"][0]["nvlink"] = {str(number): link(NOT_SUPPORTED, **counters) for number in range(18)}
    assert judged(data)["nvlink.errors", "gpu0"].status is Status.SKIP
    data["devices"][0]["nvlink"] = {str(number): {"state": NOT_SUPPORTED} for number in range(18)}
    assert ("nvlink.errors", "gpu0") not in judged(data), "the record never had the counters"


def fabric(**change: Any) -> Dump:
    return {"fabricV": {**machine(1)["devices"][0]["fabricV"], **change}}


FABRIC: list[tuple[str, Dump, str, str]] = [
    ("NVIDIA H200", fabric(), "pass", "completed"),
    ("NVIDIA H200", fabric(healthMask=0, healthSummary=0), "pass", "completed"),
    ("NVIDIA H200", fabric(state=1, healthMask=0x1A9, status=26), "fail", "not started"),
    ("NVIDIA H200", fabric(state=2), "unknown", "being set up"),
    ("NVIDIA H200", fabric(status=26), "fail", "status 26"),
    ("NVIDIA H200", fabric(healthMask=0x41AA), "pass", "completed"),
    ("NVIDIA H200", fabric(healthMask=0x81AA), "fail", "disconnected"),
    ("NVIDIA H200", fabric(cliqueId=3), "warn", "clique"),
    ("NVIDIA GB200", fabric(), "fail", "cluster UUID"),
    ("NVIDIA GB200", fabric(clusterUuid=[7] * 16), "pass", "completed"),
    ("NVIDIA GB200", {"fabricV": NOT_SUPPORTED}, "unknown", "this board has it"),
    ("NVIDIA B200", {"fabricV": NOT_SUPPORTED}, "unknown", "this board has it"),
    ("NVIDIA A100-SXM4-80GB", {"fabricV": NOT_SUPPORTED}, "skip", "not supported"),
]


@pytest.mark.parametrize(("name", "change", "verdict", "said"), FABRIC)
def test_the_fabric_is_well_when_completed_with_success_and_in_its_cluster(
    name: str, change: Dump, verdict: str, said: str
) -> None:
    data = machine(2)
    for device in data["devices"]:
        device["nvmlDeviceGetName"] = name
        device["fabricV"] = {
            **device["fabricV"],
            "clusterUuid": change.get("fabricV", {}).get("clusterUuid", [0] * 16),
        }
    data["devices"][0].update(change)
    finding = judged(data)["fabric.state", "gpu0"]
    assert (finding.status.value, said in finding.message) == (verdict, True), finding


def test_a_fabric_that_was_being_set_up_in_the_earlier_record_too_fails() -> None:
    data = machine(2)
    data["devices"][0]["fabricV"]["state"] = 2
    assert judged(data, since=machine(2))["fabric.state", "gpu0"].status is Status.UNKNOWN
    assert judged(data, since=data)["fabric.state", "gpu0"].status is Status.FAIL


def test_links_are_well_while_the_fabric_is_dead() -> None:
    data = machine(2)
    for device in data["devices"]:
        device.update(fabric(state=1))
    assert bad(judged(data)) == {("fabric.state", "gpu0"): "fail", ("fabric.state", "gpu1"): "fail"}


def test_what_a_sibling_says_of_its_clique_while_not_completed_is_left_over() -> None:
    data = machine(2)
    data["devices"][1].update(fabric(state=1, cliqueId=9))
    assert bad(judged(data)) == {("fabric.state", "gpu1"): "fail"}


def test_a_live_gpu_that_shows_no_link_has_no_counters_to_read() -> None:
    data = machine(1)
    data["devices"][0]["nvlink"] = {str(number): {"state": NOT_SUPPORTED} for number in range(18)}
    assert judged(data, live=True)["nvlink.errors", "gpu0"].status is Status.SKIP
    data["devices"][0]["nvlink"]["0"]["state"] = 1
    assert judged(data, live=True)["nvlink.errors", "gpu0"].status is Status.UNKNOWN
