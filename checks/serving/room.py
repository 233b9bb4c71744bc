"""How much memory something that is only tried may take, so that what serves is not taken along. Pure."""

from __future__ import annotations

import re

LEAST = 64 << 20
_RESERVE = 256 << 20
_SHARE = 20
_UNLIMITED = 1 << 60


def room(meminfo: str, limit: int | None, usage: int | None, reclaimable: int) -> int | None:
    """Bytes that are free here, less a reserve of 256 MiB or a twentieth, whichever is more; None: cannot be told.

    ``meminfo``: ``/proc/meminfo``. ``limit`` and ``usage``: of the container's control group, None without one;
    ``reclaimable``: bytes of that usage which are file cache. Of a small container half is left.
    """
    found = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo, re.M)
    free = [int(found[1]) << 10] if found else []
    if limit is not None and limit < _UNLIMITED and usage is not None:
        free.append(limit - usage + reclaimable)
    if not free:
        return None
    least = min(free)
    return max(LEAST, least - max(_RESERVE, least // _SHARE), least // 2)


def number(text: str | None) -> int | None:
    """The number in a control file; None for ``max`` and for what is none."""
    text = (text or "").strip()
    return int(text) if text.isdecimal() else None


def cached(text: str | None) -> int:
    """Bytes of file cache in ``memory.stat`` that the kernel would give back (v2 and v1 spell it alike)."""
    found = re.search(r"^(?:total_)?inactive_file (\d+)$", text or "", re.M)
    return int(found[1]) if found else 0
