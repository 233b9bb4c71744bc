"""Well boards of other kinds, drivers and settings than the H200 that everything was written with: no false alarm."""

from __future__ import annotations

from typing import Any

import pytest

from checks.gpus.rule import Plan
from checks.model import Status
from tests.unit.checks.gpu_full import (
    NOT_SUPPORTED,
    OTHER,
    Dump,
    bad,
    board,
    field,
    judged,
    link,
    machine,
    of,
    volta,
)

INVALID = {"err": 2, "cls": "NVMLError_InvalidArgument", "msg": "Invalid Argument"}
DEPRECATED = {
    "err": 26,
    "cls": "NVMLError_Deprecated",
    "msg": "The requested functionality has been deprecated",
}
OLDER = {"err": 25, "cls": "NVMLError_ArgumentVersionMismatch", "msg": "Argument version mismatch"}
REFUSED = {"err": 4, "cls": "NVMLError_NoPermission", "msg": "Insufficient Permissions"}
APP, DEFAULT = "nvmlDeviceGetApplicationsClock:gfx", "nvmlDeviceGetDefaultApplicationsClock:gfx"


def no_such_links(first: int) -> Dump:
    """Links from ``first`` on are numbers that the GPU refuses, as real boards do."""
    every = dict.fromkeys(link(), INVALID)
    return {str(n): link() if n < first else every for n in range(18)}


def ampere(index: int) -> Dump:
    a100 = {
        "nvmlDeviceGetName": "NVIDIA A100-SXM4-80GB",
        "nvmlDeviceGetArchitecture": 7,
        "nvmlDeviceGetMaxPcieLinkGeneration": 4,
        "nvmlDeviceGetGpuMaxPcieLinkGeneration": 4,
        "nvmlDeviceGetMaxClockInfo:gfx": 1410,
        APP: 1275,
        "fabricV": NOT_SUPPORTED,
        "nvlink": no_such_links(12),
    }
    device = {**board(index), **a100}
    device["fields"] = {**device["fields"], "NVML_FI_DEV_NVLINK_LINK_COUNT": field(12)}
    return device


def without_links(name: str, **more: Any) -> Any:
    def make(index: int) -> Dump:
        device = {
            **board(index),
            "nvmlDeviceGetName": name,
            "fabricV": OLDER,
            "nvlink": no_such_links(0),
            **more,
        }
        device["fields"] = {**device["fields"], "NVML_FI_DEV_NVLINK_LINK_COUNT": {"ret": 2}}
        return device

    return make


def volta_real(index: int) -> Dump:
    return {**volta(index), "nvlink": no_such_links(6)}


@pytest.mark.parametrize(
    "make",
    [
        ampere,
        volta_real,
        without_links("NVIDIA L40S"),
        without_links("NVIDIA GeForce RTX 4090"),
        without_links("NVIDIA RTX PRO 6000 Blackwell Server Edition"),
        without_links("Tesla T4", nvmlDeviceGetArchitecture=6, nvmlDeviceGetRemappedRows=NOT_SUPPORTED),
    ],
)
@pytest.mark.parametrize("count", [1, 4])
def test_a_link_or_field_number_that_the_gpu_refuses_is_one_that_it_has_not(make: Any, count: int) -> None:
    assert bad(judged(of([make(index) for index in range(count)]))) == {}


def test_link_numbers_that_are_refused_are_no_excuse_for_a_board_that_has_them() -> None:
    data = machine(2)
    data["devices"][1]["nvlink"] = no_such_links(0)
    assert bad(judged(data))["nvlink.state", "gpu1"] == "unknown"
    data["devices"][1]["nvlink"] = no_such_links(17)
    assert bad(judged(data))["nvlink.state", "gpu1"] == "fail"


def test_calls_that_a_driver_gave_up_or_does_not_know_yet_are_no_finding() -> None:
    data = machine(2)
    for device in data["devices"]:
        device.update(dict.fromkeys((APP, DEFAULT, "nvmlDeviceGetCurrentClocksThrottleReasons"), DEPRECATED))
        device.update(dict.fromkeys(("memv2", "sram_ecc", "viol_thermal"), OLDER))
    assert bad(judged(data)) == {}
    data["devices"][0]["fabricV"] = OLDER
    assert bad(judged(data)) == {("fabric.state", "gpu0"): "unknown"}, "this board must have a fabric"


def test_an_application_clock_is_held_against_the_default_that_the_driver_tells() -> None:
    data = of([ampere(0)])
    data["devices"][0][DEFAULT] = 1275
    assert bad(judged(data)) == {}
    data["devices"][0][APP] = 1000
    finding = judged(data)["gpu.clocks", "gpu0"]
    assert (finding.status, finding.value, finding.limit) == (Status.WARN, 1000, 1275)


WHOLE = (
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetMemoryInfo",
    "memv2",
    "nvmlDeviceGetBAR1MemoryInfo",
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
)


@pytest.mark.parametrize("error", [REFUSED, NOT_SUPPORTED])
def test_a_divided_gpu_that_tells_a_plain_user_nothing_of_its_whole_is_well(error: Dump) -> None:
    data = machine(1)
    data["devices"][0].update({"nvmlDeviceGetMigMode": [1, 1], "mig": [{"uuid": "MIG-1"}]})
    data["devices"][0].update(dict.fromkeys(WHOLE, error))
    assert bad(judged(data, plan=Plan(mig=True))) == {}


def test_a_whole_gpu_that_tells_a_plain_user_nothing_is_unknown() -> None:
    data = machine(1)
    data["devices"][0].update(dict.fromkeys(WHOLE, REFUSED))
    assert {status for (_, subject), status in bad(judged(data)).items() if subject == "gpu0"} == {"unknown"}


@pytest.mark.parametrize(
    ("name", "status", "verdict"),
    [
        ("NVIDIA GeForce RTX 4090", 1, "skip"),
        ("NVIDIA GeForce RTX 4090", 5, "skip"),
        ("NVIDIA GeForce RTX 4090", 4, "warn"),
        ("NVIDIA L40S", 1, "warn"),
    ],
)
def test_consumer_boards_without_peers_are_as_they_are_made(name: str, status: int, verdict: str) -> None:
    data = of([without_links(name)(0), without_links(name)(1)])
    for row in data["p2p"]:
        row.update(read=status, write=status, nvlink=5)
    assert judged(data)["pcie.p2p", "pair 0-1"].status.value == verdict


@pytest.mark.parametrize(
    ("action", "word"), [(1, "GPU reset"), (2, "node reboot"), (5, "IMEX"), (99, "unknown")]
)
def test_a_recovery_that_is_asked_for_is_told_in_words(action: int, word: str) -> None:
    data = machine(1)
    data["devices"][0]["fields"]["NVML_FI_DEV_GET_GPU_RECOVERY_ACTION"] = field(action)
    finding = judged(data)["gpu.recovery", "gpu0"]
    assert finding.status is Status.FAIL
    assert word in finding.message


@pytest.mark.parametrize("text", ["b:580.159.04\0\0\0\0", "580.159.04\0", " 580.159.04 ", "580.159.04"])
def test_what_pads_a_text_is_no_part_of_it(text: str) -> None:
    data = machine(2)
    data["nvmlSystemGetDriverVersion"] = "580.159.04\0\0"
    for device in data["devices"]:
        device["nvmlDeviceGetGspFirmwareVersion"] = text
        device["nvmlDeviceGetName"] += "\0"
    assert bad(judged(data)) == {}


@pytest.mark.parametrize("code", [4, 17, 28, 999])
def test_a_gpu_that_nvml_does_not_open_comes_with_a_next_step(code: int) -> None:
    data = machine(2)
    data["devices"][1] = {"handle": {"err": code, "msg": "no"}}
    finding = judged(data)["gpu.lost", "gpu1"]
    assert finding.status is Status.UNKNOWN
    assert finding.cause
    assert finding.fix


def test_a_gpu_that_is_not_in_the_evidence_is_no_reason_to_reboot() -> None:
    data = machine(2)
    del data["devices"][1]
    finding = judged(data)["gpu.lost", "gpu1"]
    assert (finding.status, finding.fix) == (Status.UNKNOWN, None)


def test_dead_firmware_is_named_where_telemetry_ends_in_unknown_errors() -> None:
    data = machine(2)
    keys = ("temp", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetMemoryInfo")
    data["devices"][1].update(dict.fromkeys(keys, OTHER))
    finding = judged(data)["gpu.lost", "gpu1"]
    assert finding.status is Status.UNKNOWN
    assert "GSP" in (finding.cause or "")
    assert finding.fix


LIMITS = "nvmlDeviceGetPowerManagementLimit", "nvmlDeviceGetEnforcedPowerLimit"


@pytest.mark.parametrize(
    ("name", "watts", "verdict"),
    [("NVIDIA H200", 400, "warn"), ("NVIDIA H200", 700, "pass"), ("A board of tomorrow", 400, "unknown")],
)
def test_a_default_power_of_zero_is_no_default(name: str, watts: int, verdict: str) -> None:
    data = machine(1)
    data["devices"][0].update(dict.fromkeys(LIMITS, watts * 1000))
    data["devices"][0].update(nvmlDeviceGetName=name, nvmlDeviceGetPowerManagementDefaultLimit=0)
    assert judged(data)["gpu.power_limit", "gpu0"].status.value == verdict


def test_the_one_gpu_in_another_clique_is_told_and_not_its_siblings() -> None:
    data = machine(4)
    data["devices"][2]["fabricV"] = {**data["devices"][2]["fabricV"], "cliqueId": 7}
    assert bad(judged(data)) == {("fabric.state", "gpu2"): "warn"}
    data["devices"][3]["fabricV"] = {**data["devices"][3]["fabricV"], "cliqueId": 7}
    assert len(bad(judged(data))) == 4, "without a majority all are told"


@pytest.mark.parametrize(("status", "word"), [(23, "insufficient resources"), (10, "timeout"), (77, "77")])
def test_the_status_of_a_fabric_is_told_in_words(status: int, word: str) -> None:
    data = machine(2)
    data["devices"][0]["fabricV"] = {**data["devices"][0]["fabricV"], "status": status}
    finding = judged(data)["fabric.state", "gpu0"]
    assert (finding.status, word in finding.message) == (Status.FAIL, True)


def test_a_fabric_that_is_not_told_where_it_must_be_has_a_next_step() -> None:
    data = machine(2)
    for device in data["devices"]:
        device["fabricV"] = {**device["fabricV"], "state": 0}
    finding = judged(data)["fabric.state", "gpu0"]
    assert (finding.status, bool(finding.fix)) == (Status.UNKNOWN, True)


def test_library_and_module_of_two_versions_come_with_a_next_step() -> None:
    finding = judged({**machine(1), "nvmlSystemGetNVMLVersion": "12.535.129.03"})["driver.library", "host"]
    assert (finding.status, bool(finding.fix)) == (Status.WARN, True)


@pytest.mark.parametrize(("end", "verdict"), [(0, None), (2, "unknown"), (NOT_SUPPORTED, "unknown")])
@pytest.mark.parametrize("count", [2, 4])
def test_a_baseboard_that_joins_its_gpus_directly_needs_no_fabric(
    count: int, end: Any, verdict: str | None
) -> None:
    data = machine(count)
    for device in data["devices"]:
        device["fabricV"] = {**device["fabricV"], "state": 0}
        device["nvlink"] = {str(number): link(remote_type=end) for number in range(18)}
    assert bad(judged(data)).get(("fabric.state", "gpu1")) == verdict
