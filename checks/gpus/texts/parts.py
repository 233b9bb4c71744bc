"""One file that holds several texts one after the other: a bug report, a terminal's paste, ``cat a b``. Pure.

Each line is the start of a form, goes on with the form before it, or is of neither; a line between two texts (a
heading, a prompt, a rule of underscores) ends the one before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from checks.gpus import kernel_events
from checks.gpus.texts import listing, logs, lspci, smi_failed, smi_lists, smi_query, smi_table, topology

KERNEL, QUERY, TABLE, LIST, FAILED = "kernel", "query", "table", "list", "failed"
TOPO, FILES, FABRIC, BUS = "topo", "files", "fabric", "bus"

_BREAK = re.compile(
    r"^_{4,}\s*$|^\*\*\* |^\S{0,40}[$#] \S|^/\S*bin/\S+|^\S+@\S+[:~].*[$#]\s*$|^={3,} .* ={3,}$"
)
_EARLIER = re.compile(r"journalctl\b.*(?:-b|--boot)[ =]?-\d")
_KERNEL_TIME = re.compile(r"^(?:<\d+>)?\[ *\d{1,9}\.\d+\]|^\S.{0,60} kernel: |^\d{1,4},\d+,\d+,[^;]{1,8};")
_VERSION = re.compile(r"^Linux version ")
"""/proc/version as well as the first line of a log: alone it is no log."""
_INDENTED = re.compile(r"^\s|^$")
_PAIR = re.compile(r"^\S.*\s: |^GPU [0-9A-Fa-f]{4,8}:")

_STARTS: tuple[tuple[str, Callable[[str], object]], ...] = (
    (FILES, lambda line: listing.recognises(line)),
    (FABRIC, lambda line: logs.is_fabric(line)),
    (LIST, lambda line: smi_lists.recognises(line)),
    (TABLE, lambda line: smi_table.recognises(line)),
    (QUERY, lambda line: re.match(r"^=+NVSMI LOG=+|^GPU [0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]+\s*$", line)),
    (QUERY, lambda line: smi_query.UNREACHED.search(line)),
    (QUERY, lambda line: not _KERNEL_TIME.match(line) and smi_query.recognises(line)),
    (FAILED, lambda line: not _KERNEL_TIME.match(line) and smi_failed.recognises(line)),
    (BUS, lambda line: lspci.recognises(line)),
    (TOPO, lambda line: topology.starts(line)),
    (
        KERNEL,
        lambda line: _KERNEL_TIME.match(line) or (not _VERSION.match(line) and kernel_events.speaks(line)),
    ),
)
_GOES_ON: dict[str, Callable[[str], object]] = {
    FILES: lambda line: True,
    FABRIC: lambda line: _INDENTED.match(line),
    LIST: lambda line: _INDENTED.match(line) or smi_query.UNREACHED.search(line),
    TABLE: lambda line: line[:1] in "|+" or not line.strip(),
    QUERY: lambda line: _INDENTED.match(line) or _PAIR.match(line) or smi_query.UNREACHED.search(line),
    FAILED: lambda line: not line.strip() or line.startswith("NVML library version"),
    BUS: lambda line: _INDENTED.match(line),
    TOPO: lambda line: (
        not line.strip() or re.match(r"^\s*(?:GPU|NIC|CPU|mlx|Legend|[A-Z]{1,4}\d?\s*=|X\s)", line)
    ),
    KERNEL: lambda line: not line.strip(),
}


class Part(NamedTuple):
    """Consecutive lines of one form. ``earlier``: its heading says that it is the log of an earlier boot."""

    form: str
    lines: list[str]
    earlier: bool = False

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


class Parts(NamedTuple):
    """``unread``: lines that belong to no form, headings and empty ones left out."""

    parts: list[Part]
    unread: list[str]

    @property
    def forms(self) -> list[str]:
        return list(dict.fromkeys(part.form for part in self.parts))


def split(text: str) -> Parts:
    parts: list[Part] = []
    unread: list[str] = []
    form: str | None = None
    earlier = False
    for line in text.split("\n"):
        if form == KERNEL and _KERNEL_TIME.match(line):  # most lines of most files
            parts[-1].lines.append(line)
            continue
        if _BREAK.match(line) and not line.startswith("### /"):
            form, earlier = None, _EARLIER.search(line) is not None
            continue
        if form is not None and _first(form, line):
            parts[-1].lines.append(line)
            continue
        start = next((name for name, is_start in _STARTS if is_start(line)), None)
        if start is not None and (start == form):
            parts[-1].lines.append(line)
        elif start is not None:
            form = start
            parts.append(Part(start, [line], earlier))
        elif form is not None and _GOES_ON[form](line):
            parts[-1].lines.append(line)
        elif line.strip():
            form = None
            unread.append(line)
    return Parts(parts, unread)


def _first(form: str, line: str) -> bool:
    """Whether a line that could start another form surely goes on with this one: it is indented below it."""
    if form in (QUERY, LIST) and smi_query.UNREACHED.search(line):
        return True
    if form not in (QUERY, BUS, TABLE, LIST) or topology.starts(line):
        return False
    return line[:1] in (" ", "\t", "|", "+") and bool(_GOES_ON[form](line))


def once(parts: list[Part]) -> list[Part]:
    """Without kernel logs that only repeat what a longer one of the same file says (dmesg and journalctl -k)."""
    said = [{kernel_events.bare(line).strip() for line in part.lines} for part in parts]
    kept = []
    for at, part in enumerate(parts):
        repeats = part.form == KERNEL and any(
            other != at
            and parts[other].form == KERNEL
            and (said[at] < said[other] or (said[at] == said[other] and other < at))
            for other in range(len(parts))
        )
        if not repeats:
            kept.append(part)
    return kept
