"""What nccl-tests prints at its end: wrong values, mean bus bandwidth, and its own verdict on each. Pure.

The forms are those of nccl-tests 2.13 to 2.19 (src/util.cu, src/common.cu). Its bandwidth is the mean over all
sizes, and its FAILED is against 0.9 of NCCL_TESTS_MIN_BW: so it is told, and not taken for a measurement of one size.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_WRONG = re.compile(r"^\s*#\s*Out of bounds values\s*:\s*(\d{1,18})\s*(OK|FAILED)?", re.MULTILINE)
_BANDWIDTH = re.compile(
    r"^\s*#\s*Avg bus bandwidth\s*:\s*(\d{1,9}(?:\.\d{1,9})?|-?nan|inf)\s*(OK|FAILED)?", re.MULTILINE
)
_NAME = re.compile(r"^\s*#\s*Collective test concluded:\s*(\S+)|^\s*#\s*nThread\b", re.MULTILINE)


@dataclass(frozen=True)
class Footer:
    """``wrong``: values out of bounds, None when not printed. ``busbw`` in GB/s, None when not printed or no number.
    ``passed``: what the program itself says of each, None when it says nothing."""

    wrong: int | None
    wrong_passed: bool | None
    busbw: float | None
    busbw_passed: bool | None
    test: str | None = None

    @property
    def sums_right(self) -> bool | None:
        """None: not checked (run with -c 0 prints no such line)."""
        if self.wrong is None:
            return None
        return self.wrong == 0 and self.wrong_passed is not False


def footers(text: str) -> tuple[Footer, ...]:
    """Every footer in the text, in order. A line that belongs to no block begins one."""
    marks = sorted(
        [(m.start(), "wrong", m) for m in _WRONG.finditer(text)]
        + [(m.start(), "bandwidth", m) for m in _BANDWIDTH.finditer(text)]
        + [(m.start(), "name", m) for m in _NAME.finditer(text)]
    )
    blocks: list[dict[str, re.Match[str]]] = []
    for _, kind, match in marks:
        if not blocks or kind in blocks[-1] or (kind == "wrong" and "bandwidth" in blocks[-1]):
            blocks.append({})
        blocks[-1][kind] = match
    return tuple(_footer(block) for block in blocks if block.keys() & {"wrong", "bandwidth"})


def _footer(block: dict[str, re.Match[str]]) -> Footer:
    wrong, bandwidth, name = block.get("wrong"), block.get("bandwidth"), block.get("name")
    value = bandwidth[1] if bandwidth else "nan"
    return Footer(
        int(wrong[1]) if wrong else None,
        _said(wrong),
        None if "n" in value else float(value),
        _said(bandwidth),
        name[1] if name else None,
    )


def _said(match: re.Match[str] | None) -> bool | None:
    return {"OK": True, "FAILED": False}.get(match[2] or "") if match else None
