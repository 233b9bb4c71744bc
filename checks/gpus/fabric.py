"""Rule about the NVSwitch fabric: state, status and health, as each GPU reports them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from checks.data.boards import Board, board_of
from checks.gpus.dump import Gap, Gpu
from checks.gpus.growth import before
from checks.gpus.nvlink import active
from checks.gpus.rule import Outcome, Scene, failed, passed, skipped, unknown, unread, warned

NOT_SUPPORTED, NOT_STARTED, IN_PROGRESS, COMPLETED = 0, 1, 2, 3
"""NVML_GPU_FABRIC_STATE_*"""

_FIX = "systemctl status nvidia-fabricmanager; it must have exactly the driver's version; then restart it"


def fabric(gpu: Gpu, scene: Scene) -> Outcome:
    """State, status and health of the NVSwitch fabric. Links that are up prove nothing: only state 3 does, and
    what a GPU says of status, health or cluster in any other state is left over from before."""
    board, info = board_of(gpu.name), gpu.struct("fabricV")
    must = board is not None and board.fabric and len(scene.dump.gpus) > 1 and not _joined_directly(gpu)
    if isinstance(info, Gap):
        return _untold(info, must)
    state, status = info.get("state"), info.get("status")
    if not isinstance(state, int) or not isinstance(status, int):
        return unknown("the fabric information has no state or status")
    if state == NOT_SUPPORTED:
        return (
            _untold(Gap(3, "not supported"), must) if must else skipped("this GPU is in no NVSwitch fabric")
        )
    if state == NOT_STARTED:
        cause = (
            "nvidia-fabricmanager did not configure this GPU; CUDA ends with error 802, all links look active"
        )
        return failed("the fabric is not started", value=state, limit=COMPLETED, cause=cause, fix=_FIX)
    if state == IN_PROGRESS:
        return _in_progress(gpu, scene)
    if state != COMPLETED:
        return unknown(f"fabric state {state} is not known here", value=state, limit=COMPLETED)
    if status != 0:
        word = f" ({_STATUS[status]})" if status in _STATUS else ""
        return failed(
            f"the fabric is completed with error status {status}{word}",
            value=status,
            limit=0,
            cause="fabric manager did not take this GPU in; the state alone looks well (Azure/azhpc-images#506)",
            fix=_FIX,
        )
    return _cluster(gpu, scene, board, info) or _health(info)


GPU_AT_END = 0
"""NVML_NVLINK_DEVICE_TYPE_GPU"""


def _joined_directly(gpu: Gpu) -> bool:
    """Whether every link that is up ends at another GPU, as on baseboards of four: there is no switch, hence no
    fabric."""
    ends = [gpu.link(number, "remote_type") for number in active(gpu)]
    return bool(ends) and all(end == GPU_AT_END for end in ends)


_STATUS = {
    3: "not supported",
    10: "timeout",
    15: "GPU is lost",
    23: "insufficient resources",
    999: "unknown error",
}
"""nvmlReturn_t, as the status of a fabric."""


def _untold(gap: Gap, must: bool) -> Outcome:
    outcome = unread("fabric state", gap, must_exist=must)
    if not must:
        return outcome
    cause = "fabric manager never ran, or the driver is too old to tell it (leptonai/gpud#1108)"
    return replace(outcome, cause=cause, fix=_FIX)


def _in_progress(gpu: Gpu, scene: Scene) -> Outcome:
    old = before(gpu, scene)
    earlier = old.struct("fabricV") if old else None
    if isinstance(earlier, Mapping) and earlier.get("state") == IN_PROGRESS:
        return failed(
            "the fabric is being set up, as it was in the earlier record: it does not get done",
            value=IN_PROGRESS,
            limit=COMPLETED,
            cause="fabric manager failed half-way (NVIDIA/NVSentinel#889)",
            fix=_FIX,
        )
    return unknown(
        "the fabric is still being set up",
        value=IN_PROGRESS,
        limit=COMPLETED,
        fix=f"look again in a minute; {_FIX}",
    )


def _identity(info: Mapping[str, Any]) -> tuple[Any, Any]:
    uuid = info.get("clusterUuid")
    return (tuple(uuid) if isinstance(uuid, list) else uuid), info.get("cliqueId")


def _cluster(gpu: Gpu, scene: Scene, board: Board | None, info: Mapping[str, Any]) -> Outcome | None:
    """A fabric over several machines has a cluster UUID; siblings in one machine are in one cluster and clique."""
    uuid, clique = _identity(info)
    if board is not None and board.cluster and isinstance(uuid, tuple) and not any(uuid):
        return failed(
            "the fabric is completed and has no cluster UUID, which this board's fabric has",
            cause="the rack's fabric manager or IMEX did not take this GPU in (Azure/azhpc-images#506)",
            fix=f"ask the rack's fabric manager for this tray; {_FIX}",
        )
    if _with_most(gpu, scene):
        return None
    for other in scene.siblings(gpu):
        theirs = other.struct("fabricV")
        if isinstance(theirs, Gap) or theirs.get("state") != COMPLETED or _identity(theirs) == (uuid, clique):
            continue
        if isinstance(uuid, tuple) and any(uuid) and not any(_identity(theirs)[0] or ()):
            continue  # it is out of every cluster, which is its own finding
        return warned(
            f"{other.subject} is in another fabric cluster or clique: NVLink does not join the two",
            value=clique,
            limit=_identity(theirs)[1],
            fix="if that partition is not meant, " + _FIX,
        )
    return None


def _with_most(gpu: Gpu, scene: Scene) -> bool:
    """Whether most GPUs of its name are where it is: then it is the others that are told."""
    infos = [one.struct("fabricV") for one in (gpu, *scene.siblings(gpu))]
    places = [
        _identity(info) for info in infos if not isinstance(info, Gap) and info.get("state") == COMPLETED
    ]
    return 2 * Counter(map(repr, places))[repr(places[0])] > len(places)


def _health(info: Mapping[str, Any]) -> Outcome:
    mask, summary = info.get("healthMask"), info.get("healthSummary")
    bad = unhealthy(mask) if isinstance(mask, int) else []
    if bad:
        return failed(f"the fabric is unhealthy: {', '.join(bad)}", value=mask, fix=_FIX)
    if summary == 2:
        return failed("the fabric calls itself unhealthy", value=summary, limit=1, fix=_FIX)
    if summary == 3:
        return warned("the fabric has limited capacity", value=summary, limit=1, fix=_FIX)
    return passed("completed, status success", value=COMPLETED, limit=COMPLETED)


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
