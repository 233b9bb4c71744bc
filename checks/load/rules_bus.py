"""Rules about the link between host and GPU, from what was copied and what NVML said meanwhile. Pure."""

from __future__ import annotations

from typing import Any

from checks.data.load_limits import COPY, ONE_WAY, SIBLING, TRIES, pcie_limit
from checks.gpus.rule import Outcome, failed, passed, skipped, unknown, warned
from checks.load.evidence import Measured, Run, number, tree
from checks.load.shared import absent, band, gap_words, middle

_SLOW = "a lane or generation lost, a slot behind a switch, the far CPU socket, or another device on the same uplink"


def h2d(run: Run, measured: Measured) -> Outcome:
    return _rate(run, measured, "h2d", "to the GPU")


def d2h(run: Run, measured: Measured) -> Outcome:
    return _rate(run, measured, "d2h", "to the host")


def limit_of(device: Any) -> tuple[float | None, str]:
    """GB/s of the link at its best, one way, and its name; None where NVML does not say it."""
    generation, lanes = (
        number(device, "nvmlDeviceGetMaxPcieLinkGeneration"),
        number(device, "nvmlDeviceGetMaxPcieLinkWidth"),
    )
    if generation is None or lanes is None:
        return None, ""
    return pcie_limit(int(generation), int(lanes)), f"gen{int(generation)} x{int(lanes)}"


def _rate(run: Run, measured: Measured, way: str, words: str) -> Outcome:
    rate, tries = run.number("link", way, "best"), run.number("link", way, "batches")
    if rate is None:
        return unknown(f"no rate for copies {words}")
    limit, link = limit_of(measured.device(run.index))
    others = [r for s in measured.siblings(run.index) if (r := s.number("link", way, "best")) is not None]
    typical = middle(others)
    shown = f"{rate:.1f} GB/s {words}"
    if limit is None:
        if typical is None:
            return unknown(f"{shown}, but NVML does not say what the link can do", value=rate, unit="GB/s")
        shown += f", the others {typical:.1f}"
        if rate < SIBLING.good * typical:
            return warned(shown, value=rate, limit=typical, unit="GB/s", cause=_SLOW)
        return passed(shown, value=rate, limit=typical, unit="GB/s")
    shown += f", {rate / limit:.0%} of {link} ({limit:.1f})"
    said = {"value": round(rate, 2), "limit": round(COPY.good * limit, 2), "unit": "GB/s"}
    if rate < COPY.good * limit:
        fix = (
            "see load.pcie_width and load.pcie_generation; compare the slot with 'nvidia-smi topo -m'; reseat"
        )
        return band(COPY, rate / limit)(shown, **said, cause=_SLOW, fix=fix)
    if typical is not None and rate < SIBLING.good * typical:
        return warned(f"{shown}; the other GPUs reach {typical:.1f}", **said, cause=_SLOW)
    other = run.number("link", "d2h" if way == "h2d" else "h2d", "best")
    if other is not None and rate < ONE_WAY * other:
        return warned(
            f"{shown}; the other direction reaches {other:.1f}",
            **said,
            cause="one direction of a link is worn or shared",
        )
    if tries is not None and tries < TRIES:
        return unknown(f"{shown}, from {tries:g} batches only", **said, fix="give it more --seconds")
    return passed(shown, **said)


def integrity(run: Run, measured: Measured) -> Outcome:
    there, echo = run.tree("link", "round"), run.tree("link", "echo")
    bad, sampled_bad = number(there, "mismatches"), number(there, "sampled_bad")
    done, back = number(there, "bytes"), number(echo, "bytes")
    if None in (bad, sampled_bad, done, back) or "first_bad" not in echo:
        return unknown("what was copied was not checked")
    assert bad is not None
    assert done is not None
    assert back is not None
    fix = "take the GPU out of service; reseat it or its riser, test in another slot, have it replaced"
    if bad and number(there, "at_home"):
        return unknown(
            "the GPU's own memory changes words, so nothing can be said of copies",
            fix="see load.memory_pattern",
        )
    if bad:
        had = there.get("host_had_it")
        way = "on the way to the GPU" if had is True else "on the way to the host"
        where = f"the first at byte {int(number(there, 'first_bad') or 0) * 4}"
        return failed(
            f"{bad:.0f} of {done / 4:.0f} words arrived changed {way}, {where}: silent data corruption",
            value=int(bad), limit=0, unit="words", fix=fix,
        )  # fmt: skip
    if sampled_bad or echo.get("first_bad") is not None:
        where = f", the first at byte {echo['first_bad']}" if echo.get("first_bad") is not None else ""
        return failed(
            f"data copied to the GPU and back is changed{where}: silent data corruption",
            value=1, limit=0, fix=fix,
        )  # fmt: skip
    total = (2 * done + 2 * back) / 2**20
    return passed(
        f"{total:.0f} MiB of fresh random data arrived unchanged, both ways", value=0, limit=0, unit="words"
    )


def width(run: Run, measured: Measured) -> Outcome:
    best = measured.device(run.index).get("nvmlDeviceGetMaxPcieLinkWidth")
    seen = tree(run.steps, "link", "at_work")
    high, most = number(seen, "width", "high"), number({"w": best}, "w")
    if high is None or most is None:
        return _unread("the link's width at work", seen, "width", best)
    if high < most:
        return failed(
            f"x{high:.0f} of x{most:.0f} while copying",
            value=int(high), limit=int(most), unit="lanes",
            cause="lanes are lost: a worn contact, a bent pin, a riser, or a slot that is wired narrower",
            fix="reseat the GPU; compare with the slot's wiring (lspci -vv, LnkCap of the bridge above)",
        )  # fmt: skip
    return passed(f"x{high:.0f} while copying", value=int(high), limit=int(most), unit="lanes")


def generation(run: Run, measured: Measured) -> Outcome:
    device = measured.device(run.index)
    best, own = (
        device.get("nvmlDeviceGetMaxPcieLinkGeneration"),
        number(device, "nvmlDeviceGetGpuMaxPcieLinkGeneration"),
    )
    seen = tree(run.steps, "link", "at_work")
    high, most = number(seen, "generation", "high"), number({"g": best}, "g")
    if high is None or most is None:
        return _unread("the link's generation at work", seen, "generation", best)
    said: dict[str, Any] = {"value": int(high), "limit": int(most)}
    if high < most:
        return failed(
            f"gen{high:.0f} of gen{most:.0f} while copying", **said,
            cause="the link trained down (signal errors, riser), or the firmware set a lower speed for the slot",
            fix="look at PCIe replays and AER lines in the kernel log; set the slot to auto; reseat",
        )  # fmt: skip
    if own is not None and own > most:
        return warned(
            f"gen{high:.0f} while copying; the GPU can gen{own:.0f}, the slot gives gen{most:.0f}",
            value=int(high), limit=int(own),
            cause="an older slot or CPU, or a setting of the firmware",
        )  # fmt: skip
    return passed(f"gen{high:.0f} while copying", **said)


def _unread(what: str, seen: Any, key: str, best: Any) -> Outcome:
    for value in (best, seen.get(key)):
        if absent(value):
            return skipped(f"{what}: not supported by this GPU or driver")
    return unknown(f"{what} could not be read: {gap_words(seen.get('gap') or seen.get(key) or best)}")
