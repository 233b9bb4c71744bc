"""Firmware, clocks, modes, memory held and processes, green and red, on a machine that is well but for one value."""

from __future__ import annotations

from typing import Any

import pytest

from checks.gpus.rule import Plan
from checks.model import Status
from tests.unit.checks.gpu_full import (
    GIB,
    NOT_SUPPORTED,
    OTHER,
    Dump,
    bad,
    board,
    field,
    judged,
    machine,
    of,
    volta,
)

PCI, VBIOS = "nvmlDeviceGetPciInfo", "nvmlDeviceGetVbiosVersion"
GSP, MODE, VALID = (
    "nvmlDeviceGetGspFirmwareVersion",
    "nvmlDeviceGetGspFirmwareMode",
    "nvmlDeviceValidateInforom",
)
APP, MAX, CLOCK = (f"nvmlDeviceGet{name}:gfx" for name in ("ApplicationsClock", "MaxClockInfo", "ClockInfo"))
REASONS, RATES = "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetUtilizationRates"
COMPUTE = "nvmlDeviceGetComputeRunningProcesses"
CORRUPTED = {"err": 14, "cls": "NVMLError_CorruptedInforom", "msg": "infoROM is corrupted"}

CASES: list[tuple[str, Dump, str, str]] = [
    ("gpu.gsp", {GSP: "b:550.54.15"}, "warn", "under driver 580"),
    ("gpu.gsp", {GSP: "580.159.04"}, "pass", "580.159.04"),
    ("gpu.gsp", {MODE: [0, 1]}, "warn", "is off"),
    ("gpu.gsp", {MODE: [0, 0], GSP: NOT_SUPPORTED}, "skip", "by default"),
    ("gpu.gsp", {MODE: NOT_SUPPORTED, GSP: NOT_SUPPORTED}, "skip", "not supported"),
    ("gpu.gsp", {MODE: OTHER}, "unknown", "999"),
    ("gpu.inforom", {VALID: CORRUPTED}, "fail", "corrupted"),
    ("gpu.inforom", {VALID: NOT_SUPPORTED}, "skip", "not supported"),
    ("gpu.inforom", {VALID: OTHER}, "unknown", "999"),
    ("gpu.inforom", {"nvmlDeviceGetInforomImageVersion": CORRUPTED}, "fail", "corrupted"),
    ("gpu.vbios", {VBIOS: NOT_SUPPORTED}, "skip", "not supported"),
    ("gpu.vbios", {VBIOS: OTHER}, "unknown", "999"),
    ("gpu.persistence", {"nvmlDeviceGetPersistenceMode": 0}, "warn", "is off"),
    ("gpu.persistence", {"nvmlDeviceGetPersistenceMode": NOT_SUPPORTED}, "skip", "not supported"),
    ("gpu.mig", {"nvmlDeviceGetMigMode": [0, 1]}, "warn", "will be on"),
    ("gpu.mig", {"nvmlDeviceGetMigMode": NOT_SUPPORTED}, "skip", "not supported"),
    ("gpu.mig", {"nvmlDeviceGetMigMode": OTHER}, "unknown", "999"),
    ("gpu.compute_mode", {"nvmlDeviceGetComputeMode": 2}, "fail", "prohibited"),
    ("gpu.compute_mode", {"nvmlDeviceGetComputeMode": 3}, "warn", "exclusive process"),
    ("gpu.compute_mode", {"nvmlDeviceGetComputeMode": 1}, "warn", "exclusive thread"),
    ("gpu.compute_mode", {"nvmlDeviceGetComputeMode": 8}, "warn", "not known here"),
    ("gpu.compute_mode", {"nvmlDeviceGetComputeMode": OTHER}, "unknown", "999"),
    ("gpu.clocks", {APP: 1200}, "warn", "1200 MHz"),
    ("gpu.clocks", {APP: NOT_SUPPORTED}, "pass", "no application clocks"),
    ("gpu.clocks", {MAX: 1700}, "warn", "gpu0 has 1980"),
    ("gpu.clocks", {CLOCK: 600, REASONS: 2, RATES: {"gpu": 20}}, "warn", "locked at 600"),
    ("gpu.clocks", {CLOCK: 1980, REASONS: 2, RATES: {"gpu": 99}}, "pass", "now 1980"),
    ("gpu.clocks", {APP: OTHER}, "unknown", "999"),
    (
        "gpu.memory",
        {"memv2": {"total": 120 * GIB, "free": 119 * GIB, "used": 0}},
        "warn",
        "a sibling has 140.0",
    ),
    ("gpu.memory", {"memv2": {}, "nvmlDeviceGetMemoryInfo": {}}, "unknown", "no memory size"),
    ("gpu.processes", {COMPUTE: [{"pid": 4711, "usedGpuMemory": 90 * GIB}]}, "pass", "pid 4711"),
    ("gpu.processes", {COMPUTE: [{"pid": 4711, "usedGpuMemory": None}]}, "pass", "pid 4711"),
    ("gpu.processes", {COMPUTE: [{"pid": 4711, "usedGpuMemory": (1 << 64) - 1}]}, "pass", "pid 4711"),
    ("gpu.processes", {COMPUTE: OTHER}, "unknown", "999"),
    ("gpu.recovery", {"nvmlDeviceGetRepairStatus": [1, 0]}, "fail", "memory channel"),
    ("gpu.recovery", {"nvmlDeviceGetRepairStatus": [0, 1]}, "fail", "TPC"),
]


@pytest.mark.parametrize(("identity", "change", "verdict", "said"), CASES)
def test_one_wrong_value_is_one_finding(identity: str, change: Dump, verdict: str, said: str) -> None:
    data = machine(2)
    data["devices"][1].update(change)
    found = judged(data)
    finding = found[identity, "gpu1"]
    assert (finding.status.value, said in finding.message) == (verdict, True), finding
    assert set(bad(found)) <= {(identity, "gpu1")}
    assert finding.fix or verdict not in ("warn", "fail")


@pytest.mark.parametrize("name", ["RESET_STATUS", "DRAIN_AND_RESET_STATUS"])
def test_older_words_for_a_reset_count_too(name: str) -> None:
    data = machine(2)
    data["devices"][0]["fields"][f"NVML_FI_DEV_{name}"] = field(1)
    assert bad(judged(data)) == {("gpu.recovery", "gpu0"): "fail"}
    data["devices"][0]["fields"]["NVML_FI_DEV_GET_GPU_RECOVERY_ACTION"] = {"ret": 3}
    assert bad(judged(data)) == {("gpu.recovery", "gpu0"): "fail"}


def test_the_board_with_the_odd_vbios_is_named_and_the_majority_is_not() -> None:
    data = machine(4)
    data["devices"][3][VBIOS] = "96.00.74.00.09"
    assert bad(judged(data)) == {("gpu.vbios", "gpu3"): "warn"}
    data["devices"][2][VBIOS] = "96.00.74.00.09"
    assert set(bad(judged(data))) == {("gpu.vbios", f"gpu{number}") for number in range(4)}, "no majority"


def test_boards_of_another_maker_or_name_may_have_another_vbios() -> None:
    data = machine(3)
    data["devices"][1].update({VBIOS: "1", PCI: {**data["devices"][1][PCI], "pciSubSystemId": 7}})
    data["devices"][2].update({VBIOS: "2", "nvmlDeviceGetName": "NVIDIA H200 NVL"})
    found = judged(data)
    assert {found["gpu.vbios", f"gpu{number}"].status for number in range(3)} == {Status.PASS}


def test_a_board_that_boosts_above_its_application_clock_by_default_is_no_finding() -> None:
    assert bad(judged(of([volta(0), volta(1)]))) == {}
    boards = [volta(0), volta(1)]
    boards[1][APP] = 800
    assert bad(judged(of(boards))) == {("gpu.clocks", "gpu1"): "warn"}, "its sibling has a greater one"


def test_a_gpu_slower_than_siblings_under_the_same_work_is_told() -> None:
    data = machine(3)
    for device in data["devices"]:
        device.update({REASONS: 0, RATES: {"gpu": 97}, CLOCK: 1900})
    assert bad(judged(data)) == {}
    data["devices"][1][CLOCK] = 1200
    assert bad(judged(data)) == {("gpu.clocks", "gpu1"): "warn"}
    data["devices"][1][RATES] = {"gpu": 0}
    assert ("gpu.clocks", "gpu1") not in bad(judged(data)), "an idle one may be slow"


SLICE = {"uuid": "MIG-1", "name": "NVIDIA H200 MIG 1g.18gb", "memory": {}, "gi": 1, "ci": 0}


@pytest.mark.parametrize(
    ("mode", "planned", "devices", "verdict", "said"),
    [
        ([0, 0], False, [], "pass", "off"),
        ([1, 1], False, [SLICE, SLICE], "fail", "not planned: 2 devices"),
        ([1, 0], False, [], "fail", "not planned"),
        ([0, 0], True, [], "fail", "planned and off"),
        ([0, 1], True, [], "fail", "next reset"),
        ([1, 1], True, [SLICE], "pass", "1 devices"),
        ([1, 1], True, [], "fail", "no device"),
        ([1, 0], True, [SLICE], "warn", "will be off"),
        ([1, 1], True, OTHER, "unknown", "999"),
        ([1, 1], True, [{"err": 999}], "unknown", "999"),
        (NOT_SUPPORTED, True, [], "fail", "cannot do it"),
    ],
)
def test_mig_is_held_against_the_plan(
    mode: Any, planned: bool, devices: Any, verdict: str, said: str
) -> None:
    data = machine(2)
    data["devices"][0].update({"nvmlDeviceGetMigMode": mode, "mig": devices})
    finding = judged(data, plan=Plan(mig=planned))["gpu.mig", "gpu0"]
    assert (finding.status.value, said in finding.message) == (verdict, True), finding


def test_the_memory_of_a_divided_gpu_is_not_judged_as_a_whole() -> None:
    data = machine(1)
    no_permission = {"err": 4, "cls": "NVMLError_NoPermission", "msg": "Insufficient Permissions"}
    data["devices"][0].update(
        {"nvmlDeviceGetMigMode": [1, 1], "mig": [SLICE], "nvmlDeviceGetMemoryInfo": no_permission}
    )
    assert bad(judged(data, plan=Plan(mig=True))) == {}


@pytest.mark.parametrize(
    ("mode", "planned", "verdict"), [(0, 0, "pass"), (3, 3, "pass"), (0, 3, "fail"), (2, 0, "fail")]
)
def test_a_planned_compute_mode_is_the_only_one(mode: int, planned: int, verdict: str) -> None:
    data = machine(1)
    data["devices"][0]["nvmlDeviceGetComputeMode"] = mode
    assert judged(data, plan=Plan(compute_mode=planned))["gpu.compute_mode", "gpu0"].status.value == verdict


def test_memory_that_a_launch_needs_and_that_is_held_fails_with_the_pids() -> None:
    data = machine(2)
    held = {"memv2": {"total": 140 * GIB, "free": 20 * GIB, "used": 119 * GIB}}
    data["devices"][1].update(held | {COMPUTE: [{"pid": 4711, "usedGpuMemory": 119 * GIB, "name": "python"}]})
    found = judged(data, plan=Plan(needs_bytes=100 * GIB))
    assert bad(found) == {("gpu.memory", "gpu1"): "fail"}
    assert "pid 4711 (python)" in found["gpu.memory", "gpu1"].message
    assert "pid 4711" in (found["gpu.memory", "gpu1"].fix or "")
    assert bad(judged(data)) == {}, "no need, no finding"
    assert "too small" in (judged(data, plan=Plan(needs_bytes=200 * GIB))["gpu.memory", "gpu0"].fix or "")


def test_memory_that_nobody_is_seen_to_hold_is_a_warning_and_the_driver_s_own_is_not() -> None:
    data = machine(1)
    device = data["devices"][0]
    del device["memv2"]
    device["nvmlDeviceGetMemoryInfo"] = {"total": 140 * GIB, "free": 139 * GIB, "used": 644939776}
    assert bad(judged(data)) == {}
    device["nvmlDeviceGetMemoryInfo"] = {"total": 140 * GIB, "free": 60 * GIB, "used": 80 * GIB}
    assert bad(judged(data)) == {("gpu.processes", "gpu0"): "warn"}


def test_a_process_of_another_pid_namespace_is_said_to_be_one() -> None:
    data = machine(1)
    data["devices"][0][COMPUTE] = [{"pid": 4711, "usedGpuMemory": GIB, "namespace": "other"}]
    assert "another namespace" in judged(data)["gpu.processes", "gpu0"].message


def test_a_margin_of_nothing_counts_only_where_no_limit_is_known_and_not_on_hopper() -> None:
    data = machine(1)
    data["devices"][0]["nvmlDeviceGetMarginTemperature"] = -3
    assert bad(judged(data)) == {}
    bare = {
        **board(0),
        "tthr_slowdown": NOT_SUPPORTED,
        "tthr_gpu_max": NOT_SUPPORTED,
        "nvmlDeviceGetMarginTemperature": -3,
    }
    assert bad(judged(of([bare]))) == {}
    assert bad(judged(of([{**bare, "nvmlDeviceGetArchitecture": 8}]))) == {
        ("gpu.temperature", "gpu0"): "warn"
    }


def test_the_count_names_gpus_that_are_counted_although_lost() -> None:
    data = machine(3)
    data["devices"][2]["temp"] = {"err": 15, "msg": "GPU is lost"}
    finding = judged(data)["gpu.count", "host"]
    assert (finding.status, "gpu2" in finding.message) == (Status.PASS, True)


@pytest.mark.parametrize(("seconds", "verdict"), [(0, "pass"), (30, "pass"), (40, "warn"), (-5, "pass")])
def test_time_that_was_lost_to_heat_between_two_records_is_told(seconds: int, verdict: str) -> None:
    data, since = machine(2), machine(2)
    since["devices"][0]["viol_thermal"] = {"referenceTime": 10**15, "violationTime": 7 * 10**9}
    later = {"referenceTime": 10**15 + 3600 * 10**6, "violationTime": (7 + seconds) * 10**9}
    data["devices"][0]["viol_thermal"] = later
    found = judged(data, since=since)["gpu.throttle", "gpu0"]
    assert found.status.value == verdict
    assert judged(data)["gpu.throttle", "gpu0"].status is Status.PASS


def test_a_lower_application_clock_is_told_without_a_sibling_where_the_default_is_known() -> None:
    data = machine(1)
    data["devices"][0][APP] = 1200
    assert bad(judged(data)) == {("gpu.clocks", "gpu0"): "warn"}
    data["devices"][0]["nvmlDeviceGetName"] = "A board of tomorrow"
    assert bad(judged(data)) == {}


@pytest.mark.parametrize(
    ("code", "verdict", "said"),
    [
        (8, "fail", "power"),
        (11, "fail", "interrupt"),
        (16, "fail", "reset"),
        (17, "unknown", "access"),
        (15, "fail", "lost"),
    ],
)
def test_a_gpu_that_gives_no_handle_says_why(code: int, verdict: str, said: str) -> None:
    data = machine(2)
    data["devices"][1] = {"handle": {"err": code, "msg": "said by NVML"}}
    finding = judged(data)["gpu.lost", "gpu1"]
    assert (finding.status.value, said in finding.message) == (verdict, True), finding
    assert finding.fix or verdict == "unknown"


def test_a_getter_that_wants_a_reset_first_is_a_recovery_that_is_due() -> None:
    data = machine(2)
    data["devices"][0]["nvmlDeviceGetBAR1MemoryInfo"] = {"err": 16, "msg": "GPU requires reset"}
    found = judged(data)
    assert found["gpu.recovery", "gpu0"].status is Status.FAIL
    assert "reset" in (found["gpu.recovery", "gpu0"].fix or "")


@pytest.mark.parametrize("where", ["field", "link"])
def test_a_gpu_is_lost_when_only_a_field_or_a_link_says_so(where: str) -> None:
    data = machine(2)
    if where == "field":
        data["devices"][1]["fields"]["NVML_FI_DEV_MEMORY_TEMP"] = {"ret": 15}
    else:
        data["devices"][1]["nvlink"]["7"]["state"] = {"err": 15, "msg": "GPU is lost"}
    assert judged(data)["gpu.lost", "gpu1"].status is Status.FAIL
