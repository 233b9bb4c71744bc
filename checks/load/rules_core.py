"""Rules about starting, the GPU's own memory, and its results. Pure."""

from __future__ import annotations

from typing import Any

from checks.data.load_limits import MEMORY, SIBLING, computed_memory_rate, memory_rate
from checks.gpus.rule import Outcome, failed, passed, skipped, unknown, warned
from checks.load.evidence import Measured, Run, number
from checks.load.rules_bus import integrity
from checks.load.shared import band, middle
from checks.model import Status

_REPLACE = "take the GPU out of service and have it replaced; no setting mends this"


def start(run: Run, measured: Measured) -> Outcome:
    took, version = run.number("start", "took_s"), run.number("start", "cuda")
    known, seen = measured.device(run.index).get("nvmlDeviceGetUUID"), run.tree("start").get("uuid")
    if took is None or version is None:
        return unknown("the run does not say how it started")
    if known != seen:
        return unknown(
            f"CUDA gave another GPU than NVML's gpu{run.index}: {seen}", fix="look at CUDA_VISIBLE_DEVICES"
        )
    shown = f"CUDA {int(version) // 1000}.{int(version) % 1000 // 10}, context in {took:.1f} s"
    if took > 10:
        return warned(
            shown, value=round(took, 2), limit=10, unit="s",
            cause="the driver starts the GPU anew for each first user",
            fix="keep it started with nvidia-persistenced",
        )  # fmt: skip
    return passed(shown, value=round(took, 2), limit=10, unit="s")


def bandwidth(run: Run, measured: Measured) -> Outcome:
    rates = [r for kind in ("copy", "triad") if (r := run.number("memory", kind, "best")) is not None]
    if len(rates) != 2:
        return unknown("the rate of the GPU's memory was not measured")
    rate = max(rates)
    shown = f"copy {rates[0]:.0f}, triad {rates[1]:.0f} GB/s"
    cause = "memory clocks held down, heat, a fault in one stack, or another user of this GPU"
    limit, what = _memory_limit(measured, run)
    said: dict[str, Any] = {"value": round(rate, 1), "unit": "GB/s"}
    if limit is not None:
        said["limit"] = round(MEMORY.good * limit, 1)
        shown += f", {rate / limit:.0%} of {what} ({limit:.0f})"
        if rate < MEMORY.good * limit:
            return band(MEMORY, rate / limit)(
                shown, **said, cause=cause, fix="see load.clocks and 'provcheck gpus'"
            )
    typical = middle(
        [r for s in measured.siblings(run.index) if (r := s.number("memory", "triad", "best")) is not None]
    )
    if typical is not None and rates[1] < SIBLING.good * typical:
        return warned(f"{shown}; the other GPUs reach {typical:.0f} with triad", **said, cause=cause)
    if limit is None and typical is None:
        return unknown(
            f"{shown}, and nothing to hold it against: no data sheet, no clock, no other GPU", **said
        )
    return passed(shown, **said)


def _memory_limit(measured: Measured, run: Run) -> tuple[float | None, str]:
    row = memory_rate(measured.name(run.index))
    if row is not None:
        return row.gbps, "the data sheet"
    device = measured.device(run.index)
    clock, bits = (
        number(device, "nvmlDeviceGetMaxClockInfo:mem"),
        number(device, "nvmlDeviceGetMemoryBusWidth"),
    )
    if not clock or not bits:
        return None, ""
    return computed_memory_rate(clock, bits), "clock x bus"


def pattern(run: Run, measured: Measured) -> Outcome:
    listed, kept = run.tree("memory").get("patterns"), run.tree("heat", "kept")
    checked = [*(listed if isinstance(listed, list) else []), *([kept] if kept else [])]
    if any(number(one, "mismatches") is None or number(one, "bytes") is None for one in checked):
        return unknown("what was written to the GPU's memory was not checked")
    share = number(checked[0], "bytes") if checked else 0
    if not share:
        return unknown("no memory was left to check")
    for one in checked:
        if bad := number(one, "mismatches"):
            first = int(number(one, "first_bad") or 0) * 4
            return failed(
                f"{bad:.0f} words of {share / 2**20:.0f} MiB did not hold the pattern '{one.get('pattern')}', "
                f"the first at byte {first}: silent data corruption",
                value=int(bad), limit=0, unit="words",
                cause="a memory cell, an address line or a cache that ECC does not cover or did not catch",
                fix=_REPLACE,
            )  # fmt: skip
    shown = f"{share / 2**20:.0f} MiB held {len(checked)} patterns"
    if not kept:
        return unknown(f"{shown} at rest; not checked while computing: the run ended before")
    return passed(shown, value=0, limit=0, unit="words")


def compute(run: Run, measured: Measured) -> Outcome:
    return _results(run, measured, "chains", "chains of integer and fp32 steps")


def tensor(run: Run, measured: Measured) -> Outcome:
    if "tensor" not in run.tree("heat"):
        return skipped("this GPU has no tensor cores of sm_80 or later")
    return _results(run, measured, "tensor", "sums of matrix products on tensor cores")


def _results(run: Run, measured: Measured, kind: str, what: str) -> Outcome:
    heat = run.tree("heat", kind)
    launches, rounds, threads = (number(heat, key) for key in ("launches", "rounds", "threads"))
    bad, rate, spent = heat.get("bad"), number(heat, "steps_per_s"), number(heat, "spent_s")
    if (
        not launches
        or not rounds
        or not threads
        or not isinstance(bad, list)
        or rate is None
        or spent is None
    ):
        return unknown("nothing was computed")
    if bad and integrity(run, measured).status is not Status.PASS:
        return unknown(
            f"{len(bad)} results differ from the host's, but copies from this GPU do not arrive unchanged",
            fix="mend what load.copy_integrity says, then run again",
        )
    if bad:
        sms = sorted({int(sm) for one in bad if (sm := number(one, "sm")) is not None})
        named = ", ".join(map(str, sms[:8])) or "unknown"
        return failed(
            f"{len(bad)}{' or more' if len(bad) >= 16 else ''} threads computed something else than the host, "
            f"on multiprocessor {named}: silent data corruption",
            value=len(bad), limit=0, unit="threads",
            cause="a multiprocessor gives wrong results under load",
            fix=_REPLACE,
        )  # fmt: skip
    shown = f"{rounds * threads:.3g} {what} gave the host's result in {spent:.1f} s, {_speed(kind, rate)}"
    others = (s.number("heat", kind, "steps_per_s") for s in measured.siblings(run.index))
    typical = middle([r for r in others if r is not None])
    if typical is not None and rate < SIBLING.good * typical:
        return warned(
            f"{shown}; the other GPUs do {_speed(kind, typical)}",
            value=0, limit=0, unit="threads", cause="lower clocks than its siblings: see load.clocks",
        )  # fmt: skip
    return passed(shown, value=0, limit=0, unit="threads")


def _speed(kind: str, rate: float) -> str:
    """A step of a thread is one link of a chain, or a 32nd of eight 16 x 8 x 16 products of its warp."""
    if kind == "tensor":
        return f"{rate / 32 * 8 * 2 * 16 * 8 * 16 / 1e12:.0f} TFLOP/s"
    return f"{rate / 1e9:.0f} Gsteps/s"
