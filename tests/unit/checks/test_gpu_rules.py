"""Each rule about a GPU, green and red, on a dump that is healthy but for one value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checks.gpus.fabric import unhealthy
from checks.model import Finding, Status, verdict_of

Dump = dict[str, Any]
Judged = Callable[..., dict[tuple[str, str], Finding]]
Healthy = Callable[..., Dump]

NOT_SUPPORTED = {"err": 3, "cls": "NVMLError_NotSupported", "msg": "Not Supported"}
LOST = {"err": 15, "cls": "NVMLError_GpuIsLost", "msg": "GPU is lost"}
OTHER = {"err": 999, "cls": "NVMLError_Unknown", "msg": "Unknown Error"}


def field(value: int) -> Dump:
    return {"ret": 0, "type": 1, "ull": value, "ui": value}


def test_a_healthy_machine_passes_with_one_finding_per_check_and_gpu(
    healthy: Healthy, judged: Judged
) -> None:
    findings = judged(healthy(2), expect=2)
    assert verdict_of(findings.values()) is Status.PASS
    assert {subject for _, subject in findings} == {"host", "gpu0", "gpu1"}
    assert [f.id for f in findings.values() if f.status is Status.SKIP] == [
        "driver.floor",
        "driver.adapter_init",
    ], "a plain dump does not show the bus"


CASES = [
    ("gpu.ecc", {"ecc_unc_vol": 1}, Status.FAIL, "since boot"),
    ("gpu.ecc", {"ecc_unc_agg": 3}, Status.WARN, "in its life"),
    ("gpu.ecc", {"sram_ecc": {"bThresholdExceeded": 1}}, Status.FAIL, "threshold"),
    ("gpu.ecc", {"nvmlDeviceGetEccMode": [0, 0]}, Status.FAIL, "off"),
    ("gpu.ecc", {"nvmlDeviceGetEccMode": [1, 0]}, Status.WARN, "after the next reset"),
    ("gpu.ecc", {"nvmlDeviceGetEccMode": NOT_SUPPORTED}, Status.UNKNOWN, "this board has it"),
    ("gpu.ecc", {"ecc_unc_vol": OTHER}, Status.UNKNOWN, "could not be read"),
    ("gpu.row_remap", {"nvmlDeviceGetRemappedRows": [0, 2, 1, 0]}, Status.FAIL, "pending"),
    ("gpu.row_remap", {"nvmlDeviceGetRemappedRows": [0, 8, 0, 1]}, Status.FAIL, "failed"),
    ("gpu.row_remap", {"nvmlDeviceGetRemappedRows": [1, 2, 0, 0]}, Status.PASS, "no row remapping"),
    ("gpu.row_remap", {"nvmlDeviceGetRemappedRows": NOT_SUPPORTED}, Status.UNKNOWN, "this board has it"),
    ("gpu.pcie_width", {"nvmlDeviceGetCurrPcieLinkWidth": 8}, Status.FAIL, "x8 of x16"),
    ("gpu.pcie_width", {"nvmlDeviceGetCurrPcieLinkWidth": OTHER}, Status.UNKNOWN, "could not be read"),
    ("gpu.throttle", {"nvmlDeviceGetCurrentClocksEventReasons": 0x48}, Status.FAIL, "HW thermal slowdown"),
    ("gpu.throttle", {"nvmlDeviceGetCurrentClocksEventReasons": 0x80}, Status.FAIL, "power brake"),
    ("gpu.throttle", {"nvmlDeviceGetCurrentClocksEventReasons": 0x20}, Status.WARN, "heat"),
    ("gpu.throttle", {"nvmlDeviceGetCurrentClocksEventReasons": 0x4}, Status.WARN, "power cap while idle"),
    ("gpu.temperature", {"temp": 89}, Status.FAIL, "slowdown"),
    ("gpu.temperature", {"temp": 87}, Status.WARN, "highest"),
    ("gpu.temperature", {"temp": 88, "tthr_gpu_max": 0}, Status.PASS, "88 C"),
    ("gpu.temperature", {"temp": OTHER, "tempV": OTHER}, Status.UNKNOWN, "could not be read"),
    ("gpu.temperature", {"temp": NOT_SUPPORTED, "tempV": 41}, Status.PASS, "41 C"),
    ("gpu.power_limit", {"nvmlDeviceGetPowerManagementLimit": 400000}, Status.WARN, "400 W"),
    ("gpu.power_limit", {"nvmlDeviceGetEnforcedPowerLimit": 300000}, Status.WARN, "300 W"),
    ("gpu.power_limit", {"nvmlDeviceGetPowerManagementLimit": NOT_SUPPORTED}, Status.SKIP, "not supported"),
    ("gpu.identity", {"nvmlDeviceGetUUID": OTHER}, Status.UNKNOWN, "could not be read"),
    ("gpu.identity", {"nvmlDeviceGetPciInfo": {"busId": "junk"}}, Status.UNKNOWN, "junk"),
    ("gpu.identity", {"nvmlDeviceGetPciInfo": {"busId": "00000000:11:00.0"}}, Status.FAIL, "shares"),
    ("gpu.recovery", {"fields": {"NVML_FI_DEV_GET_GPU_RECOVERY_ACTION": field(1)}}, Status.FAIL, "action 1"),
    (
        "gpu.recovery",
        {"fields": {"NVML_FI_DEV_GET_GPU_RECOVERY_ACTION": {"ret": 3}}},
        Status.SKIP,
        "not supported",
    ),
    (
        "gpu.recovery",
        {"fields": {"NVML_FI_DEV_GET_GPU_RECOVERY_ACTION": {"ret": 999}}},
        Status.UNKNOWN,
        "999",
    ),
    ("gpu.recovery", {"fields": {}}, Status.UNKNOWN, "not in the evidence"),
    ("fabric.state", {"fabricV": {"state": 1, "status": 0, "healthSummary": 1}}, Status.FAIL, "not started"),
    ("fabric.state", {"fabricV": {"state": 2, "status": 0}}, Status.UNKNOWN, "still being set up"),
    ("fabric.state", {"fabricV": {"state": 3, "status": 26}}, Status.FAIL, "error status 26"),
    ("fabric.state", {"fabricV": {"state": 3, "status": 0, "healthSummary": 2}}, Status.FAIL, "unhealthy"),
    ("fabric.state", {"fabricV": {"state": 3, "status": 0, "healthSummary": 3}}, Status.WARN, "limited"),
    ("fabric.state", {"fabricV": {"state": 3, "status": 0, "healthMask": 0x1A9}}, Status.FAIL, "bandwidth"),
    ("fabric.state", {"fabricV": {"state": 0, "status": 0}}, Status.UNKNOWN, "this board has it"),
    ("fabric.state", {"fabricV": NOT_SUPPORTED}, Status.UNKNOWN, "this board has it"),
    ("fabric.state", {"fabricV": {"status": 0}}, Status.UNKNOWN, "no state"),
    ("fabric.state", {"fabricV": {"state": 9, "status": 0}}, Status.UNKNOWN, "not known here"),
]


@pytest.mark.parametrize(("identity", "change", "status", "said"), CASES)
def test_one_wrong_value_is_one_wrong_finding(
    identity: str, change: Dump, status: Status, said: str, healthy: Healthy, judged: Judged
) -> None:
    data = healthy(2)
    data["devices"][0].update(change)
    findings = judged(data, expect=2)
    finding = findings[identity, "gpu0"]
    assert (finding.status, said in finding.message) == (status, True), finding
    twins = [(identity, "gpu0"), ("gpu.identity", "gpu1")] if "shares" in said else [(identity, "gpu0")]
    others = [f for key, f in findings.items() if key not in twins]
    assert {f.status for f in others} <= {Status.PASS, Status.SKIP}
    if status is Status.FAIL and "shares" not in said:
        assert finding.fix, "a failure names the next step"


def test_memory_over_its_limit_fails_although_the_core_is_cool(healthy: Healthy, judged: Judged) -> None:
    data = healthy(1)
    data["devices"][0]["fields"]["NVML_FI_DEV_MEMORY_TEMP"] = field(96)
    assert judged(data)["gpu.temperature", "gpu0"].status is Status.FAIL
    data["devices"][0]["fields"]["NVML_FI_DEV_MEMORY_TEMP"] = field(95)
    assert judged(data)["gpu.temperature", "gpu0"].status is Status.PASS


def test_a_power_cap_under_load_is_normal(healthy: Healthy, judged: Judged) -> None:
    data = healthy(1)
    busy = {"gpu": 100, "memory": 60}
    data["devices"][0].update(nvmlDeviceGetCurrentClocksEventReasons=4, nvmlDeviceGetUtilizationRates=busy)
    assert judged(data)["gpu.throttle", "gpu0"].status is Status.PASS


def test_a_narrow_link_without_a_wider_sibling_is_only_a_warning_while_idle(
    healthy: Healthy, judged: Judged
) -> None:
    data = healthy(1)
    gpu = data["devices"][0]
    gpu["nvmlDeviceGetCurrPcieLinkWidth"] = 8
    assert judged(data)["gpu.pcie_width", "gpu0"].status is Status.WARN
    gpu.update(nvmlDeviceGetCurrentClocksEventReasons=0, nvmlDeviceGetUtilizationRates={"gpu": 90})
    assert judged(data)["gpu.pcie_width", "gpu0"].status is Status.FAIL


def test_ecc_off_is_allowed_on_a_workstation_board_unless_its_sibling_has_it_on(
    healthy: Healthy, judged: Judged
) -> None:
    data = healthy(2)
    for gpu in data["devices"]:
        gpu.update(nvmlDeviceGetName="NVIDIA RTX A6000", nvmlDeviceGetEccMode=[0, 0])
    assert judged(data)["gpu.ecc", "gpu0"].status is Status.SKIP
    data["devices"][1]["nvmlDeviceGetEccMode"] = [1, 1]
    assert judged(data)["gpu.ecc", "gpu0"].status is Status.WARN


@pytest.mark.parametrize("key", ["temp", "nvmlDeviceGetPowerUsage", "fabricV", "ecc_unc_vol"])
def test_a_lost_gpu_is_believed_nothing(key: str, healthy: Healthy, judged: Judged) -> None:
    data = healthy(3)
    data["devices"][1][key] = LOST
    findings = judged(data, expect=3)
    assert findings["gpu.lost", "gpu1"].status is Status.FAIL
    rest = [f for f in findings.values() if f.subject == "gpu1" and f.id != "gpu.lost"]
    assert {f.status for f in rest} == {Status.UNKNOWN}
    assert findings["gpu.count", "host"].status is Status.PASS
    assert all(f.status is Status.PASS for f in findings.values() if f.subject == "gpu2")


@pytest.mark.parametrize(
    ("code", "status"), [(15, Status.FAIL), (17, Status.UNKNOWN), ("Timeout", Status.UNKNOWN)]
)
def test_a_gpu_without_handle_is_lost_or_unknown(
    code: object, status: Status, healthy: Healthy, judged: Judged
) -> None:
    data = healthy(2)
    data["devices"][1] = {"handle": {"err": code, "msg": "said"}}
    findings = judged(data, expect=2)
    assert findings["gpu.lost", "gpu1"].status is status
    assert findings["gpu.ecc", "gpu1"].status is Status.UNKNOWN


def test_a_gpu_that_shows_no_live_value_is_not_called_alive(healthy: Healthy, judged: Judged) -> None:
    data = healthy(1)
    for key in ("temp", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetMemoryInfo"):
        data["devices"][0][key] = OTHER
    assert judged(data)["gpu.lost", "gpu0"].status is Status.UNKNOWN


def test_a_gpu_that_the_evidence_leaves_out_is_unknown(healthy: Healthy, judged: Judged) -> None:
    data = healthy(2)
    data["devices"].pop()
    assert judged(data, expect=2)["gpu.lost", "gpu1"].status is Status.UNKNOWN


def links(*states: object) -> Dump:
    return {str(number): {"state": state} for number, state in enumerate(states)}


NVLINK = [
    # name, GPUs, links of gpu0, link count, status
    ("NVIDIA H200", 2, links(*[1] * 17, 0), 18, Status.FAIL),
    ("NVIDIA H200", 2, links(*[0] * 18), 0, Status.FAIL),
    ("NVIDIA H200", 2, links(*[NOT_SUPPORTED] * 18), 0, Status.UNKNOWN),
    ("NVIDIA H200", 1, links(*[NOT_SUPPORTED] * 18), 0, Status.SKIP),
    ("NVIDIA H200", 1, links(*[0] * 18), 0, Status.SKIP),
    ("NVIDIA H200", 1, links(*[1] * 17, 0), 18, Status.FAIL),
    ("NVIDIA H200", 2, links(*[1] * 17, OTHER), 18, Status.UNKNOWN),
    ("NVIDIA A100-SXM4-80GB", 2, links(*[1] * 12, *[0] * 6), 12, Status.PASS),
    ("NVIDIA A100-SXM4-80GB", 2, links(*[1] * 11, *[0] * 7), 12, Status.FAIL),
    ("NVIDIA RTX A6000", 2, links(*[1] * 4, *[NOT_SUPPORTED] * 14), 4, Status.PASS),
    ("NVIDIA RTX A6000", 2, links(*[0] * 4, *[NOT_SUPPORTED] * 14), 4, Status.SKIP),
    ("NVIDIA RTX A6000", 2, links(1, 1, 0, 1, *[NOT_SUPPORTED] * 14), 4, Status.FAIL),
    ("NVIDIA L40S", 2, links(*[0] * 18), 0, Status.SKIP),
    ("A board of tomorrow", 2, links(*[NOT_SUPPORTED] * 18), 0, Status.SKIP),
]


@pytest.mark.parametrize(("name", "gpus", "states", "count", "status"), NVLINK)
def test_nvlinks_are_held_against_what_the_board_must_have(
    name: str, gpus: int, states: Dump, count: int, status: Status, healthy: Healthy, judged: Judged
) -> None:
    data = healthy(gpus)
    for gpu in data["devices"]:
        gpu.update(nvmlDeviceGetName=name, nvlink=states)
        gpu["fields"]["NVML_FI_DEV_NVLINK_LINK_COUNT"] = field(count) if count else {"ret": 3}
    assert judged(data)["nvlink.state", "gpu0"].status is status


def test_down_links_are_named(healthy: Healthy, judged: Judged) -> None:
    data = healthy(2)
    for number in ("3", "5"):
        data["devices"][0]["nvlink"][number]["state"] = 0
    assert "down: 3, 5" in judged(data)["nvlink.state", "gpu0"].message


def test_a_single_gpu_needs_no_fabric(healthy: Healthy, judged: Judged) -> None:
    data = healthy(1)
    data["devices"][0]["fabricV"] = {"state": 0, "status": 0, "healthMask": 0, "healthSummary": 0}
    assert judged(data)["fabric.state", "gpu0"].status is Status.SKIP


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (0x1AA, []),
        (0, []),
        (0x1A9, ["degraded bandwidth"]),
        (0x1A6, ["route recovery"]),
        (0x19A, ["unhealthy route"]),
        (0x16A, ["access timeout recovery"]),
        (0x5AA, ["incorrect configuration"]),
        (0x21AA, ["no partition assigned"]),
        (0x11AA, []),
        (0x81AA, ["fabric manager disconnected"]),
    ],
)
def test_one_is_bad_in_the_first_four_groups_of_the_mask_and_good_in_the_others(
    mask: int, words: list[str]
) -> None:
    assert unhealthy(mask) == words
