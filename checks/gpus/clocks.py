"""Rule about clocks that somebody set: application clocks and locked clocks, which no error tells of."""

from __future__ import annotations

from checks.data.boards import board_of
from checks.gpus.dump import Gap, Gpu
from checks.gpus.heat import APPLICATION, idle, reasons, utilisation
from checks.gpus.rule import Outcome, Scene, first_error, passed, unread, warned

_SET, _DEFAULT, _MAX, _NOW = (
    "nvmlDeviceGetApplicationsClock:{}",
    "nvmlDeviceGetDefaultApplicationsClock:{}",
    "nvmlDeviceGetMaxClockInfo:{}",
    "nvmlDeviceGetClockInfo:{}",
)
_BUSY = 50
"""Percent of utilisation from which a GPU counts as working, so that its clock can be compared."""

_FAR_BELOW = 0.8
"""Share of the siblings' clock under the same work below which a GPU counts as held back."""


def clocks(gpu: Gpu, scene: Scene) -> Outcome | None:
    """Application clocks below the board's default, locked clocks, a sibling that runs faster under the same work."""
    if not scene.holds(_MAX.format("gfx"), _SET.format("gfx")):
        return None
    top, app = gpu.number(_MAX.format("gfx")), gpu.number(_SET.format("gfx"))
    now = gpu.number(_NOW.format("gfx"))
    unset = f"nvidia-smi -i {gpu.index} --reset-applications-clocks --reset-gpu-clocks, unless it is meant"
    default = gpu.number(_DEFAULT.format("gfx"))
    if isinstance(app, int) and isinstance(top, int) and app < top:
        faster = [one for one in scene.siblings(gpu) if _above(one.number(_SET.format("gfx")), app)]
        board = board_of(gpu.name)
        usual = top if board is not None and board.runs_at_max else app
        usual = default if isinstance(default, int) else usual
        if faster or app < usual:
            than = f"; {faster[0].subject} has {faster[0].number(_SET.format('gfx'))}" if faster else ""
            by_default = f"default {default}" if _above(default, app) else f"greatest {top}"
            return warned(
                f"application clock {app} MHz, {by_default}{than}",
                value=app,
                limit=usual if app < usual else top,
                unit="MHz",
                fix=unset,
            )
    better = [one for one in scene.siblings(gpu) if _above(one.number(_MAX.format("gfx")), top)]
    if better:
        return warned(
            f"greatest clock {top} MHz, {better[0].subject} has {better[0].number(_MAX.format('gfx'))}",
            value=top,
            unit="MHz",
            cause="boards of one name with different limits: another VBIOS or another variant",
            fix="compare gpu.vbios of the two; ask the vendor for the firmware of the faster",
        )
    return _running(gpu, scene, now, app, unset) or _told(top, app, now, default)


def _running(gpu: Gpu, scene: Scene, now: int | Gap, app: int | Gap, unset: str) -> Outcome | None:
    """Clocks that are held now: by a lock below the application clock, or far below siblings that work as hard."""
    held = reasons(gpu)
    locked = isinstance(held, int) and bool(held & APPLICATION) and not idle(gpu)
    if locked and isinstance(now, int) and isinstance(app, int) and now < _FAR_BELOW * app:
        return warned(
            f"clock locked at {now} MHz, application clock {app}", value=now, limit=app, unit="MHz", fix=unset
        )
    if not isinstance(now, int) or not _works(gpu):
        return None
    speeds = [one.number(_NOW.format("gfx")) for one in scene.siblings(gpu) if _works(one)]
    fastest = max((speed for speed in speeds if isinstance(speed, int)), default=0)
    if now < _FAR_BELOW * fastest:
        return warned(
            f"runs at {now} MHz under work, a sibling at {fastest}",
            value=now,
            limit=fastest,
            unit="MHz",
            cause="clocks that were locked, a power cap or heat: gpu.throttle and gpu.power_limit say which",
            fix=unset,
        )
    return None


def _told(top: int | Gap, app: int | Gap, now: int | Gap, default: int | Gap) -> Outcome:
    error = first_error(top, app, now, default)
    if error is not None:
        return unread("clocks", error)
    if isinstance(top, Gap):
        return unread("the greatest clock", top)
    at = "" if isinstance(now, Gap) else f"now {now} MHz, "
    if isinstance(app, Gap):
        return passed(f"{at}greatest {top} MHz; no application clocks on this board", value=top, unit="MHz")
    return passed(f"{at}application clock {app} MHz, greatest {top}", value=app, limit=top, unit="MHz")


def _works(gpu: Gpu) -> bool:
    return (utilisation(gpu) or 0) >= _BUSY


def _above(one: int | Gap, other: int | Gap) -> bool:
    return isinstance(one, int) and isinstance(other, int) and one > other
