"""Each rule of ``provcheck load``, green and red, on measurements that are sound but for one value. Pure."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checks.data.load_limits import (
    CLOCK_FLOOR,
    COPY,
    MEMORY,
    MEMORY_RATES,
    ONE_WAY,
    PCIE_LANE_GBPS,
    SIBLING,
    computed_memory_rate,
    memory_rate,
    pcie_limit,
)
from checks.errors import BadInput
from checks.load import busy, evidence, judge
from checks.model import Finding, Status, verdict_of
from checks.record import Section

Tree = dict[str, Any]
NOT_SUPPORTED = {"err": 3, "msg": "Not Supported"}
UNKNOWN = {"err": 999, "msg": "Unknown Error"}


def device(index: int) -> Tree:
    return {
        "nvmlDeviceGetName": "NVIDIA H200",
        "nvmlDeviceGetUUID": f"GPU-{index}",
        "nvmlDeviceGetMigMode": [0, 0],
        "nvmlDeviceGetMaxPcieLinkGeneration": 5,
        "nvmlDeviceGetGpuMaxPcieLinkGeneration": 5,
        "nvmlDeviceGetMaxPcieLinkWidth": 16,
        "nvmlDeviceGetMaxClockInfo:sm": 1980,
        "nvmlDeviceGetMaxClockInfo:mem": 3201,
        "nvmlDeviceGetMemoryBusWidth": 6016,
        "nvmlDeviceGetComputeRunningProcesses": [],
        "nvmlDeviceGetPcieReplayCounter": 1,
        "nvmlDeviceGetRemappedRows": [0, 0, 0, 0],
        "memv2": {"used": 0, "reserved": 644939776},
        "ecc_unc_vol": 0,
        "ecc_cor_vol": 2,
        "temp": 34,
        "tthr_slowdown": 89,
        "tthr_gpu_max": 87,
        "viol_thermal": {"referenceTime": 1, "violationTime": 0},
    }


def run(index: int) -> Tree:
    clean = {"mismatches": 0, "first_bad": None}
    computed = {"launches": 20, "rounds": 9000, "threads": 270336, "steps": 256, "bad": [], "spent_s": 2.0}
    return {
        "index": index,
        "uuid": f"GPU-{index}",
        "ended": {},
        "steps": {
            "start": {"cuda": 13000, "uuid": f"GPU-{index}", "took_s": 0.6},
            "link": {
                "h2d": {"best": 55.4, "batches": 9},
                "d2h": {"best": 55.1, "batches": 9},
                "round": {"bytes": 268435456, "sampled_bad": 0, **clean},
                "echo": {"bytes": 33554432, "first_bad": None},
                "at_work": {"generation": {"high": 5}, "width": {"high": 16}},
            },
            "memory": {
                "copy": {"best": 4300.0},
                "triad": {"best": 4350.0},
                "patterns": [
                    {"pattern": name, "bytes": 1 << 32, **clean} for name in ("address", "inverted")
                ],
            },
            "heat": {
                "chains": {**computed, "steps_per_s": 9e12},
                "tensor": {**computed, "steps_per_s": 1e12},
                "kept": {"pattern": "random", "bytes": 1 << 32, **clean},
                "at_work": {
                    "sm_mhz": {"median": 1700},
                    "reasons": 4,
                    "milliwatts": {"high": 690000},
                    "celsius": {"high": 60},
                },
            },
            "stop": {},
        },
    }


@pytest.fixture
def sound() -> Callable[..., Tree]:
    def make(gpus: int = 1) -> Tree:
        look = {"nvmlInit": None, "devices": [device(index) for index in range(gpus)]}
        return {
            "options": {},
            "force": False,
            "chosen": list(range(gpus)),
            "before": look,
            "after": copy.deepcopy(look),
            "runs": [run(index) for index in range(gpus)],
        }

    return make


Sound = Callable[..., Tree]


def judged(data: Tree) -> dict[tuple[str, str], Finding]:
    findings = judge.judge(evidence.parse(data, "record"))
    by = {(finding.id, finding.subject): finding for finding in findings}
    assert len(by) == len(findings), "one finding per check and subject"
    return by


def put(data: Tree, path: str, value: Any) -> None:
    *way, last = path.split("/")
    node: Any = data
    for key in way:
        node = node[int(key)] if isinstance(node, list) else node[key]
    node[int(last) if isinstance(node, list) else last] = value


def test_sound_measurements_pass_every_check(sound: Sound) -> None:
    findings = judged(sound(2))
    assert verdict_of(findings.values()) is Status.PASS
    assert {f.status for f in findings.values()} == {Status.PASS}
    assert len(findings) == 2 * (len(judge.RULES) + 2)


LINK, STORE, HEAT = "runs/0/steps/link", "runs/0/steps/memory", "runs/0/steps/heat"
CASES = [
    ("load.start", "runs/0/steps/start/uuid", "GPU-7", Status.UNKNOWN, "another GPU"),
    ("load.start", "runs/0/steps/start/took_s", 12.0, Status.WARN, "12.0 s"),
    ("load.h2d", f"{LINK}/h2d/best", 50.5, Status.PASS, "80%"),
    ("load.h2d", f"{LINK}/h2d/best", 50.3, Status.WARN, "80%"),
    ("load.h2d", f"{LINK}/h2d/best", 37.0, Status.FAIL, "59%"),
    ("load.h2d", f"{LINK}/h2d/batches", 2, Status.UNKNOWN, "2 batches only"),
    ("load.h2d", f"{LINK}/h2d/best", None, Status.UNKNOWN, "no rate"),
    ("load.h2d", "before/devices/0/nvmlDeviceGetMaxPcieLinkWidth", UNKNOWN, Status.UNKNOWN, "does not say"),
    ("load.d2h", f"{LINK}/d2h/best", 12.0, Status.FAIL, "19% of gen5 x16"),
    ("load.pcie_width", f"{LINK}/at_work/width/high", 8, Status.FAIL, "x8 of x16"),
    ("load.pcie_width", f"{LINK}/at_work/width", NOT_SUPPORTED, Status.SKIP, "not supported"),
    ("load.pcie_width", f"{LINK}/at_work/width", UNKNOWN, Status.UNKNOWN, "Unknown Error"),
    ("load.pcie_width", f"{LINK}/at_work", {"gap": UNKNOWN}, Status.UNKNOWN, "Unknown Error"),
    ("load.pcie_generation", f"{LINK}/at_work/generation/high", 1, Status.FAIL, "gen1 of gen5"),
    (
        "load.pcie_generation",
        "before/devices/0/nvmlDeviceGetGpuMaxPcieLinkGeneration",
        6,
        Status.WARN,
        "the GPU can gen6",
    ),
    ("load.copy_integrity", f"{LINK}/round/sampled_bad", 1, Status.FAIL, "corruption"),
    ("load.copy_integrity", f"{LINK}/echo/first_bad", 99, Status.FAIL, "byte 99"),
    ("load.copy_integrity", f"{LINK}/round", {}, Status.UNKNOWN, "not checked"),
    ("load.memory_bandwidth", f"{STORE}/triad/best", None, Status.UNKNOWN, "not measured"),
    ("load.memory_pattern", f"{STORE}/patterns/1/mismatches", 3, Status.FAIL, "'inverted'"),
    ("load.memory_pattern", f"{HEAT}/kept/mismatches", 1, Status.FAIL, "'random'"),
    ("load.memory_pattern", f"{HEAT}/kept", {}, Status.UNKNOWN, "at rest"),
    ("load.compute", f"{HEAT}/chains/launches", 0, Status.UNKNOWN, "nothing was computed"),
    ("load.compute", f"{HEAT}/chains/bad", [{"sm": 17}], Status.FAIL, "multiprocessor 17"),
    ("load.compute", f"{HEAT}/chains/bad", None, Status.UNKNOWN, "nothing"),
    ("load.tensor", f"{HEAT}/tensor/bad", [{"sm": 5}], Status.FAIL, "multiprocessor 5"),
    ("load.clocks", f"{HEAT}/at_work/reasons", 0x8, Status.FAIL, "HW slowdown"),
    ("load.clocks", f"{HEAT}/at_work/reasons", 0x44, Status.FAIL, "HW thermal slowdown"),
    ("load.clocks", f"{HEAT}/at_work/reasons", 0x80, Status.FAIL, "HW power brake"),
    ("load.clocks", f"{HEAT}/at_work/reasons", 0x20, Status.WARN, "heat"),
    ("load.clocks", f"{HEAT}/at_work/sm_mhz/median", 600, Status.WARN, "the power cap"),
    ("load.clocks", f"{HEAT}/at_work/reasons", UNKNOWN, Status.UNKNOWN, "Unknown Error"),
    ("load.clocks", f"{HEAT}/at_work/sm_mhz", NOT_SUPPORTED, Status.SKIP, "not supported"),
    ("load.temperature", f"{HEAT}/at_work/celsius/high", 89, Status.FAIL, "slowdown temperature is 89"),
    ("load.temperature", f"{HEAT}/at_work/celsius/high", 87, Status.WARN, "highest it should have is 87"),
    ("load.temperature", "after/devices/0/viol_thermal/violationTime", 5e6, Status.WARN, "for 5 ms"),
    ("load.temperature", f"{HEAT}/at_work/celsius", NOT_SUPPORTED, Status.SKIP, "not supported"),
    ("load.ecc", "after/devices/0/ecc_unc_vol", 1, Status.FAIL, "1 uncorrectable"),
    ("load.ecc", "after/devices/0/nvmlDeviceGetRemappedRows", [0, 1, 0, 0], Status.FAIL, "1 rows remapped"),
    ("load.ecc", "after/devices/0/ecc_cor_vol", 5, Status.WARN, "3 corrected"),
    ("load.ecc", "after/devices/0/nvmlDeviceGetPcieReplayCounter", 4, Status.WARN, "3 PCIe replays"),
    ("load.ecc", "after/devices/0/ecc_unc_vol", UNKNOWN, Status.UNKNOWN, "could not be read after"),
    ("load.ecc", "after/devices/0", {"handle": {"err": 15, "msg": "GPU is lost"}}, Status.FAIL, "lost"),
    ("load.ecc", "after", None, Status.UNKNOWN, "no counters"),
    ("load.release", "after/devices/0/memv2/used", 1 << 32, Status.WARN, "4096 MiB more"),
    ("load.release", "after", {"nvmlInit": UNKNOWN}, Status.UNKNOWN, "did not answer"),
]


@pytest.mark.parametrize(("identity", "path", "value", "status", "words"), CASES)
def test_one_wrong_value_changes_one_verdict(
    sound: Sound, identity: str, path: str, value: Any, status: Status, words: str
) -> None:
    data = sound()
    put(data, path, value)
    found = judged(data)[identity, "gpu0"]
    assert (found.status, words in found.message) == (status, True), found


def test_old_errors_are_not_new_ones(sound: Sound) -> None:
    data = sound()
    for look in ("before", "after"):
        put(data, f"{look}/devices/0/ecc_unc_vol", 7)
        put(data, f"{look}/devices/0/nvmlDeviceGetRemappedRows", [0, 3, 0, 0])
    assert judged(data)["load.ecc", "gpu0"].status is Status.PASS


def test_the_way_that_changed_data_is_told_by_what_the_host_had(sound: Sound) -> None:
    for had, words in ((True, "to the GPU"), (False, "to the host")):
        data = sound()
        change = {
            "bytes": 4096,
            "mismatches": 2,
            "first_bad": 3,
            "host_had_it": had,
            "at_home": 0,
            "sampled_bad": 0,
        }
        put(data, f"{LINK}/round", change)
        assert (
            f"on the way {words}, the first at byte 12" in judged(data)["load.copy_integrity", "gpu0"].message
        )


@pytest.mark.parametrize(
    ("path", "identity", "words"),
    [
        (f"{LINK}/h2d/best", "load.h2d", "the other GPUs reach 55.4"),
        (f"{STORE}/triad/best", "load.memory_bandwidth", "the other GPUs reach 4350"),
        (f"{HEAT}/chains/steps_per_s", "load.compute", "the other GPUs do 9000 Gsteps/s"),
    ],
)
def test_a_gpu_that_lags_behind_its_siblings_stands_out(
    sound: Sound, path: str, identity: str, words: str
) -> None:
    data = sound(3)
    for index in range(3):  # a wider limit, so that only the siblings can tell
        put(data, f"before/devices/{index}/nvmlDeviceGetMaxPcieLinkWidth", 12)
    node = data
    for key in path.split("/")[:-1]:
        node = node[int(key)] if isinstance(node, list) else node[key]
    put(data, path, node[path.split("/")[-1]] * 0.8)
    found = judged(data)[identity, "gpu0"]
    assert (found.status, words in found.message) == (Status.WARN, True), found
    assert judged(data)[identity, "gpu1"].status is Status.PASS


def test_gpus_of_another_name_are_no_siblings(sound: Sound) -> None:
    data = sound(2)
    put(data, "before/devices/1/nvmlDeviceGetName", "NVIDIA B300")
    put(data, f"{HEAT}/chains/steps_per_s", 1e12)
    assert judged(data)["load.compute", "gpu0"].status is Status.PASS


def test_one_slow_direction_stands_out(sound: Sound) -> None:
    data = sound()
    put(data, "before/devices/0/nvmlDeviceGetMaxPcieLinkWidth", 8)
    put(data, f"{LINK}/at_work/width/high", 8)
    put(data, f"{LINK}/d2h/best", 30.0)
    found = judged(data)["load.d2h", "gpu0"]
    assert (found.status, "the other direction reaches 55.4" in found.message) == (Status.WARN, True)


def test_a_board_without_a_row_is_held_against_clock_and_bus(sound: Sound) -> None:
    data = sound()
    put(data, "before/devices/0/nvmlDeviceGetName", "NVIDIA H900")
    put(data, f"{STORE}/copy/best", 2000.0)
    put(data, f"{STORE}/triad/best", 2000.0)
    found = judged(data)["load.memory_bandwidth", "gpu0"]
    assert (found.status, "42% of clock x bus (4814)" in found.message) == (Status.FAIL, True)
    put(data, "before/devices/0/nvmlDeviceGetMemoryBusWidth", NOT_SUPPORTED)
    assert judged(data)["load.memory_bandwidth", "gpu0"].status is Status.UNKNOWN


def test_slices_of_a_gpu_are_not_loaded(sound: Sound) -> None:
    data = sound()
    put(data, "before/devices/0/nvmlDeviceGetMigMode", [1, 1])
    data["runs"] = []
    assert judged(data)["load.start", "gpu0"].status is Status.SKIP


def test_a_step_that_failed_takes_nothing_from_the_steps_before(sound: Sound) -> None:
    data = sound()
    del data["runs"][0]["steps"]["heat"], data["runs"][0]["steps"]["stop"]
    data["runs"][0]["ended"] = {
        "step": "heat",
        "kind": "cuda",
        "code": 719,
        "name": "N",
        "text": "t",
        "call": "c",
    }
    findings = judged(data)
    assert findings["load.compute", "gpu0"].status is Status.FAIL
    assert "Xid" in str(findings["load.compute", "gpu0"].fix)
    assert findings["load.h2d", "gpu0"].status is Status.PASS
    assert findings["load.tensor", "gpu0"].status is Status.UNKNOWN
    assert findings["load.release", "gpu0"].status is Status.UNKNOWN


def test_a_run_that_ended_without_a_word_is_not_green(sound: Sound) -> None:
    data = sound()
    data["runs"][0] = {"index": 0, "steps": {}, "ended": {}}
    assert verdict_of(judged(data).values()) is Status.UNKNOWN


@pytest.mark.parametrize(
    ("values", "busy_by"),
    [
        ({}, []),
        ({"memv2": {"used": 300 << 20}}, ["300 MiB held by a process that cannot be seen from here"]),
        ({"memv2": NOT_SUPPORTED, "nvmlDeviceGetMemoryInfo": {"used": 700 << 20}}, []),
        ({"memv2": NOT_SUPPORTED, "nvmlDeviceGetMemoryInfo": {"used": 2 << 30}}, ["2048 MiB held"]),
        (
            {"nvmlDeviceGetComputeRunningProcesses": [{"pid": 7, "usedGpuMemory": 5 << 20}]},
            ["process 7 (compute, 5 MiB)"],
        ),
        ({"nvmlDeviceGetGraphicsRunningProcesses": [{"pid": 8}]}, ["process 8 (graphics)"]),
    ],
)
def test_processes_and_memory_beyond_the_drivers_own_are_a_user(values: Tree, busy_by: list[str]) -> None:
    held = busy.holders({**device(0), **values})
    assert len(held) == len(busy_by)
    assert all(said.startswith(words) for said, words in zip(held, busy_by, strict=True))


def test_a_gpu_that_says_nothing_of_its_users_is_not_known_to_be_idle(sound: Sound) -> None:
    data = sound()
    put(data, "before/devices/0/memv2", UNKNOWN)
    put(data, "before/devices/0/nvmlDeviceGetComputeRunningProcesses", UNKNOWN)
    assert judged(data)["load.busy", "gpu0"].status is Status.UNKNOWN


@pytest.mark.parametrize(
    "broken",
    [
        b"[]",
        b"nonsense",
        b"{}",
        b'{"before": {"nvmlInit": null}, "chosen": ["0"], "runs": []}',
        b'{"before": {"nvmlInit": null}, "chosen": [0], "runs": [5]}',
        b'{"before": {"nvmlInit": null}, "chosen": [0], "runs": [{"index": -1, "steps": {}}]}',
    ],
)
def test_a_record_with_wrong_parts_is_refused(broken: bytes) -> None:
    with pytest.raises(BadInput):
        evidence.of_record((Section("load", "measured", broken),), "record")


def test_hostile_numbers_are_no_numbers(sound: Sound) -> None:
    for value in (True, "55", [1], {"a": 1}, -0.0):
        data = json.loads(json.dumps(sound()))
        put(data, f"{LINK}/h2d/best", value)
        assert judged(data)["load.h2d", "gpu0"].status is not Status.PASS


def test_rows_of_memory_rates_are_found_by_nvmls_names() -> None:
    names = {
        "NVIDIA H200": 4800,
        "NVIDIA H100 80GB HBM3": 3350,
        "NVIDIA H100 PCIe": 2000,
        "NVIDIA A100-SXM4-40GB": 1555,
        "NVIDIA A100 80GB PCIe": 1935,
        "Tesla T4": 320,
        "NVIDIA GeForce RTX 3090": 936,
        "NVIDIA GH200 144G HBM3e": 4900,
    }
    for name, rate in names.items():
        row = memory_rate(name)
        assert row is not None, name
        assert row.gbps == rate, name
    assert memory_rate("NVIDIA Unheard Of") is None
    assert all(row.source for row in MEMORY_RATES)


def test_computed_limits_are_those_of_the_data_sheets() -> None:
    assert computed_memory_rate(3201, 6016) == pytest.approx(4800, rel=0.01)
    assert computed_memory_rate(9751, 384) == pytest.approx(936, rel=0.01)
    assert pcie_limit(5, 16) == pytest.approx(63.0, rel=0.001)
    assert pcie_limit(9, 16) is None


def test_the_page_says_the_thresholds_that_hold(repo_root: Path) -> None:
    page = (repo_root / "docs" / "load.md").read_text()
    for limits in (COPY, MEMORY):
        assert f"{limits.good:.0%}".replace("%", " %") in page
        assert f"{100 * limits.bad:.0f} to {100 * limits.good:.0f} %" in page
        assert f"under {limits.bad:.0%}".replace("%", " %") in page
    for share in (SIBLING.good, ONE_WAY):
        assert f"under {share:.0%} of".replace("%", " %") in page
    assert f"| {CLOCK_FLOOR:.0%} of the highest SM clock".replace("%", " %") in page
    assert all(f"gen{g} {rate}" in " ".join(page.split()) for g, rate in PCIE_LANE_GBPS.items() if g > 2)
