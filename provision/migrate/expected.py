"""How long copy and cut-over will take, from figures of these machines; where there are none, that is said. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from provision.data.migrating import GIB, MIB
from provision.migrate.ends import Pair
from provision.migrate.moves import Moves
from provision.spec_migration import HAProxy, TrafficSpec
from provision.stack.forecast import Figures

MARGIN = 1.25
"""A copy of many files never runs at the rate of one stream alone (rsync, one round trip for each folder)."""


@dataclass(frozen=True)
class Expected:
    """Seconds, None where there is no figure to work them out from; ``copy`` and ``down`` are sentences for people."""

    copy: str
    down: str
    copy_seconds: float | None = None
    down_seconds: float | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "copy": self.copy,
            "copy_seconds": self.copy_seconds,
            "down": self.down,
            "down_seconds": self.down_seconds,
        }


def expected(
    pair: Pair,
    found: Moves,
    starts: Figures,
    *,
    rate: float | None = None,
    bwlimit: float | None = None,
    leads: TrafficSpec | None = None,
) -> Expected:
    """``rate``: bytes/s that the way was measured with, None: it was not; ``bwlimit`` in MiB/s. ``leads``: what leads
    the clients; its requests are kept off both machines from the drain to the switch."""
    copy, seconds = _copy(found, rate, bwlimit)
    down, lasts = _down(pair, found, starts, leads)
    return Expected(copy, down, seconds, lasts)


def _copy(found: Moves, rate: float | None, bwlimit: float | None) -> tuple[str, float | None]:
    if not found.size:
        return "nothing is copied from machine to machine", 0.0
    what = f"{amount(found.size)} in {found.count} files, while the source serves"
    limit = bwlimit * MIB if bwlimit is not None else None
    least = min((one for one in (rate, limit) if one), default=None)
    if rate is None and limit is not None:
        seconds = found.size / limit
        return (
            f"{what}: at least {_time(seconds)} (the limit of {bwlimit:g} MiB/s; the way was not measured)",
            None,
        )
    if least is None:
        return f"{what}: for how long is not known, the way was not measured", None
    seconds = found.size / least * MARGIN
    by = "the bandwidth limit" if limit is not None and least == limit else "as the way was measured"
    return f"{what}: about {_time(seconds)} ({least / MIB:.0f} MiB/s, {by})", seconds


def _down(pair: Pair, found: Moves, starts: Figures, leads: TrafficSpec | None) -> tuple[str, float | None]:
    if pair.cold:
        return "the source does not serve: it answers again when the target does", None
    wait = pair.source.service.drain_seconds
    extra = any(one.kind == "extra path" for one in found.moves)
    parts = [f"requests that are under way have {wait} s to end", "the last copy and its check"]
    if not extra:
        parts.append("the target is up and warm before that")
        return (
            f"{_unanswered(leads)} while {'; '.join(parts)}: {wait} s and the last copy at most, usually far less",
            float(wait),
        )
    if starts.start is None:
        parts.append(
            "one start of the target, for how long is not known: no start of this service was measured"
        )
        return f"the service does not answer while {'; '.join(parts)}", None
    parts.append(f"one start of the target, about {starts.start:.0f} s ({starts.source})")
    return f"the service does not answer while {'; '.join(parts)}", float(wait) + starts.start


def _unanswered(leads: TrafficSpec | None) -> str:
    """What new requests get meanwhile."""
    if isinstance(leads, HAProxy):
        return "HAProxy answers 503 from the drain to the switch,"
    if leads is not None:
        return "no new request is answered by the service, from your drain to your switch,"
    return "the service does not answer"


def amount(size: int) -> str:
    """Bytes for people."""
    if size >= GIB:
        return f"{size / GIB:.1f} GiB"
    return f"{size / MIB:.1f} MiB" if size >= MIB else f"{size} bytes"


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
