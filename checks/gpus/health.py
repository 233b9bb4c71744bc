"""Rules about one GPU alone: presence, identity, memory, heat, power, clocks."""

from __future__ import annotations

from checks.bdf import Bdf
from checks.data.boards import board_of
from checks.gpus.dump import Gap, Gpu
from checks.gpus.rule import Outcome, Scene, failed, passed, skipped, unknown, unread, warned

IDLE, SW_POWER_CAP, HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, HW_POWER_BRAKE = 0x1, 0x4, 0x8, 0x20, 0x40, 0x80
"""Clock event reasons, from nvml.h (nvmlClocksEventReason*)."""

_RECOVERY = {
    1: "reset the GPU (nvidia-smi --gpu-reset)",
    2: "reboot the host",
    3: "stop the work that uses peer-to-peer with it",
    4: "stop the work on it, then reset it",
    5: "recover the IMEX domain",
    6: "reset it through the bus",
    7: "reboot the host",
}
"""NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, from nvml.h; 0 is none."""


def lost(gpu: Gpu, scene: Scene) -> Outcome:
    """Has the GPU fallen off the bus? NVML still counts it and still answers from its cache."""
    gap = gpu.lost()
    if gap is not None:
        return failed(
            f"the GPU is lost: {gap}",
            cause="it fell off the bus (Xid 79) or its firmware died; counts and names come from a cache",
            fix="stop the service, read 'dmesg | grep -i xid', reboot the host; cold, when it stays away",
        )
    if gpu.handle is not None:
        return unknown(f"NVML gives no access to it: {gpu.handle}")
    live = [gpu.number("temp"), gpu.number("nvmlDeviceGetPowerUsage"), gpu.struct("nvmlDeviceGetMemoryInfo")]
    if all(isinstance(value, Gap) for value in live):
        return unknown(
            "neither temperature, power nor memory could be read, so nothing shows that it is alive"
        )
    return passed("answers with live values")


def identity(gpu: Gpu, scene: Scene) -> Outcome:
    """Do name, UUID and PCI address come, each its own?"""
    name, uuid, bdf = gpu.text("nvmlDeviceGetName"), gpu.text("nvmlDeviceGetUUID"), address(gpu)
    gaps = [value for value in (name, uuid, bdf) if isinstance(value, Gap)]
    if gaps:
        return unknown(f"name, UUID or PCI address could not be read: {gaps[0]}")
    twins = [
        other.subject
        for other in scene.dump.gpus
        if other.index != gpu.index and (other.text("nvmlDeviceGetUUID") == uuid or address(other) == bdf)
    ]
    if twins:
        return failed(f"{name} shares its UUID or PCI address {bdf} with {', '.join(twins)}", value=name)
    return passed(f"{name} at {bdf}", value=name)


def recovery(gpu: Gpu, scene: Scene) -> Outcome:
    """The driver's own verdict: which recovery it asks for."""
    action = gpu.by_field("GET_GPU_RECOVERY_ACTION")
    if isinstance(action, Gap):
        return unread("recovery action", action)
    if action == 0:
        return passed("the driver asks for no recovery", value=0)
    return failed(
        f"the driver asks for recovery action {action}",
        value=action,
        limit=0,
        fix=_RECOVERY.get(action, "look this action up in the driver's nvml.h"),
    )


def ecc(gpu: Gpu, scene: Scene) -> Outcome:
    """Is ECC on where the board must have it, and are there uncorrected errors?"""
    board = board_of(gpu.name)
    must = board is not None and board.ecc
    mode = gpu.numbers("nvmlDeviceGetEccMode")
    if isinstance(mode, Gap):
        return unread("ECC mode", mode, must_exist=must)
    current, pending = mode
    if not current:
        return _ecc_off(gpu, scene, pending=bool(pending), must=must)
    since_boot, in_life = gpu.number("ecc_unc_vol"), gpu.number("ecc_unc_agg")
    if isinstance(since_boot, Gap):
        return unread("uncorrected ECC errors since boot", since_boot, must_exist=True)
    if isinstance(in_life, Gap):
        return unread("uncorrected ECC errors of its life", in_life, must_exist=True)
    sram = gpu.struct("sram_ecc")
    if not isinstance(sram, Gap) and sram.get("bThresholdExceeded"):
        fix = "have the board replaced: this is the vendor's own criterion"
        return failed(
            "uncorrected SRAM errors are over the vendor's threshold", value=in_life, limit=0, fix=fix
        )
    if since_boot:
        return failed(
            f"{since_boot} uncorrected ECC errors since boot, {in_life} in its life",
            value=since_boot,
            limit=0,
            cause="memory gave wrong data that ECC could not mend; work on this GPU was killed or is wrong",
            fix="drain it, read the Xid (48, 63, 64, 94, 95) in the log, reset it; replace it if it recurs",
        )
    if in_life:
        fix = "watch the number; gpu.row_remap says whether the rows were replaced"
        return warned(
            f"no uncorrected ECC error since boot, {in_life} in its life", value=in_life, limit=0, fix=fix
        )
    if not pending:
        fix = "nvidia-smi --ecc-config=1, or let the next reset switch it off knowingly"
        return warned("ECC is on and will be off after the next reset", fix=fix)
    return passed("ECC on, no uncorrected error", value=0, limit=0)


def _ecc_off(gpu: Gpu, scene: Scene, *, pending: bool, must: bool) -> Outcome:
    fix = "reset the GPU or reboot" if pending else "nvidia-smi --ecc-config=1, then reset the GPU or reboot"
    if must:
        message = "ECC is off on a data-centre board: its error counters stay at zero whatever happens"
        return failed(message, value="off", limit="on", fix=fix)
    modes = [other.numbers("nvmlDeviceGetEccMode") for other in scene.siblings(gpu)]
    if any(not isinstance(mode, Gap) and mode[0] for mode in modes):
        return warned("ECC is off here and on in its siblings", value="off", limit="on", fix=fix)
    return skipped("ECC is off, which this kind of board allows; there are no error counters to judge")


def row_remap(gpu: Gpu, scene: Scene) -> Outcome:
    """Row remapping: pending needs a reset, failed needs a new board."""
    board = board_of(gpu.name)
    rows = gpu.numbers("nvmlDeviceGetRemappedRows")
    if isinstance(rows, Gap):
        generation = gpu.number("nvmlDeviceGetArchitecture")
        has_it = board is not None and board.ecc and not isinstance(generation, Gap) and generation >= 7
        return unread("remapped rows", rows, must_exist=has_it)
    corrected, uncorrected, pending, failure = rows
    remapped = corrected + uncorrected
    if failure:
        return failed(
            f"row remapping failed, {remapped} rows remapped so far",
            value=remapped,
            cause="a memory bank has no spare row left",
            fix="take the GPU out of service and have the board replaced",
        )
    if pending:
        return failed(
            f"row remapping is pending, {remapped} rows: the bad rows are still in use",
            value=remapped,
            cause="an uncorrected memory error was found since the last reset",
            fix="drain the GPU, then reset it (nvidia-smi --gpu-reset) or reboot",
        )
    return passed("no row remapping pending or failed", value=remapped)


def temperature(gpu: Gpu, scene: Scene) -> Outcome:
    """Core against its slowdown and operating limits, memory against its own."""
    core = gpu.number("temp")
    if isinstance(core, Gap):
        core = gpu.number("tempV")
    if isinstance(core, Gap):
        return unread("temperature", core)
    slowdown, highest = _limit(gpu, "tthr_slowdown"), _limit(gpu, "tthr_gpu_max")
    memory, memory_limit = gpu.by_field("MEMORY_TEMP"), _limit(gpu, "tthr_mem_max")
    fix = "check fans, airflow and dust, and the power limit; stop the load until it is cool"
    if slowdown is not None and core >= slowdown:
        return failed(f"{core} C, at or over slowdown", value=core, limit=slowdown, unit="C", fix=fix)
    if not isinstance(memory, Gap) and memory_limit is not None and memory > memory_limit:
        return failed(
            f"memory at {memory} C, over its limit", value=memory, limit=memory_limit, unit="C", fix=fix
        )
    if highest is not None and core >= highest:
        return warned(
            f"{core} C, at its highest operating value", value=core, limit=highest, unit="C", fix=fix
        )
    limit = slowdown if slowdown is not None else highest
    return passed(
        f"{core} C" + (f", slowdown at {limit} C" if limit else ""), value=core, limit=limit, unit="C"
    )


def _limit(gpu: Gpu, key: str) -> int | None:
    value = gpu.number(key)
    return value if not isinstance(value, Gap) and value > 0 else None


def throttle(gpu: Gpu, scene: Scene) -> Outcome:
    """Why the clocks are held down. A power cap under load is normal; at idle it is not."""
    reasons = gpu.number("nvmlDeviceGetCurrentClocksEventReasons")
    if isinstance(reasons, Gap):
        reasons = gpu.number("nvmlDeviceGetCurrentClocksThrottleReasons")
    if isinstance(reasons, Gap):
        return unread("clock event reasons", reasons)
    hard = [word for bit, word in _HARD if reasons & bit]
    if hard:
        return failed(
            f"clocks are held down by hardware: {', '.join(hard)}",
            value=f"{reasons:#x}",
            cause="overheating, or the power supply signals a brake",
            fix="check cooling and power feeds (cables, redundancy); read the temperature finding",
        )
    if reasons & SW_THERMAL:
        return warned(
            "the driver lowers the clocks for heat", value=f"{reasons:#x}", fix="check fans and airflow"
        )
    if reasons & SW_POWER_CAP and idle(gpu):
        fix = "compare the power limit with its default (nvidia-smi -q -d POWER)"
        return warned("held by the power cap while idle", value=f"{reasons:#x}", fix=fix)
    return passed("idle" if reasons & IDLE else "clocks not held down", value=f"{reasons:#x}")


_HARD = (
    (HW_THERMAL, "HW thermal slowdown"),
    (HW_POWER_BRAKE, "HW power brake"),
    (HW_SLOWDOWN, "HW slowdown"),
)


def idle(gpu: Gpu) -> bool:
    """By the driver's own word, else by utilisation. Not known counts as not idle."""
    reasons = gpu.number("nvmlDeviceGetCurrentClocksEventReasons")
    if not isinstance(reasons, Gap) and reasons & IDLE:
        return True
    rates = gpu.struct("nvmlDeviceGetUtilizationRates")
    return not isinstance(rates, Gap) and rates.get("gpu") == 0


def power_limit(gpu: Gpu, scene: Scene) -> Outcome:
    """Is the power limit lower than the board's default?"""
    limit = gpu.number("nvmlDeviceGetPowerManagementLimit")
    enforced = gpu.number("nvmlDeviceGetEnforcedPowerLimit")
    default = gpu.number("nvmlDeviceGetPowerManagementDefaultLimit")
    if isinstance(limit, Gap):
        return unread("power limit", limit)
    if isinstance(default, Gap):
        return unread("default power limit", default)
    lowest = limit if isinstance(enforced, Gap) else min(limit, enforced)
    watts, normal = lowest // 1000, default // 1000
    if lowest < default:
        return warned(
            f"limited to {watts} W, default {normal} W: it will be slower than its siblings elsewhere",
            value=watts,
            limit=normal,
            unit="W",
            fix=f"nvidia-smi -i {gpu.index} -pl {normal}, unless the cap is meant",
        )
    return passed(f"{watts} W, default {normal} W", value=watts, limit=normal, unit="W")


def address(gpu: Gpu) -> Bdf | Gap:
    """Where the GPU is on the PCI bus."""
    pci = gpu.struct("nvmlDeviceGetPciInfo")
    if isinstance(pci, Gap):
        return pci
    try:
        return Bdf.parse(str(pci.get("busId")))
    except ValueError as error:
        return Gap("BadAddress", str(error)[:100])
