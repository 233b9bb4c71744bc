"""Rules about how GPUs are connected: PCIe width, NVLinks, the NVSwitch fabric."""

from __future__ import annotations

from checks.data.boards import board_of
from checks.gpus.dump import Gap, Gpu
from checks.gpus.health import idle
from checks.gpus.rule import Outcome, Scene, failed, passed, skipped, unknown, unread, warned


def pcie_width(gpu: Gpu, scene: Scene) -> Outcome:
    """Lanes in use against lanes that board and slot have. The generation falls at idle by design."""
    width, widest = gpu.number("nvmlDeviceGetCurrPcieLinkWidth"), gpu.number("nvmlDeviceGetMaxPcieLinkWidth")
    if isinstance(width, Gap):
        return unread("PCIe width", width)
    if isinstance(widest, Gap):
        return unread("greatest PCIe width", widest)
    generation = gpu.number("nvmlDeviceGetCurrPcieLinkGeneration")
    suffix = "" if isinstance(generation, Gap) else f" gen{generation}"
    if width >= widest:
        return passed(f"x{width}{suffix}", value=width, limit=widest, unit="lanes")
    fix = "look again while it copies; reseat the board and its riser, clean the contacts, try another slot"
    full = [
        other for other in scene.siblings(gpu) if other.number("nvmlDeviceGetCurrPcieLinkWidth") == widest
    ]
    said = f"x{width} of x{widest}{suffix}"
    if idle(gpu) and not full:
        cause = "some boards narrow an idle link; no sibling at full width says otherwise"
        return warned(said, value=width, limit=widest, unit="lanes", cause=cause, fix=fix)
    with_siblings = f", {full[0].subject} runs at x{widest}" if full else ""
    cause = "lanes were lost: copies to and from this GPU are slower by as much"
    return failed(f"{said}{with_siblings}", value=width, limit=widest, unit="lanes", cause=cause, fix=fix)


def nvlink(gpu: Gpu, scene: Scene) -> Outcome:
    """Active NVLinks against what the board must have, or what its bridge shows."""
    board, links = board_of(gpu.name), gpu.links()
    must = board.links if board else None
    alone = len(scene.dump.gpus) == 1
    active = [number for number, state in enumerate(links) if state == 1]
    errors = [state for state in links if isinstance(state, Gap) and not state.absent]
    if errors:
        return unknown(f"NVLink states could not be read: {errors[0]}")
    there = gpu.by_field("NVLINK_LINK_COUNT")
    if must is None:
        return _bridge(links, active, 0 if isinstance(there, Gap) else there)
    if len(active) >= must:
        return passed(f"{len(active)} of {must} NVLinks active", value=len(active), limit=must, unit="links")
    if not active and alone:
        return skipped(
            f"no NVLink is active and this is the only GPU here: there is none to link to (board: {must})"
        )
    if all(isinstance(state, Gap) for state in links):
        return unread(
            f"the {must} NVLinks", links[0] if isinstance(links[0], Gap) else Gap(None), must_exist=True
        )
    down = [number for number in range(must) if number not in active]
    return failed(
        f"{len(active)} of {must} NVLinks active; down: {', '.join(map(str, down))}",
        value=len(active),
        limit=must,
        unit="links",
        cause="a link failed to train (hardware), or fabric manager or driver are too old for this board",
        fix="read 'nvidia-smi nvlink -e' and SXid lines in the log; reset all GPUs together; call service",
    )


def _bridge(links: tuple[int | Gap, ...], active: list[int], there: int) -> Outcome:
    if not active:
        return skipped("no NVLink in use: the board has none, or no bridge is fitted", value=0, unit="links")
    known = there or sum(not isinstance(state, Gap) for state in links)
    if len(active) >= known:
        return passed(
            f"{len(active)} of {known} NVLinks active", value=len(active), limit=known, unit="links"
        )
    down = [str(number) for number, state in enumerate(links[:known]) if state != 1]
    return failed(
        f"{len(active)} of {known} NVLinks active; down: {', '.join(down)}",
        value=len(active),
        limit=known,
        unit="links",
        cause="a bridge that is not fully seated, or a dead link",
        fix="power off, reseat the NVLink bridge on both boards, look at 'nvidia-smi nvlink -s' again",
    )


def fabric(gpu: Gpu, scene: Scene) -> Outcome:
    """State, status and health of the NVSwitch fabric. Links that are up prove nothing: only state 3 does."""
    board, info = board_of(gpu.name), gpu.struct("fabricV")
    must = board is not None and board.fabric and len(scene.dump.gpus) > 1
    if isinstance(info, Gap):
        return unread("fabric state", info, must_exist=must)
    state, status = info.get("state"), info.get("status")
    if not isinstance(state, int) or not isinstance(status, int):
        return unknown("the fabric information has no state or status")
    if state == 0:
        gap = Gap(3, "not supported")
        return (
            unread("fabric state", gap, must_exist=True)
            if must
            else skipped("this GPU is in no NVSwitch fabric")
        )
    fix = "systemctl status nvidia-fabricmanager; it must have exactly the driver's version; then restart it"
    if state == 1:
        cause = (
            "nvidia-fabricmanager did not configure this GPU; CUDA ends with error 802, all links look active"
        )
        return failed("the fabric is not started", value=state, limit=3, cause=cause, fix=fix)
    if state == 2:
        return unknown(
            "the fabric is still being set up", value=state, limit=3, fix=f"look again in a minute; {fix}"
        )
    if state != 3:
        return unknown(f"fabric state {state} is not known here", value=state, limit=3)
    if status != 0:
        return failed(f"the fabric is completed with error status {status}", value=status, limit=0, fix=fix)
    return _fabric_health(info, fix)


def _fabric_health(info: dict[str, object] | object, fix: str) -> Outcome:
    assert isinstance(info, dict)
    mask, summary = info.get("healthMask"), info.get("healthSummary")
    bad = unhealthy(mask) if isinstance(mask, int) else []
    if bad:
        return failed(f"the fabric is unhealthy: {', '.join(bad)}", value=mask, fix=fix)
    if summary == 2:
        return failed("the fabric calls itself unhealthy", value=summary, limit=1, fix=fix)
    if summary == 3:
        return warned("the fabric has limited capacity", value=summary, limit=1, fix=fix)
    return passed("completed, status success", value=3, limit=3)


_BAD = (
    (0, 3, (1,), "degraded bandwidth"),
    (2, 3, (1,), "route recovery"),
    (4, 3, (1,), "unhealthy route"),
    (6, 3, (1,), "access timeout recovery"),
    (8, 15, (2, 3, 4, 5, 6, 7, 8), "incorrect configuration"),
    (12, 3, (2,), "no partition assigned"),
    (14, 3, (2,), "fabric manager disconnected"),
)
"""Shift, bit mask, bad values, word. nvml.h: 1 is bad in the first four groups and good in the others."""


def unhealthy(mask: int) -> list[str]:
    """The bad groups of a fabric health mask; 0x1aa is a healthy one."""
    return [word for shift, bits, bad, word in _BAD if mask >> shift & bits in bad]
