"""Rules about how a GPU bears the load: clocks, heat, errors that it counted, and rest afterwards. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checks.data.load_limits import CLOCK_FLOOR
from checks.gpus.rule import Outcome, failed, passed, skipped, unknown, warned
from checks.load import busy
from checks.load.evidence import Measured, Run, number, tree
from checks.load.shared import absent, gap_words

SLOWDOWNS = {0x8: "HW slowdown", 0x40: "HW thermal slowdown", 0x80: "HW power brake"}
"""Clock event reasons of nvml.h that no healthy GPU shows at work."""
_COUNTERS = ("ecc_unc_vol", "ecc_cor_vol", "nvmlDeviceGetRemappedRows", "nvmlDeviceGetPcieReplayCounter")
SOFT_THERMAL, POWER_CAP, SET_CLOCKS, SYNC_BOOST = 0x20, 0x4, 0x2, 0x10


def clocks(run: Run, measured: Measured) -> Outcome:
    seen = tree(run.steps, "heat", "at_work")
    usual, reasons = number(seen, "sm_mhz", "median"), number(seen, "reasons")
    best = number(measured.device(run.index), "nvmlDeviceGetMaxClockInfo:sm")
    if usual is None or reasons is None or not best:
        missing = next(
            (seen[key] for key in ("gap", "sm_mhz", "reasons") if tree(seen.get(key)).get("err")), None
        )
        if absent(missing):
            return skipped("clocks and their reasons: not supported by this GPU or driver")
        return unknown(f"clocks at work could not be read: {gap_words(missing)}")
    bits = int(reasons)
    watts = number(seen, "milliwatts", "high")
    shown = f"{usual:.0f} of {best:.0f} MHz at work" + (f", up to {watts / 1000:.0f} W" if watts else "")
    said: dict[str, Any] = {"value": int(usual), "limit": int(CLOCK_FLOOR * best), "unit": "MHz"}
    slowed = [name for bit, name in SLOWDOWNS.items() if bits & bit]
    if slowed:
        return failed(
            f"{shown}: {', '.join(slowed)}", **said,
            cause="too hot, too little power from the supply, or its brake signal",
            fix="check air flow and heat sink, power cables and supplies; then see gpu.throttle",
        )  # fmt: skip
    if bits & SOFT_THERMAL:
        return warned(f"{shown}: slowed down for heat by the driver", **said, fix="check air flow and fans")
    if usual < CLOCK_FLOOR * best:
        if bits & (POWER_CAP | SET_CLOCKS | SYNC_BOOST):
            fix = "see gpu.power_limit, and locked or application clocks (nvidia-smi -q -d CLOCK)"
            return warned(f"{shown}: held down by {_soft(bits)}", **said, fix=fix)
        return warned(f"{shown}, and NVML gives no reason", **said, fix="reset the GPU; see 'provcheck gpus'")
    return passed(shown + (f", {_soft(bits)}" if bits & POWER_CAP else ""), **said)


def _soft(bits: int) -> str:
    names = {POWER_CAP: "the power cap", SET_CLOCKS: "clocks that were set", SYNC_BOOST: "sync boost"}
    return ", ".join(name for bit, name in names.items() if bits & bit)


def temperature(run: Run, measured: Measured) -> Outcome:
    seen, device = tree(run.steps, "heat", "at_work"), measured.device(run.index)
    peak = number(seen, "celsius", "high")
    if peak is None:
        gap = seen.get("gap") or seen.get("celsius")
        if absent(gap):
            return skipped("temperature: not supported by this GPU or driver")
        return unknown(f"the temperature at work could not be read: {gap_words(gap)}")
    start = number(device, "temp")
    slow, highest = (number(device, key) or None for key in ("tthr_slowdown", "tthr_gpu_max"))
    shown = f"{peak:.0f} C at most" + (f", {start:.0f} before" if start is not None else "")
    said: dict[str, Any] = {"value": int(peak), "limit": highest or slow, "unit": "C"}
    held = _held_back(measured, run.index)
    if slow is not None and peak >= slow:
        return failed(
            f"{shown}: the slowdown temperature is {slow:.0f}",
            **said,
            fix="check air flow, fans and heat sink",
        )
    if held:
        return warned(
            f"{shown}; slowed down for heat for {held / 1e6:.0f} ms", **said, fix="check air flow and fans"
        )
    if highest is not None and peak >= highest:
        return warned(
            f"{shown}: the highest it should have is {highest:.0f}", **said, fix="check air flow and fans"
        )
    return passed(shown, **said)


def _held_back(measured: Measured, index: int) -> float | None:
    """Nanoseconds that the load added to NVML's counter of thermal violations."""
    return _grown(measured, index, "viol_thermal", "violationTime")


def _grown(measured: Measured, index: int, *path: str) -> float | None:
    if measured.after is None or index >= len(measured.after):
        return None
    was, now = number(measured.device(index), *path), number(measured.after[index], *path)
    return None if was is None or now is None else now - was


def ecc(run: Run, measured: Measured) -> Outcome:
    """Errors counted during the load: ECC, remapped rows, PCIe replays."""
    if measured.after is None or run.index >= len(measured.after):
        return unknown("NVML gave no counters after the load", fix="see 'provcheck gpus'")
    before, after = measured.device(run.index), measured.after[run.index]
    if "handle" in after:
        lost = tree(after, "handle").get("err") == 15
        words = gap_words(after["handle"])
        return (
            failed(f"the GPU is lost after the load: {words}", fix="see 'provcheck gpus'; reboot")
            if lost
            else unknown(f"after the load: {words}")
        )
    unc, cor = (_grown(measured, run.index, key) for key in ("ecc_unc_vol", "ecc_cor_vol"))
    remaps = _remaps(before, after)
    replays = _grown(measured, run.index, "nvmlDeviceGetPcieReplayCounter")
    unread = [key for key in _COUNTERS if "err" in tree(after.get(key)) and not absent(after[key])]
    if (unc or 0) > 0 or (remaps or 0) > 0:
        return failed(
            f"during the load: {unc or 0:.0f} uncorrectable errors, {remaps or 0:.0f} rows remapped, "
            f"{cor or 0:.0f} corrected errors",
            value=int((unc or 0) + (remaps or 0)), limit=0,
            cause="memory cells are failing",
            fix="reset the GPU, see gpu.ecc and gpu.row_remap, have it replaced if it comes back",
        )  # fmt: skip
    if (cor or 0) > 0 or (replays or 0) > 0:
        return warned(
            f"during the load: {cor or 0:.0f} corrected errors, {replays or 0:.0f} PCIe replays",
            value=int((cor or 0) + (replays or 0)), limit=0,
            cause="cells or a link at their edge; corrected, so no data was changed",
        )  # fmt: skip
    if unread:
        return unknown(f"{unread[0]} could not be read after the load: {gap_words(after[unread[0]])}")
    if unc is None and remaps is None and replays is None:
        return skipped("error counters: not supported by this GPU or driver")
    kinds = [
        name
        for name, value in (("ECC errors", unc), ("remapped rows", remaps), ("PCIe replays", replays))
        if value is not None
    ]
    return passed(f"no new {', '.join(kinds)}", value=0, limit=0)


def _remaps(before: Mapping[str, Any], after: Mapping[str, Any]) -> float | None:
    was, now = (d.get("nvmlDeviceGetRemappedRows") for d in (before, after))
    if not all(
        isinstance(rows, list) and len(rows) >= 2 and all(isinstance(n, int) for n in rows)
        for rows in (was, now)
    ):
        return None
    assert isinstance(was, list)
    assert isinstance(now, list)
    return float(sum(now[:4]) - sum(was[:4]))


def release(run: Run, measured: Measured) -> Outcome:
    """Whether the GPU is as idle as before."""
    if measured.after is None or run.index >= len(measured.after):
        return unknown("NVML did not answer after the load")
    was, now = busy.used_bytes(measured.device(run.index)), busy.used_bytes(measured.after[run.index])
    if was is None or now is None:
        return skipped("memory in use: not supported by this GPU or driver")
    said: dict[str, Any] = {"value": now, "limit": was + busy.IDLE_USED, "unit": "B"}
    if now > was + busy.IDLE_USED:
        return warned(
            f"{(now - was) >> 20} MiB more in use than before the load", **said,
            cause="somebody else started meanwhile, or the driver did not give the memory back",
        )  # fmt: skip
    return passed("all memory given back", **said)
