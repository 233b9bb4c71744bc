"""NCCL's own log (NCCL_DEBUG=INFO), read: the transports really used, warnings, last words. Pure.

host:pid:tid [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
[2026-11-29 10:00:00] host:pid:tid [0] include/shm.h:28 NCCL WARN Call to posix_fallocate failed: ...
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

_LINE = re.compile(r"(?P<before>.*?)\bNCCL (?P<level>INFO|WARN|ERROR) (?P<text>.*)")
_VIA = re.compile(
    r"(?:Channel|Ring) \d+(?:/\d+)? : (?P<src>\d+)(?:\[[0-9a-f]+\])? -> (?P<dst>\d+)(?:\[[0-9a-f]+\])?"
    r"(?: \[(?P<side>send|receive)\])? via (?P<transport>.+?)\s*$"
)
_NVLS = re.compile(r"NVLS (?:comm|multicast|tree)|Connected NVLS|via NVLS", re.I)
_OFF = re.compile(r"not (?:supported|available|enabled)|disabl", re.I)
LINE_LIMIT = 600


@dataclass(frozen=True)
class Hop:
    """One channel from rank to rank and what carries it: ``P2P/CUMEM``, ``SHM/direct``, ``NET/Socket``."""

    src: int
    dst: int
    transport: str


@dataclass(frozen=True)
class Log:
    """``warnings`` without host and pid, in order; ``last`` the last line of any kind."""

    hops: tuple[Hop, ...] = ()
    warnings: tuple[str, ...] = ()
    last: str | None = None
    nvls: bool = False


def parse(text: str) -> Log:
    """Reads the log of one rank. Lines that are none of NCCL's count for nothing."""
    hops: dict[tuple[int, int, str], None] = {}
    warnings: dict[str, None] = {}
    last, nvls = None, False
    for raw in text.splitlines():
        line = _LINE.match(raw[:LINE_LIMIT])
        if line is None:
            continue
        said = line["text"].strip()
        last = said
        if line["level"] != "INFO":
            where = re.search(r"(\S+:\d+)\s*$", line["before"].strip())
            warnings[f"{where[1]} {said}" if where else said] = None
            continue
        nvls = nvls or bool(_NVLS.search(said) and not _OFF.search(said))
        if "P2P is disabled between" in said or "P2P is disabled between" in line["before"]:
            warnings[said] = None
        hop = _VIA.match(said)
        if hop is not None:
            hops[int(hop["src"]), int(hop["dst"]), family(hop["transport"])] = None
    return Log(tuple(Hop(*hop) for hop in hops), tuple(warnings)[:20], last, nvls)


def family(transport: str) -> str:
    """``P2P/CUMEM/read`` -> ``P2P/CUMEM``; ``NET/Socket/0`` -> ``NET/Socket``; ``direct shared memory`` -> SHM."""
    if "shared memory" in transport:
        return "SHM"
    parts = transport.strip().split("/")
    if len(parts) == 1 or (parts[0] == "SHM"):
        return parts[0]
    if parts[0] == "NET" and any(part.startswith("GDRDMA") for part in parts):
        return f"NET/{parts[1]}/GDRDMA"
    return f"{parts[0]}/{parts[1]}"


def used(logs: Iterable[Log]) -> dict[str, int]:
    """Transport -> number of distinct directed rank pairs that use it, the most used first."""
    seen = {(hop.src, hop.dst, hop.transport) for log in logs for hop in log.hops}
    return dict(Counter(transport for _, _, transport in sorted(seen)).most_common())
