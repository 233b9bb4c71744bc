"""Which findings a saved text can carry: those whose evidence it shows. All others are left out of its report.

A text shows a part of a machine; a finding about the rest would be neither green nor of any use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from checks.gpus import parts
from checks.model import Finding

NEEDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "gpu.lost": (("temp", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetMemoryInfo"),),
    "gpu.identity": (("nvmlDeviceGetName",), ("nvmlDeviceGetUUID",), ("nvmlDeviceGetPciInfo",)),
    "gpu.vbios": (("nvmlDeviceGetVbiosVersion",), ("nvmlDeviceGetName",)),
    "gpu.recovery": (
        (
            "fields:NVML_FI_DEV_GET_GPU_RECOVERY_ACTION",
            "fields:NVML_FI_DEV_RESET_STATUS",
            "fields:NVML_FI_DEV_DRAIN_AND_RESET_STATUS",
        ),
    ),
    "gpu.ecc": (("nvmlDeviceGetEccMode",), ("ecc_unc_vol",), ("ecc_unc_agg",)),
    "gpu.row_remap": (("nvmlDeviceGetRemappedRows",),),
    "gpu.retired_pages": (("nvmlDeviceGetRetiredPagesPendingStatus",), ("retired_sbe",), ("retired_dbe",)),
    "gpu.gsp": (("nvmlDeviceGetGspFirmwareVersion",),),
    "gpu.pcie_width": (("nvmlDeviceGetCurrPcieLinkWidth",), ("nvmlDeviceGetMaxPcieLinkWidth",)),
    "gpu.pcie_generation": (
        ("nvmlDeviceGetMaxPcieLinkGeneration",),
        ("nvmlDeviceGetGpuMaxPcieLinkGeneration",),
    ),
    "gpu.pcie_replay": (("nvmlDeviceGetPcieReplayCounter",),),
    "gpu.bar1": (("nvmlDeviceGetBAR1MemoryInfo",),),
    "gpu.throttle": (("nvmlDeviceGetCurrentClocksEventReasons",),),
    "gpu.temperature": (("temp",), ("tthr_slowdown", "tthr_gpu_max", "nvmlDeviceGetMarginTemperature")),
    "gpu.power_limit": (
        ("nvmlDeviceGetPowerManagementLimit",),
        ("nvmlDeviceGetPowerManagementDefaultLimit",),
    ),
    "gpu.persistence": (("nvmlDeviceGetPersistenceMode",),),
    "gpu.mig": (("nvmlDeviceGetMigMode",),),
    "gpu.compute_mode": (("nvmlDeviceGetComputeMode",),),
    "gpu.memory": (("nvmlDeviceGetMemoryInfo",),),
    "nvlink.state": (("nvlink:state",),),
    "nvlink.symmetry": (("nvlink:state",),),
    "nvlink.errors": (("nvlink:replay", "nvlink:recovery", "nvlink:crc_flit"),),
    "fabric.state": (("fabricV",),),
}
"""Finding -> keys of the dump: one of each group must be there. ``fields:NAME`` is a value read by field id,
``nvlink:NAME`` one of any link."""

FAULTS: dict[str, tuple[str, ...]] = {
    "gpu.ecc": ("ecc_unc_vol", "ecc_unc_agg", "sram_ecc:bThresholdExceeded"),
    "gpu.recovery": ("nvmlDeviceGetRepairStatus",),
    "gpu.retired_pages": ("nvmlDeviceGetRetiredPagesPendingStatus",),
    "gpu.row_remap": (
        "unrepairable",
        "fields:NVML_FI_DEV_REMAPPED_PENDING",
        "fields:NVML_FI_DEV_REMAPPED_FAILURE",
    ),
}
"""Finding -> keys that tell a fault by themselves, whatever else of it the text leaves out."""

AROUND = (
    "gpu.xid",
    "pcie.errors",
    "driver.log",
    "fabric.sxid",
    "fabric.manager",
    "driver.peermem",
    "node.iommu",
    "pcie.acs",
    "node.device_nodes",
    "node.cgroup",
    "node.shm",
    "node.memlock",
    "node.environment",
    "node.nccl_crash",
)
"""Findings that rest on sections: their rules leave themselves out."""


def of_devices(devices: Mapping[int, Mapping[str, Any]]) -> frozenset[tuple[str, str]]:
    """(id, subject) of what these devices show, errors in place of values included. A GPU that could not be reached
    is lost, whatever else is said."""
    found = set()
    for index, device in devices.items():
        subject = parts.subject_of(index, device)
        if "handle" in device:
            found.add(("gpu.lost", subject))
            continue
        for identity, groups in NEEDS.items():
            shown = all(any(_has(device, key) for key in group) for group in groups)
            known = any(_set(device, key) for key in FAULTS.get(identity, ()))
            if shown or known or any(_broken(device, key) for group in groups for key in group):
                found.add((identity, subject))
    return frozenset(found)


def _set(device: Mapping[str, Any], key: str) -> bool:
    """Whether a count or flag that tells a fault by itself is not zero, or holds an error proper."""
    if _broken(device, key):
        return True
    outer, _, inner = key.partition(":")
    value = device.get(outer)
    if isinstance(value, Mapping) and inner:
        value = value.get(inner)
    if isinstance(value, Mapping):
        return bool(value.get("ui")) or value.get("ret", 0) not in (0, 3, 13, 26)
    return any(value) if isinstance(value, list) else isinstance(value, int) and value > 0


def _broken(device: Mapping[str, Any], key: str) -> bool:
    """Whether the text prints an error proper in place of this value: then it matters, whatever else is not shown."""
    value = device.get(key)
    return isinstance(value, Mapping) and value.get("err", 3) not in (3, 13, 26)


def _has(device: Mapping[str, Any], key: str) -> bool:
    outer, _, inner = key.partition(":")
    if not inner:
        return key in device
    fields = device.get(outer)
    if not isinstance(fields, Mapping):
        return False
    return any(inner in one for one in fields.values()) if outer == "nvlink" else inner in fields


def kept(findings: Iterable[Finding], covers: frozenset[tuple[str, str]]) -> tuple[Finding, ...]:
    return tuple(one for one in findings if one.id in AROUND or (one.id, one.subject) in covers)
