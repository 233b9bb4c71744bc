"""Which NVML getters are read, under which key, and what shape their answer has.

The keys and the layout are those of a plain NVML dump: one key per getter, the value or ``{err, cls, msg}``.
The collector calls by this table and the reader of records refuses by it, so the two cannot disagree.
"""

from __future__ import annotations

from typing import NamedTuple


class Getter(NamedTuple):
    """``call(handle, *args)`` gives ``shape``: int, str, ints2, ints4, struct, or list."""

    key: str
    call: str
    shape: str
    args: tuple[int, ...] = ()


def _plain(shape: str, *names: str) -> tuple[Getter, ...]:
    return tuple(Getter(f"nvmlDevice{name}", f"nvmlDevice{name}", shape) for name in names)


SYSTEM = (
    Getter("nvmlSystemGetDriverVersion", "nvmlSystemGetDriverVersion", "str"),
    Getter("nvmlSystemGetNVMLVersion", "nvmlSystemGetNVMLVersion", "str"),
    Getter("nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion_v2", "int"),
    Getter("nvmlDeviceGetCount", "nvmlDeviceGetCount", "int"),
)

DEVICE = (
    *_plain("str", "GetName", "GetUUID", "GetVbiosVersion"),
    *_plain("struct", "GetPciInfo"),
    *_plain("int", "GetArchitecture", "GetMinorNumber", "GetIndex"),
    *_plain("ints2", "GetCudaComputeCapability", "GetEccMode", "GetMigMode"),
    *_plain("struct", "GetMemoryInfo"),
    *_plain("ints4", "GetRemappedRows"),
    *_plain("int", "GetCurrPcieLinkGeneration", "GetMaxPcieLinkGeneration", "GetGpuMaxPcieLinkGeneration"),
    *_plain("int", "GetCurrPcieLinkWidth", "GetMaxPcieLinkWidth", "GetPcieReplayCounter"),
    *_plain("int", "GetCurrentClocksThrottleReasons", "GetCurrentClocksEventReasons"),
    *_plain("int", "GetPersistenceMode", "GetComputeMode"),
    *_plain("int", "GetPowerUsage", "GetEnforcedPowerLimit"),
    *_plain("int", "GetPowerManagementLimit", "GetPowerManagementDefaultLimit"),
    *_plain("struct", "GetUtilizationRates"),
    Getter("ecc_unc_vol", "nvmlDeviceGetTotalEccErrors", "int", (1, 0)),
    Getter("ecc_unc_agg", "nvmlDeviceGetTotalEccErrors", "int", (1, 1)),
    Getter("ecc_cor_vol", "nvmlDeviceGetTotalEccErrors", "int", (0, 0)),
    Getter("ecc_cor_agg", "nvmlDeviceGetTotalEccErrors", "int", (0, 1)),
    Getter("mem_dram_unc_vol", "nvmlDeviceGetMemoryErrorCounter", "int", (1, 0, 2)),
    Getter("mem_sram_unc_agg", "nvmlDeviceGetMemoryErrorCounter", "int", (1, 1, 7)),
    Getter("temp", "nvmlDeviceGetTemperature", "int", (0,)),
    Getter("tempV", "nvmlDeviceGetTemperatureV", "int", (0,)),
    Getter("tthr_shutdown", "nvmlDeviceGetTemperatureThreshold", "int", (0,)),
    Getter("tthr_slowdown", "nvmlDeviceGetTemperatureThreshold", "int", (1,)),
    Getter("tthr_mem_max", "nvmlDeviceGetTemperatureThreshold", "int", (2,)),
    Getter("tthr_gpu_max", "nvmlDeviceGetTemperatureThreshold", "int", (3,)),
)

STRUCTS = {
    "fabricV": ("nvmlDeviceGetGpuFabricInfoV", ("c_nvmlGpuFabricInfo_v3_t", "c_nvmlGpuFabricInfo_v2_t")),
    "sram_ecc": ("nvmlDeviceGetSramEccErrorStatus", ("c_nvmlEccSramErrorStatus_v1_t",)),
}
"""Getters that fill a struct passed by reference: key -> call, struct types from new to old."""

FIELDS = (
    "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION",
    "NVML_FI_DEV_MEMORY_TEMP",
    "NVML_FI_DEV_NVLINK_LINK_COUNT",
    "NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON",
    "NVML_FI_DEV_PCIE_REPLAY_COUNTER",
)
"""Values read by field id, under ``fields``: ``{ret: 0, type, ull, ui}``, or ``{ret: <code>}``."""

LINKS = 18
"""NVLinks looked at per GPU, under ``nvlink``, keyed by their number as text."""

SHAPES = {getter.key: getter.shape for getter in (*SYSTEM, *DEVICE)}
