"""The page of ``provcheck drafter --knowable``: what is judged, field by field, and what no file can tell.

Pure.
"""

from __future__ import annotations

from checks.data.drafter_fields import FIELDS, JUDGED, NO_EFFECT, NOT_KNOWABLE, NOT_KNOWABLE_THINGS


def page() -> str:
    """Plain text, one line per field."""
    width = max(len(row.field) for row in FIELDS)
    lines: list[str] = []
    for kind in (JUDGED, NO_EFFECT, NOT_KNOWABLE):
        lines.append(f"{kind}:")
        for row in FIELDS:
            if row.kind == kind:
                by = f" [{', '.join(row.checks)}]" if row.checks else ""
                lines.append(f"  {row.field:<{width}}  {row.why}{by}")
    lines.append("what no file tells, and what does:")
    lines += [f"  {what}\n      {how}" for what, how in NOT_KNOWABLE_THINGS]
    return "\n".join(lines) + "\n"
