"""Rules about what holds a GPU back: temperature, clock event reasons, the power limit."""

from __future__ import annotations

import re

from checks.data.boards import board_of
from checks.gpus.dump import Gap, Gpu, Violation
from checks.gpus.growth import before
from checks.gpus.modes import of_slices
from checks.gpus.rule import Outcome, Scene, failed, first_error, passed, unknown, unread, warned

IDLE, APPLICATION, SW_POWER_CAP, HW_SLOWDOWN = 0x1, 0x2, 0x4, 0x8
SW_THERMAL, HW_THERMAL, HW_POWER_BRAKE = 0x20, 0x40, 0x80
"""Clock event reasons, from nvml.h (nvmlClocksEventReason*)."""

_HARD = (
    (HW_THERMAL, "HW thermal slowdown"),
    (HW_POWER_BRAKE, "HW power brake"),
    (HW_SLOWDOWN, "HW slowdown"),
)


def temperature(gpu: Gpu, scene: Scene) -> Outcome:
    """Core against its slowdown and operating limits, memory against its own.

    The margin is told and judged only where no limit is: boards of the Hopper generation give 0 or less while they
    are well (leptonai/gpud, accelerator-nvidia-temperature), so theirs counts only with clocks held down for heat.
    """
    older, newer = gpu.number("temp"), gpu.number("tempV")
    core = newer if isinstance(older, Gap) and not first_error(older) else older
    slowdown, highest = _limit(gpu, "tthr_slowdown"), _limit(gpu, "tthr_gpu_max")
    memory, memory_limit = gpu.by_field("MEMORY_TEMP"), _limit(gpu, "tthr_mem_max")
    fix = "check fans, airflow and dust, and the power limit; stop the load until it is cool"
    if isinstance(core, int) and slowdown is not None and core >= slowdown:
        return failed(f"{core} C, at or over slowdown", value=core, limit=slowdown, unit="C", fix=fix)
    if not isinstance(memory, Gap) and memory_limit is not None and memory > memory_limit:
        return failed(
            f"memory at {memory} C, over its limit", value=memory, limit=memory_limit, unit="C", fix=fix
        )
    if isinstance(core, Gap):
        return unread("temperature", core)
    if highest is not None and core >= highest:
        return warned(
            f"{core} C, at its highest operating value", value=core, limit=highest, unit="C", fix=fix
        )
    error = first_error(memory, newer, *map(gpu.number, _LIMITS))
    if error is not None:
        return unread("a temperature or a limit of it", error)
    limit = slowdown if slowdown is not None else highest
    margin = gpu.number("nvmlDeviceGetMarginTemperature")
    if limit is None and isinstance(margin, int) and margin <= 0 and (not _hopper(gpu) or _slowed(gpu)):
        far = f"{-margin} C over its limit" if margin < 0 else "at its limit"
        return warned(f"{core} C, {far}", value=margin, limit=0, unit="C", fix=fix)
    hot = "" if isinstance(memory, Gap) else f", memory {memory} C"
    if limit is None and isinstance(margin, int) and margin > 0:
        hot += f", {margin} C below its limit"
    return passed(
        f"{core} C{hot}" + (f", slowdown at {limit} C" if limit else ""), value=core, limit=limit, unit="C"
    )


_LIMITS = ("tthr_slowdown", "tthr_gpu_max", "tthr_mem_max", "nvmlDeviceGetMarginTemperature")
_HOPPER = 9


def _hopper(gpu: Gpu) -> bool:
    generation = gpu.number("nvmlDeviceGetArchitecture")
    if isinstance(generation, Gap):
        return re.search(r"\bG?H(?:100|200|800|20)\b", gpu.name) is not None
    return generation == _HOPPER


def _slowed(gpu: Gpu) -> bool:
    held = reasons(gpu)
    return not isinstance(held, Gap) and bool(held & (HW_THERMAL | SW_THERMAL))


def _limit(gpu: Gpu, key: str) -> int | None:
    value = gpu.number(key)
    return value if not isinstance(value, Gap) and value > 0 else None


_REASONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")


def reasons(gpu: Gpu) -> int | Gap:
    """The clock event reasons, by the getter's new name or by the one of drivers before 535."""
    given, older = map(gpu.number, _REASONS)
    if not isinstance(given, Gap):
        return given
    return given if first_error(given) else older


def throttle(gpu: Gpu, scene: Scene) -> Outcome:
    """Why the clocks are held down. A power cap under load is normal; at idle it is not."""
    held = reasons(gpu)
    if isinstance(held, Gap):
        return unread("clock event reasons", held)
    hard = [word for bit, word in _HARD if held & bit]
    if hard:
        return failed(
            f"clocks are held down by hardware: {', '.join(hard)}",
            value=f"{held:#x}",
            cause="overheating, or the power supply signals a brake",
            fix="check cooling and power feeds (cables, redundancy); read the temperature finding",
        )
    if held & SW_THERMAL:
        return warned(
            "the driver lowers the clocks for heat", value=f"{held:#x}", fix="check fans and airflow"
        )
    if held & SW_POWER_CAP and idle(gpu):
        fix = "compare the power limit with its default (nvidia-smi -q -d POWER)"
        return warned("held by the power cap while idle", value=f"{held:#x}", fix=fix)
    lost = _time_lost(gpu, scene)
    if lost is not None:
        return lost
    rates = gpu.struct("nvmlDeviceGetUtilizationRates")
    error = first_error(*map(gpu.number, _REASONS), None if of_slices(gpu, rates) else rates)
    if error is not None:
        return unread("one of the readings of what holds the clocks", error)
    return passed("idle" if held & IDLE else "clocks not held down", value=f"{held:#x}")


_POLICIES = {"thermal": "heat", "board": "the board's power limits", "reliab": "voltage reliability"}
SHARE_LOST = 0.01
"""Share of the time between two records that counts as throttled."""


def _time_lost(gpu: Gpu, scene: Scene) -> Outcome | None:
    """What the policies that protect the board took since the earlier record (nvmlDeviceGetViolationStatus)."""
    old = before(gpu, scene)
    for name, why in _POLICIES.items() if old else ():
        then, now = old.violation(name) if old else None, gpu.violation(name)
        if not isinstance(then, Violation) or not isinstance(now, Violation) or now.at_us <= then.at_us:
            continue
        share = (now.lost_ns - then.lost_ns) / ((now.at_us - then.at_us) * 1000)
        if share >= SHARE_LOST:
            return warned(
                f"{share:.0%} of the time since the earlier record was lost to {why}",
                value=round(share, 3),
                limit=SHARE_LOST,
                fix="check fans, airflow and power feeds; read gpu.temperature and gpu.power_limit under load",
            )
    return None


def idle(gpu: Gpu) -> bool:
    """By the driver's own word, else by utilisation. Not known counts as not idle."""
    held = reasons(gpu)
    if not isinstance(held, Gap) and held & IDLE:
        return True
    return utilisation(gpu) == 0


def utilisation(gpu: Gpu) -> int | None:
    """Percent of the last second in which a kernel ran; None: not known."""
    rates = gpu.struct("nvmlDeviceGetUtilizationRates")
    busy = None if isinstance(rates, Gap) else rates.get("gpu")
    return busy if isinstance(busy, int) else None


def power_limit(gpu: Gpu, scene: Scene) -> Outcome:
    """Is the power limit lower than the board's default?"""
    limit = gpu.number("nvmlDeviceGetPowerManagementLimit")
    enforced = gpu.number("nvmlDeviceGetEnforcedPowerLimit")
    default = gpu.number("nvmlDeviceGetPowerManagementDefaultLimit")
    if isinstance(limit, Gap):
        return unread("power limit", limit)
    if isinstance(default, Gap):
        return unread("default power limit", default)
    board = board_of(gpu.name)
    if default <= 0 and board is not None and board.watts is not None:
        default = board.watts * 1000
    if default <= 0:
        return unknown(
            "NVML tells a default power limit of 0 W: nothing to hold the limit against", value=limit // 1000
        )
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
    error = first_error(enforced, gpu.number("nvmlDeviceGetPowerUsage"))
    if error is not None:
        return unread("the power limit in force or the power in use", error)
    return passed(f"{watts} W, default {normal} W", value=watts, limit=normal, unit="W")
