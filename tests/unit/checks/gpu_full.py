"""Machines whose every getter answers, to break one value of, and the judge on them."""

from __future__ import annotations

from typing import Any

from checks.gpus import dump, node
from checks.gpus.judge import judge
from checks.gpus.rule import Plan, Scene
from checks.model import Finding
from checks.record import Section

Dump = dict[str, Any]
Found = dict[tuple[str, str], Finding]

NOT_SUPPORTED = {"err": 3, "cls": "NVMLError_NotSupported", "msg": "Not Supported"}
LOST = {"err": 15, "cls": "NVMLError_GpuIsLost", "msg": "GPU is lost"}
OTHER = {"err": 999, "cls": "NVMLError_Unknown", "msg": "Unknown Error"}
HUNG = {"err": "Timeout", "msg": "no answer within 10 s"}
GIB = 1 << 30


def field(value: int) -> Dump:
    return {"ret": 0, "type": 1, "ull": value, "ui": value}


def link(state: Any = 1, **more: Any) -> Dump:
    """One NVLink that leads to a switch."""
    counters = {"replay": 0, "recovery": 0, "crc_flit": 0}
    return {"state": state, "version": 4, "remote_type": 2, "remote": None, **counters, **more}


def board(index: int) -> Dump:
    """A well H200 beside others."""
    return {
        "nvmlDeviceGetName": "NVIDIA H200",
        "nvmlDeviceGetUUID": f"GPU-00000000-0000-0000-0000-{index:012d}",
        "nvmlDeviceGetPciInfo": {"busId": f"00000000:{0x10 + index:02X}:00.0", "pciSubSystemId": 415174878},
        "nvmlDeviceGetArchitecture": 9,
        "nvmlDeviceGetVbiosVersion": "96.00.A5.00.1A",
        "nvmlDeviceGetInforomImageVersion": "G520.0282.02.02",
        "nvmlDeviceValidateInforom": None,
        "nvmlDeviceGetGspFirmwareVersion": "b:580.159.04",
        "nvmlDeviceGetGspFirmwareMode": [1, 1],
        "nvmlDeviceGetMemoryInfo": {"total": 140 * GIB, "free": 139 * GIB, "used": GIB},
        "memv2": {"total": 140 * GIB, "reserved": GIB, "free": 139 * GIB, "used": 0},
        "nvmlDeviceGetBAR1MemoryInfo": {"bar1Total": 256 * GIB, "bar1Free": 256 * GIB, "bar1Used": 0},
        "nvmlDeviceGetEccMode": [1, 1],
        "ecc_unc_vol": 0,
        "ecc_unc_agg": 0,
        "mem_dram_unc_vol": 0,
        "mem_sram_unc_agg": 0,
        "mem_l2_unc_agg": NOT_SUPPORTED,
        "sram_ecc": {
            "bThresholdExceeded": 0,
            "volatileUncParity": 0,
            "volatileUncSecDed": 0,
            "aggregateUncParity": 0,
            "aggregateUncSecDed": 0,
            "aggregateCor": 1,
        },
        "nvmlDeviceGetRemappedRows": [0, 0, 0, 0],
        "nvmlDeviceGetRowRemapperHistogram": {"max": 3072, "high": 0, "partial": 0, "low": 0, "none": 0},
        "nvmlDeviceGetRetiredPagesPendingStatus": NOT_SUPPORTED,
        "retired_dbe": NOT_SUPPORTED,
        "retired_sbe": NOT_SUPPORTED,
        "nvmlDeviceGetRepairStatus": [0, 0],
        "nvmlDeviceGetCurrPcieLinkGeneration": 1,
        "nvmlDeviceGetMaxPcieLinkGeneration": 5,
        "nvmlDeviceGetGpuMaxPcieLinkGeneration": 5,
        "nvmlDeviceGetCurrPcieLinkWidth": 16,
        "nvmlDeviceGetMaxPcieLinkWidth": 16,
        "nvmlDeviceGetPcieReplayCounter": 1,
        "nvmlDeviceGetCurrentClocksEventReasons": 1,
        "nvmlDeviceGetCurrentClocksThrottleReasons": 1,
        "nvmlDeviceGetUtilizationRates": {"gpu": 0, "memory": 0},
        "nvmlDeviceGetClockInfo:gfx": 345,
        "nvmlDeviceGetMaxClockInfo:gfx": 1980,
        "nvmlDeviceGetApplicationsClock:gfx": 1980,
        "nvmlDeviceGetPersistenceMode": 1,
        "nvmlDeviceGetMigMode": [0, 0],
        "nvmlDeviceGetComputeMode": 0,
        "nvmlDeviceGetComputeRunningProcesses": [],
        "nvmlDeviceGetGraphicsRunningProcesses": [],
        "nvmlDeviceGetMPSComputeRunningProcesses": [],
        "nvmlDeviceGetPowerUsage": 77000,
        "nvmlDeviceGetEnforcedPowerLimit": 700000,
        "nvmlDeviceGetPowerManagementLimit": 700000,
        "nvmlDeviceGetPowerManagementDefaultLimit": 700000,
        "temp": 36,
        "tempV": 36,
        "tthr_slowdown": 89,
        "tthr_gpu_max": 87,
        "tthr_mem_max": 95,
        "nvmlDeviceGetMarginTemperature": 51,
        "nvmlDeviceGetNumaNodeId": NOT_SUPPORTED,
        "nvmlDeviceGetCpuAffinity": [0xFFFF, 0, 0, 0],
        "fabricV": {
            "clusterUuid": [0] * 16,
            "status": 0,
            "cliqueId": 0,
            "state": 3,
            "healthMask": 0x1AA,
            "healthSummary": 1,
        },
        "nvlink": {str(number): link() for number in range(18)},
        "fields": {
            "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION": field(0),
            "NVML_FI_DEV_RESET_STATUS": field(0),
            "NVML_FI_DEV_DRAIN_AND_RESET_STATUS": field(0),
            "NVML_FI_DEV_MEMORY_TEMP": field(40),
            "NVML_FI_DEV_NVLINK_LINK_COUNT": field(18),
            "NVML_FI_DEV_PCIE_REPLAY_COUNTER": field(1),
            "NVML_FI_DEV_REMAPPED_PENDING": field(0),
            "NVML_FI_DEV_REMAPPED_FAILURE": field(0),
            "NVML_FI_DEV_RETIRED_DBE": {"ret": 3},
            "NVML_FI_DEV_RETIRED_SBE": {"ret": 3},
        },
    }


def way(a: int, b: int, **more: Any) -> Dump:
    return {"a": a, "b": b, "topo": 30, "read": 0, "write": 0, "nvlink": 0, "atomics": 0, "pci": 5, **more}


def machine(gpus: int = 2) -> Dump:
    """The dump of so many well H200, every pair of them included."""
    return {
        "nvmlInit": None,
        "nvmlSystemGetDriverVersion": "580.159.04",
        "nvmlSystemGetNVMLVersion": "13.580.159.04",
        "nvmlDeviceGetCount": gpus,
        "devices": [board(index) for index in range(gpus)],
        "p2p": [way(a, b) for a in range(gpus) for b in range(gpus) if a != b],
    }


def volta(index: int) -> Dump:
    """A well V100: six links, pages that can be retired and no rows to remap, no GSP, no fabric."""
    return {
        **board(index),
        "nvmlDeviceGetName": "Tesla V100-SXM2-32GB",
        "nvmlDeviceGetUUID": f"GPU-70000000-0000-0000-0000-{index:012d}",
        "nvmlDeviceGetArchitecture": 5,
        "nvmlDeviceGetGspFirmwareVersion": NOT_SUPPORTED,
        "nvmlDeviceGetGspFirmwareMode": NOT_SUPPORTED,
        "nvmlDeviceGetMemoryInfo": {"total": 32 * GIB, "free": 32 * GIB, "used": 0},
        "memv2": {"total": 32 * GIB, "reserved": 0, "free": 32 * GIB, "used": 0},
        "nvmlDeviceGetBAR1MemoryInfo": {"bar1Total": 32 * GIB, "bar1Free": 32 * GIB, "bar1Used": 0},
        "nvmlDeviceGetRemappedRows": NOT_SUPPORTED,
        "nvmlDeviceGetRowRemapperHistogram": NOT_SUPPORTED,
        "nvmlDeviceGetRetiredPagesPendingStatus": 0,
        "retired_dbe": [],
        "retired_sbe": [],
        "nvmlDeviceGetMaxPcieLinkGeneration": 3,
        "nvmlDeviceGetGpuMaxPcieLinkGeneration": 3,
        "nvmlDeviceGetMaxClockInfo:gfx": 1530,
        "nvmlDeviceGetApplicationsClock:gfx": 1290,
        "fabricV": NOT_SUPPORTED,
        "nvlink": {str(number): link(1 if number < 6 else NOT_SUPPORTED) for number in range(18)},
        "fields": {
            "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION": {"ret": 3},
            "NVML_FI_DEV_MEMORY_TEMP": field(40),
            "NVML_FI_DEV_NVLINK_LINK_COUNT": field(6),
            "NVML_FI_DEV_PCIE_REPLAY_COUNTER": field(0),
            "NVML_FI_DEV_RETIRED_DBE": field(0),
            "NVML_FI_DEV_RETIRED_SBE": field(0),
        },
    }


def of(boards: list[Dump]) -> Dump:
    """A machine of these boards."""
    return {**machine(len(boards)), "devices": boards}


def judged(
    data: Dump,
    *,
    plan: Plan | None = None,
    since: Dump | None = None,
    sections: tuple[Section, ...] = (),
    live: bool = False,
) -> Found:
    """The findings on a dump, by id and subject."""
    scene = Scene(
        dump.parse(data, "dump"),
        node.parse(sections, "record"),
        plan=plan or Plan(),
        since=dump.parse(since, "earlier") if since else None,
        live=live,
    )
    findings = judge(scene)
    by = {(finding.id, finding.subject): finding for finding in findings}
    assert len(by) == len(findings), "one finding per check and subject"
    return by


def bad(found: Found) -> dict[tuple[str, str], str]:
    """What is neither a pass nor a skip."""
    return {key: f.status.value for key, f in found.items() if f.status.value not in ("pass", "skip")}
