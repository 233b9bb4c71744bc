"""Which NVML getters are read, under which key, and what shape their answer has.

The keys and the layout are those of a plain NVML dump: one key per getter, the value or ``{err, cls, msg}``.
The collector calls by this table and the reader of records refuses by it, so the two cannot disagree.

Getters are grouped in sections: a section is what hangs, is cut off and is missing as one.
"""

from __future__ import annotations

from typing import NamedTuple


class Getter(NamedTuple):
    """``call(handle, *args)`` gives ``shape``, one of the keys of ``dump.SAID``."""

    key: str
    call: str
    shape: str
    args: tuple[int, ...] = ()


class Struct(NamedTuple):
    """A getter that fills a struct passed by reference; ``types`` are the binding's, from new to old."""

    key: str
    call: str
    types: tuple[str, ...]


def _plain(shape: str, *names: str) -> tuple[Getter, ...]:
    return tuple(Getter(f"nvmlDevice{name}", f"nvmlDevice{name}", shape) for name in names)


def _each(shape: str, call: str, keys: str, **args: tuple[int, ...]) -> tuple[Getter, ...]:
    """One getter per keyword; ``keys`` has a ``{}`` for its name."""
    return tuple(Getter(keys.format(name), call, shape, given) for name, given in args.items())


SYSTEM = (
    Getter("nvmlSystemGetDriverVersion", "nvmlSystemGetDriverVersion", "str"),
    Getter("nvmlSystemGetNVMLVersion", "nvmlSystemGetNVMLVersion", "str"),
    Getter("nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion_v2", "int"),
    Getter("nvmlDeviceGetCount", "nvmlDeviceGetCount", "int"),
)

_CLOCK_DOMAINS = {"gfx": (0,), "sm": (1,), "mem": (2,)}

PLAIN: dict[str, tuple[Getter, ...]] = {
    "identity": (
        *_plain("str", "GetName", "GetUUID", "GetSerial"),
        *_plain("struct", "GetPciInfo"),
        *_plain("int", "GetArchitecture", "GetBrand", "GetMinorNumber", "GetIndex"),
        *_plain("ints2", "GetCudaComputeCapability"),
        *_plain("int", "GetNumGpuCores", "GetMemoryBusWidth"),
    ),
    "memory": (
        *_plain("struct", "GetMemoryInfo", "GetBAR1MemoryInfo"),
        Getter("memv2", "nvmlDeviceGetMemoryInfo", "struct", (0x02000028,)),
    ),
    "ecc": (
        *_plain("ints2", "GetEccMode"),
        Getter("ecc_unc_vol", "nvmlDeviceGetTotalEccErrors", "int", (1, 0)),
        Getter("ecc_unc_agg", "nvmlDeviceGetTotalEccErrors", "int", (1, 1)),
        Getter("ecc_cor_vol", "nvmlDeviceGetTotalEccErrors", "int", (0, 0)),
        Getter("ecc_cor_agg", "nvmlDeviceGetTotalEccErrors", "int", (0, 1)),
        Getter("mem_dram_unc_vol", "nvmlDeviceGetMemoryErrorCounter", "int", (1, 0, 2)),
        Getter("mem_sram_unc_agg", "nvmlDeviceGetMemoryErrorCounter", "int", (1, 1, 7)),
        Getter("mem_l2_unc_agg", "nvmlDeviceGetMemoryErrorCounter", "int", (1, 1, 1)),
    ),
    "remap": (
        *_plain("ints4", "GetRemappedRows"),
        *_plain("struct", "GetRowRemapperHistogram"),
        *_plain("int", "GetRetiredPagesPendingStatus"),
        *_each("ints", "nvmlDeviceGetRetiredPages", "retired_{}", dbe=(1,), sbe=(0,)),
        *_plain("ints2", "GetRepairStatus"),
    ),
    "pcie": (
        *_plain("int", "GetCurrPcieLinkGeneration", "GetMaxPcieLinkGeneration"),
        *_plain("int", "GetGpuMaxPcieLinkGeneration", "GetCurrPcieLinkWidth", "GetMaxPcieLinkWidth"),
        *_plain("int", "GetPcieSpeed", "GetPcieLinkMaxSpeed", "GetPcieReplayCounter"),
    ),
    "clocks": (
        *_plain("int", "GetCurrentClocksThrottleReasons", "GetCurrentClocksEventReasons"),
        *_plain("int", "GetSupportedClocksEventReasons", "GetPerformanceState"),
        *_each("int", "nvmlDeviceGetClockInfo", "nvmlDeviceGetClockInfo:{}", **_CLOCK_DOMAINS),
        *_each("int", "nvmlDeviceGetMaxClockInfo", "nvmlDeviceGetMaxClockInfo:{}", **_CLOCK_DOMAINS),
        *_each(
            "int", "nvmlDeviceGetApplicationsClock", "nvmlDeviceGetApplicationsClock:{}", **_CLOCK_DOMAINS
        ),
        Getter(
            "nvmlDeviceGetDefaultApplicationsClock:gfx", "nvmlDeviceGetDefaultApplicationsClock", "int", (0,)
        ),
        *_plain("struct", "GetUtilizationRates"),
    ),
    "violations": _each(
        "struct",
        "nvmlDeviceGetViolationStatus",
        "viol_{}",
        power=(0,),
        thermal=(1,),
        sync=(2,),
        board=(3,),
        lowutil=(4,),
        reliab=(5,),
        total_app=(10,),
        total_base=(11,),
    ),
    "power": (
        *_plain("int", "GetPowerUsage", "GetEnforcedPowerLimit"),
        *_plain("int", "GetPowerManagementLimit", "GetPowerManagementDefaultLimit"),
        *_plain("ints2", "GetPowerManagementLimitConstraints"),
    ),
    "temperature": (
        Getter("temp", "nvmlDeviceGetTemperature", "int", (0,)),
        Getter("tempV", "nvmlDeviceGetTemperatureV", "int", (0,)),
        *_each(
            "int",
            "nvmlDeviceGetTemperatureThreshold",
            "tthr_{}",
            shutdown=(0,),
            slowdown=(1,),
            mem_max=(2,),
            gpu_max=(3,),
        ),
        *_plain("int", "GetMarginTemperature", "GetFanSpeed"),
    ),
    "modes": (
        *_plain("ints2", "GetMigMode"),
        *_plain("int", "GetPersistenceMode", "GetComputeMode", "GetVirtualizationMode"),
        *_plain("int", "GetDisplayActive", "GetDisplayMode", "GetAddressingMode"),
        *_plain("struct", "GetC2cModeInfoV"),
    ),
    "firmware": (
        *_plain("str", "GetVbiosVersion", "GetGspFirmwareVersion", "GetInforomImageVersion"),
        *_plain("ints2", "GetGspFirmwareMode"),
        *_plain("none", "ValidateInforom"),
        *_plain("int", "GetInforomConfigurationChecksum"),
    ),
    "affinity": (
        *_plain("int", "GetNumaNodeId"),
        Getter("nvmlDeviceGetCpuAffinity", "nvmlDeviceGetCpuAffinity", "ints", (4,)),
    ),
    "processes": _plain(
        "processes",
        "GetComputeRunningProcesses",
        "GetGraphicsRunningProcesses",
        "GetMPSComputeRunningProcesses",
    ),
}
"""Section -> the getters that are called in it, in order."""

FILLED: dict[str, tuple[Struct, ...]] = {
    "ecc": (Struct("sram_ecc", "nvmlDeviceGetSramEccErrorStatus", ("c_nvmlEccSramErrorStatus_v1_t",)),),
    "clocks": (
        Struct(
            "nvmlDeviceGetDynamicPstatesInfo",
            "nvmlDeviceGetDynamicPstatesInfo",
            ("c_nvmlGpuDynamicPstatesInfo_t",),
        ),
    ),
    "fabric": (
        Struct(
            "fabricV",
            "nvmlDeviceGetGpuFabricInfoV",
            ("c_nvmlGpuFabricInfo_v3_t", "c_nvmlGpuFabricInfo_v2_t"),
        ),
        Struct("fabric", "nvmlDeviceGetGpuFabricInfo", ("c_nvmlGpuFabricInfo_t",)),
    ),
}
"""Section -> the getters of it that fill a struct."""

FIELDS = tuple(
    f"NVML_FI_DEV_{name}"
    for name in (
        "GET_GPU_RECOVERY_ACTION",
        "MEMORY_TEMP",
        "NVLINK_LINK_COUNT",
        "NVLINK_SPEED_MBPS_COMMON",
        "NVLINK_GET_SPEED",
        "NVLINK_GET_STATE",
        "NVLINK_GET_POWER_STATE",
        "RESET_STATUS",
        "DRAIN_AND_RESET_STATUS",
        "IS_RESETLESS_MIG_SUPPORTED",
        "PCIE_REPLAY_COUNTER",
        "PCIE_REPLAY_ROLLOVER_COUNTER",
        "PCIE_COUNT_CORRECTABLE_ERRORS",
        "PCIE_COUNT_NAKS_RECEIVED",
        "PCIE_COUNT_NAKS_SENT",
        "PCIE_COUNT_RECEIVER_ERROR",
        "PCIE_COUNT_BAD_TLP",
        "PCIE_COUNT_BAD_DLLP",
        "PCIE_COUNT_NON_FATAL_ERROR",
        "PCIE_COUNT_FATAL_ERROR",
        "PCIE_COUNT_UNSUPPORTED_REQ",
        "PCIE_COUNT_LCRC_ERROR",
        "PCIE_COUNT_LANE_ERROR",
        "PCIE_COUNT_TX_BYTES",
        "PCIE_COUNT_RX_BYTES",
        "REMAPPED_COR",
        "REMAPPED_UNC",
        "REMAPPED_PENDING",
        "REMAPPED_FAILURE",
        "REMAPPED_ROWS_COR_INACTIVE",
        "REMAPPED_ROWS_UNC_INACTIVE",
        "RETIRED_SBE",
        "RETIRED_DBE",
        "RETIRED_PENDING",
        "RETIRED_PENDING_SBE",
        "RETIRED_PENDING_DBE",
        "CLOCKS_EVENT_REASON_SW_POWER_CAP",
        "CLOCKS_EVENT_REASON_SYNC_BOOST",
        "CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN",
        "CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN",
        "CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN",
        "TOTAL_ENERGY_CONSUMPTION",
    )
)
"""Values read by field id, under ``fields``: ``{ret: 0, type, ull, ui}``, or ``{ret: <code>}``."""

LINKS = 18
"""NVLinks looked at per GPU, under ``nvlink``, keyed by their number as text."""

LINK_STATE = (
    Getter("state", "nvmlDeviceGetNvLinkState", "int"),
    Getter("remote_type", "nvmlDeviceGetNvLinkRemoteDeviceType", "int"),
)
LINK_MORE = (
    Getter("version", "nvmlDeviceGetNvLinkVersion", "int"),
    Getter("remote", "nvmlDeviceGetNvLinkRemotePciInfo", "struct"),
    Getter("p2p_cap", "nvmlDeviceGetNvLinkCapability", "int", (0,)),
    Getter("replay", "nvmlDeviceGetNvLinkErrorCounter", "int", (0,)),
    Getter("recovery", "nvmlDeviceGetNvLinkErrorCounter", "int", (1,)),
    Getter("crc_flit", "nvmlDeviceGetNvLinkErrorCounter", "int", (2,)),
)
"""Per link, called with (handle, link, *args); ``speed`` comes by field id, in MB/s."""
LINK_SPEED, LINK_SPEED_FIELD = "speed", "NVML_FI_DEV_NVLINK_GET_SPEED"
LINK_SHAPES = {getter.key: getter.shape for getter in (*LINK_STATE, *LINK_MORE)} | {LINK_SPEED: "int"}

PAIR = (
    Getter("topo", "nvmlDeviceGetTopologyCommonAncestor", "int"),
    *_each("int", "nvmlDeviceGetP2PStatus", "{}", read=(0,), write=(1,), nvlink=(2,), atomics=(3,), pci=(4,)),
)
"""Per ordered pair of GPUs, called with (handle, other handle, *args), in the top-level list ``p2p``."""

HANDLE, FIELD_SECTION, NVLINK, NVLINK_MORE, MIG, P2P = (
    "handle",
    "fields",
    "nvlink",
    "nvlink_more",
    "mig",
    "p2p",
)

SECTIONS = (
    "identity",
    "memory",
    "ecc",
    "remap",
    "pcie",
    "clocks",
    "power",
    "temperature",
    "modes",
    "fabric",
    FIELD_SECTION,
    NVLINK,
    "processes",
    "firmware",
    "affinity",
    "violations",
    NVLINK_MORE,
    MIG,
)
"""What is read of each GPU once its handle is there, in this order; then P2P, which needs all handles."""

DEVICE = tuple(getter for name in SECTIONS for getter in PLAIN.get(name, ()))
STRUCTS = {s.key: (s.call, s.types) for name in SECTIONS for s in FILLED.get(name, ())}

SHAPES = {
    **{getter.key: getter.shape for getter in (*SYSTEM, *DEVICE)},
    **dict.fromkeys((*STRUCTS, FIELD_SECTION, NVLINK), "struct"),
    MIG: "structs",
}
"""Key -> shape, for the head and for a device."""


def keys(section: str) -> tuple[str, ...]:
    """The keys of a device that a section fills; none for nvlink_more and p2p, which add to others."""
    if section in (FIELD_SECTION, NVLINK, MIG):
        return (section,)
    plain = tuple(getter.key for getter in PLAIN.get(section, ()))
    return plain + tuple(struct.key for struct in FILLED.get(section, ()))


SECTION_OF = {key: section for section in SECTIONS for key in keys(section)}
