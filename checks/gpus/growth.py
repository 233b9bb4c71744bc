"""Counters against an earlier record of the same GPU. A counter alone says little; one that grew says that it goes
on. The earlier GPU is found by its UUID, so another machine's record, or a board that was swapped, counts for nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from checks.gpus.dump import Gap, Gpu
from checks.gpus.rule import Scene


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
