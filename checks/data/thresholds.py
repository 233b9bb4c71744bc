"""Where a finding turns from pass to warn or fail, for the pages. The numbers are those of the rules."""

from __future__ import annotations

THRESHOLDS: dict[str, str] = {}
