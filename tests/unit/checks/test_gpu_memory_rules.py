"""Memory cells: ECC counters of all kinds, remapped rows, retired pages, and what grew since an earlier record."""

from __future__ import annotations

import copy

import pytest

from checks.model import Status
from tests.unit.checks.gpu_full import NOT_SUPPORTED, OTHER, Dump, bad, field, judged, machine, of, volta

ECC = [
    ({"ecc_unc_vol": 1}, Status.FAIL, "since boot"),
    ({"mem_dram_unc_vol": 13}, Status.FAIL, "13 uncorrected"),
    ({"sram_ecc": {"volatileUncSecDed": 1}}, Status.FAIL, "since boot"),
    ({"sram_ecc": {"volatileUncParity": 2}}, Status.FAIL, "2 uncorrected"),
    ({"sram_ecc": {"bThresholdExceeded": 1}}, Status.FAIL, "threshold"),
    ({"sram_ecc": {"bThresholdExceeded": 1}, "ecc_unc_vol": OTHER}, Status.FAIL, "threshold"),
    ({"ecc_unc_vol": 3, "ecc_unc_agg": OTHER}, Status.FAIL, "since boot"),
    ({"ecc_unc_agg": 2}, Status.WARN, "in its life"),
    ({"mem_sram_unc_agg": 1}, Status.WARN, "in its life"),
    ({"sram_ecc": {"aggregateUncSecDed": 1}}, Status.WARN, "in its life"),
    ({"sram_ecc": {"aggregateCor": 900}}, Status.PASS, "no uncorrected"),
    ({"ecc_cor_agg": 1, "ecc_cor_vol": 900}, Status.PASS, "no uncorrected"),
    ({"sram_ecc": NOT_SUPPORTED, "mem_dram_unc_vol": NOT_SUPPORTED}, Status.PASS, "no uncorrected"),
    ({"sram_ecc": OTHER}, Status.UNKNOWN, "999"),
    ({"nvmlDeviceGetEccMode": [1, 0]}, Status.WARN, "after the next reset"),
    ({"nvmlDeviceGetEccMode": [0, 1]}, Status.FAIL, "off"),
]


@pytest.mark.parametrize(("change", "status", "said"), ECC)
def test_each_uncorrected_error_is_told_and_corrected_ones_are_not(
    change: Dump, status: Status, said: str
) -> None:
    data = machine(2)
    data["devices"][1].update(change)
    found = judged(data)
    assert found["gpu.ecc", "gpu1"].status is status
    assert said in found["gpu.ecc", "gpu1"].message
    assert set(bad(found)) <= {("gpu.ecc", "gpu1")}


def test_ecc_that_is_off_on_all_workstation_boards_is_a_skip_and_pending_a_warning() -> None:
    data = machine(2)
    for device in data["devices"]:
        device.update(nvmlDeviceGetName="NVIDIA RTX A6000", nvmlDeviceGetEccMode=[0, 0])
    assert judged(data)["gpu.ecc", "gpu0"].status is Status.SKIP
    data["devices"][0]["nvmlDeviceGetEccMode"] = [0, 1]
    assert judged(data)["gpu.ecc", "gpu0"].status is Status.WARN


def banks(**counts: int) -> Dump:
    return {
        "nvmlDeviceGetRowRemapperHistogram": {"max": 3070, "high": 0, "partial": 0, "low": 0, "none": 0}
        | counts
    }


REMAP = [
    ({"nvmlDeviceGetRemappedRows": [1, 2, 0, 0]}, Status.PASS, "3 rows"),
    (banks(none=1), Status.WARN, "no spare row"),
    (banks(low=2), Status.PASS, "few spare rows"),
    (banks(partial=2), Status.PASS, "no row remapping"),
    ({"nvmlDeviceGetRowRemapperHistogram": NOT_SUPPORTED}, Status.PASS, "no row remapping"),
    ({"nvmlDeviceGetRowRemapperHistogram": OTHER}, Status.UNKNOWN, "999"),
    ({"nvmlDeviceGetRemappedRows": [0, 8, 1, 1]}, Status.FAIL, "failed"),
    ({"fields": {"NVML_FI_DEV_REMAPPED_PENDING": field(1)}}, Status.FAIL, "pending"),
    ({"fields": {"NVML_FI_DEV_REMAPPED_FAILURE": field(1)}}, Status.FAIL, "failed"),
]


@pytest.mark.parametrize(("change", "status", "said"), REMAP)
def test_rows_that_are_remapped_or_cannot_be(change: Dump, status: Status, said: str) -> None:
    data = machine(2)
    data["devices"][0].update(change)
    finding = judged(data)["gpu.row_remap", "gpu0"]
    assert (finding.status, said in finding.message) == (status, True), finding


def pages(double: int = 0, single: int = 0, pending: object = 0) -> Dump:
    return {
        "retired_dbe": list(range(double)),
        "retired_sbe": list(range(single)),
        "nvmlDeviceGetRetiredPagesPendingStatus": pending,
    }


RETIRED = [
    (pages(), Status.PASS, "0 pages", ""),
    (pages(2, 3), Status.PASS, "5 pages", ""),
    (pages(1, 0, pending=1), Status.FAIL, "pending", "reset"),
    (pages(30, 32), Status.FAIL, "full", "replaced"),
    (pages(30, 31), Status.PASS, "61 pages", ""),
    (pages(63, 0, pending=1), Status.FAIL, "full", "replaced"),
    (pages(0, 0, pending=OTHER), Status.UNKNOWN, "999", ""),
    (pages() | {"retired_dbe": OTHER}, Status.UNKNOWN, "999", ""),
    (pages() | {"fields": {"NVML_FI_DEV_RETIRED_SBE": field(65)}}, Status.FAIL, "65 pages", "replaced"),
]


@pytest.mark.parametrize(("change", "status", "said", "fix"), RETIRED)
def test_retired_pages_pending_ask_for_a_reset_and_a_full_table_for_a_new_board(
    change: Dump, status: Status, said: str, fix: str
) -> None:
    data = of([volta(0), volta(1)])
    data["devices"][1].update(change)
    found = judged(data)
    finding = found["gpu.retired_pages", "gpu1"]
    assert (finding.status, said in finding.message) == (status, True), finding
    assert fix in (finding.fix or "")
    assert found["gpu.retired_pages", "gpu0"].status is Status.PASS


def test_boards_that_remap_rows_retire_no_pages() -> None:
    assert judged(machine(1))["gpu.retired_pages", "gpu0"].status is Status.SKIP


GROWTH = [
    (
        "gpu.row_remap",
        {"nvmlDeviceGetRemappedRows": [0, 11, 0, 0]},
        {"nvmlDeviceGetRemappedRows": [0, 12, 0, 0]},
    ),
    (
        "gpu.row_remap",
        {"nvmlDeviceGetRemappedRows": [0, 0, 0, 0]},
        {"nvmlDeviceGetRemappedRows": [1, 0, 0, 0]},
    ),
    ("gpu.ecc", {"ecc_unc_agg": 4}, {"ecc_unc_agg": 5}),
    ("gpu.retired_pages", pages(2), pages(3)),
]


@pytest.mark.parametrize(("identity", "then", "now"), GROWTH)
def test_memory_that_goes_on_degrading_fails_although_nothing_is_pending(
    identity: str, then: Dump, now: Dump
) -> None:
    data = machine(2)
    since = copy.deepcopy(data)
    since["devices"][1].update(then)
    data["devices"][1].update(now)
    found = judged(data, since=since)
    assert found[identity, "gpu1"].status is Status.FAIL
    assert found[identity, "gpu1"].fix
    assert "1 more" in found[identity, "gpu1"].message
    assert judged(data)[identity, "gpu1"].status is not Status.FAIL, "a number alone is no growth"
    assert judged(since, since=data)[identity, "gpu1"].status is not Status.FAIL, (
        "a cleared counter is no growth"
    )
    assert judged(data, since=data)[identity, "gpu1"].status is not Status.FAIL


def test_another_machine_s_record_says_nothing_of_growth_and_is_told() -> None:
    data, since = machine(2), machine(2)
    data["devices"][1]["nvmlDeviceGetRemappedRows"] = [0, 12, 0, 0]
    since["devices"][1]["nvmlDeviceGetUUID"] = "GPU-99999999-0000-0000-0000-000000000000"
    found = judged(data, since=since)
    assert found["gpu.row_remap", "gpu1"].status is Status.PASS
    assert found["gpu.growth", "gpu1"].status is Status.UNKNOWN
    assert found["gpu.growth", "gpu0"].status is Status.PASS
    assert ("gpu.growth", "gpu0") not in judged(data)


def test_gpus_are_told_apart_by_uuid_and_not_by_their_number() -> None:
    data, since = machine(2), machine(2)
    since["devices"].reverse()
    since["devices"][0]["nvmlDeviceGetRemappedRows"] = [0, 12, 0, 0]
    data["devices"][1]["nvmlDeviceGetRemappedRows"] = [0, 12, 0, 0]
    assert bad(judged(data, since=since)) == {}


def test_an_earlier_record_without_nvml_is_told() -> None:
    found = judged(machine(1), since={"nvmlInit": {"err": 12, "msg": "no library"}})
    assert found["gpu.growth", "gpu0"].status is Status.UNKNOWN
