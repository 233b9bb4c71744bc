"""Rules about NVLinks: how many are active, whether siblings have as many, and the errors they counted."""

from __future__ import annotations

from dataclasses import replace

from checks.data.boards import board_of
from checks.gpus.dump import Gap, Gpu
from checks.gpus.getters import LINKS
from checks.gpus.growth import before, grown
from checks.gpus.rule import (
    Outcome,
    Scene,
    failed,
    first_error,
    not_absent,
    passed,
    skipped,
    unknown,
    unread,
    warned,
)

_RETRAIN = "read 'nvidia-smi nvlink -e' and SXid lines in the log; reset all GPUs together; call service"


def active(gpu: Gpu) -> list[int]:
    """The numbers of its links that are up."""
    return [number for number, state in enumerate(gpu.links()) if state == 1]


def state(gpu: Gpu, scene: Scene) -> Outcome:
    """Active NVLinks against what the board must have, or what its bridge shows."""
    board, links, up = board_of(gpu.name), gpu.links(), active(gpu)
    must = board.links if board else None
    errors = [state for state in links if isinstance(state, Gap) and not state.absent]
    there = gpu.by_field("NVLINK_LINK_COUNT")
    dead = [number for number in range(must or 0) if links[number] == 0]
    if errors and not (up and dead):
        return unknown(f"NVLink states could not be read: {errors[0]}")
    error = first_error(there)
    if must is None:
        if error is not None:
            return unread("the number of NVLinks", error)
        return _bridge(links, up, 0 if isinstance(there, Gap) else there)
    if len(up) >= must:
        if error is not None:
            return unread("the number of NVLinks", error)
        return passed(f"{len(up)} of {must} NVLinks active", value=len(up), limit=must, unit="links")
    if not up and len(scene.dump.gpus) == 1:
        return skipped(
            f"no NVLink is active and this is the only GPU here: there is none to link to (board: {must})"
        )
    first = next((state for state in links if isinstance(state, Gap)), None)
    if first is not None and all(isinstance(state, Gap) for state in links):
        return replace(
            unread(f"the {must} NVLinks", first, must_exist=True),
            cause="the driver is too old for this board, or the links were not given to this machine",
            fix="compare driver.floor and fabric.state; look at 'nvidia-smi nvlink -s' on the host",
        )
    down = dead if errors else [number for number in range(must) if number not in up]
    return failed(
        f"{len(up)} of {must} NVLinks active; down: {', '.join(map(str, down))}",
        value=len(up),
        limit=must,
        unit="links",
        cause="a link failed to train (hardware), or fabric manager or driver are too old for this board",
        fix=_RETRAIN,
    )


def _bridge(links: tuple[int | Gap, ...], up: list[int], there: int) -> Outcome:
    if not up:
        return skipped("no NVLink in use: the board has none, or no bridge is fitted", value=0, unit="links")
    known = there or sum(not isinstance(state, Gap) for state in links)
    if len(up) >= known:
        return passed(f"{len(up)} of {known} NVLinks active", value=len(up), limit=known, unit="links")
    down = [str(number) for number, state in enumerate(links[:known]) if state != 1]
    return failed(
        f"{len(up)} of {known} NVLinks active; down: {', '.join(down)}",
        value=len(up),
        limit=known,
        unit="links",
        cause="a bridge that is not fully seated, or a dead link",
        fix="power off, reseat the NVLink bridge on both boards, look at 'nvidia-smi nvlink -s' again",
    )


def symmetry(gpu: Gpu, scene: Scene) -> Outcome | None:
    """Has it as many active links as its siblings?

    None active anywhere is a machine without bridges. A bridge joins two boards, so boards without one among
    bridged ones are a choice when both halves are even, and a dead bridge end when the bridged ones are odd.
    """
    if not scene.holds("nvlink"):
        return None
    siblings = [one for one in scene.siblings(gpu) if one.handle is None and one.lost() is None]
    if not siblings:
        return skipped("no other GPU of this name to compare its links with")
    error = not_absent(*gpu.links())
    if error is not None:
        return unread("NVLink states", error)
    own, most = len(active(gpu)), max(len(active(one)) for one in siblings)
    if not own and not most:
        return skipped(
            "no NVLink is active on any GPU of this name: nothing to compare", value=0, unit="links"
        )
    if own >= most:
        return passed(f"{own} active links, no sibling has more", value=own, unit="links")
    bridged = sum(bool(active(one)) for one in (gpu, *siblings))
    board = board_of(gpu.name)
    if not own and bridged % 2 == 0 and (board is None or board.links is None):
        return warned(
            "no active link, and siblings are bridged in pairs",
            value=0,
            limit=most,
            unit="links",
            cause="no bridge is fitted here, or the bridge of both boards is dead",
            fix="if there is a bridge on this board, power off and reseat it on both ends",
        )
    better = next(one for one in siblings if len(active(one)) == most)
    return failed(
        f"{own} active links, {better.subject} has {most}",
        value=own,
        limit=most,
        unit="links",
        cause="links of this GPU failed to train; jobs that span the GPUs run at its speed, or over PCIe",
        fix=_RETRAIN,
    )


_COUNTERS = {"recovery": "link recoveries", "replay": "replays", "crc_flit": "CRC errors"}
NOISE = 1000
"""Repaired errors on one link that are no noise any more when its other links counted a hundredth of it."""


def _count(gpu: Gpu, kind: str) -> int | Gap:
    """Errors of a kind over all links. A Gap when no link has the counter."""
    counts = [gpu.link(number, kind) for number in range(LINKS)]
    numbers = [count for count in counts if isinstance(count, int)]
    return sum(numbers) if numbers else next(count for count in counts if isinstance(count, Gap))


def errors(gpu: Gpu, scene: Scene) -> Outcome | None:
    """Errors that the links counted. A replay or CRC error was repaired by sending again: noise as a number, a
    sign when it grows. A recovery means that the link went down and trained anew."""
    given = [one.link(0, kind) for one in scene.dump.gpus for kind in _COUNTERS if one.handle is None]
    if not scene.live and all(
        count is None or (isinstance(count, Gap) and not _told(count)) for count in given
    ):
        return None
    states = gpu.links()
    if all(isinstance(state, Gap) and state.absent for state in states):
        return skipped("this GPU shows no NVLink: there is nothing to count")
    more = {kind: grown(gpu, scene, lambda one, kind=kind: _count(one, kind)) for kind in _COUNTERS}  # type: ignore[misc]
    grew = ", ".join(f"{number} {_COUNTERS[kind]}" for kind, number in more.items() if number)
    if grew:
        verdict = failed if more["recovery"] else warned
        return verdict(
            f"since the earlier record the NVLinks counted {grew}",
            value=sum(more.values()),
            limit=0,
            cause="a link that goes on failing: contact, bridge, baseboard or switch",
            fix=_RETRAIN,
        )
    totals = {kind: _count(gpu, kind) for kind in _COUNTERS}
    error = first_error(*(gpu.link(number, kind) for number in range(LINKS) for kind in _COUNTERS))
    recoveries = totals["recovery"]
    if isinstance(recoveries, int) and recoveries:
        return warned(
            f"the NVLinks were trained anew {recoveries} times since the last reset",
            value=recoveries,
            limit=0,
            cause="a link went down under work and came back",
            fix=f"keep a record and compare with --since; if it grows: {_RETRAIN}",
        )
    loud = _loud(gpu)
    if loud is not None:
        link, count = loud
        return warned(
            f"link {link} counted {count} repaired errors, its other links next to none",
            value=count,
            fix=f"keep a record and compare with --since; if it grows: {_RETRAIN}",
        )
    if error is not None:
        return unread("NVLink error counters", error)
    if all(isinstance(total, Gap) for total in totals.values()):
        gap = not_absent(*totals.values())
        return unread("NVLink error counters", gap) if gap else skipped("no NVLink error counters here")
    if not active(gpu) and not any(totals.values()):
        return skipped("no NVLink is active: there is nothing to count")
    said = ", ".join(f"{n} {_COUNTERS[kind]}" for kind, n in totals.items() if isinstance(n, int))
    told = (
        "none more than in the earlier record" if before(gpu, scene) else "repaired ones alone are no finding"
    )
    return passed(f"{said}: {told}", value=sum(n for n in totals.values() if isinstance(n, int)))


def _told(gap: Gap) -> bool:
    return gap.code != "NotRead"


def _loud(gpu: Gpu) -> tuple[int, int] | None:
    repaired = {
        number: sum(
            count for kind in ("replay", "crc_flit") if isinstance(count := gpu.link(number, kind), int)
        )
        for number in active(gpu)
    }
    if len(repaired) < 2:
        return None
    link = max(repaired, key=lambda number: repaired[number])
    rest = max(count for number, count in repaired.items() if number != link)
    return (link, repaired[link]) if repaired[link] > NOISE and rest * 100 <= repaired[link] else None
