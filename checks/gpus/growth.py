"""Counters against an earlier record of the same GPU. A counter alone says little; one that grew says that it goes
on. The earlier GPU is found by its UUID, so another machine's record, or a board that was swapped, counts for nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from checks.gpus.dump import Gap, Gpu
from checks.gpus.rule import Outcome, Scene, passed, unknown, unread


def before(gpu: Gpu, scene: Scene) -> Gpu | None:
    """The same GPU in the earlier record; None when there is no such record or it holds another GPU."""
    uuid = gpu.text("nvmlDeviceGetUUID")
    if scene.since is None or isinstance(uuid, Gap):
        return None
    return next((old for old in scene.since.gpus if old.text("nvmlDeviceGetUUID") == uuid), None)


def grown(gpu: Gpu, scene: Scene, count: Callable[[Gpu], int | Gap]) -> int:
    """By how much ``count`` grew since the earlier record. 0 when either side could not be read, and when it went
    back: a reboot or a reset clears most counters, which is no growth."""
    old = before(gpu, scene)
    if old is None:
        return 0
    then, now = count(old), count(gpu)
    return 0 if isinstance(then, Gap) or isinstance(now, Gap) else max(0, now - then)


def compared(gpu: Gpu, scene: Scene) -> Outcome | None:
    """Could the GPU be held against the earlier record that was asked for?"""
    if scene.since is None:
        return None
    uuid = gpu.text("nvmlDeviceGetUUID")
    if isinstance(uuid, Gap):
        return unread("its UUID, by which the earlier record knows it,", uuid)
    if scene.since.init is not None:
        return unknown(f"the earlier record holds no GPU: NVML said {scene.since.init} then", fix=_ANOTHER)
    if before(gpu, scene) is None:
        return unknown(
            "the earlier record does not hold this GPU: nothing can be said of what grew",
            cause="it is another machine's record, or the board was swapped since",
            fix=_ANOTHER,
        )
    return passed("the earlier record holds this GPU: its counters are held against it")


_ANOTHER = "give --since a record of this machine, or make one now with --record and compare next time"
