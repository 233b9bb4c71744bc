"""Acceptance lengths of public healthy runs. A run of the same model and method below ``floor`` is worth a look.

Lengths count the bonus token. Rates are never compared: their definition differs between engines and versions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Reference:
    """``floor`` is the lowest healthy length (prose, or the CI floor); ``usual`` the typical one on code."""

    model: re.Pattern[str]
    method: str
    min_k: int
    floor: float
    usual: float
    source: str


REFERENCES: tuple[Reference, ...] = (
    Reference(
        re.compile(r"qwen3-8b", re.I),
        "dflash",
        7,
        3.5,
        6.5,
        "vLLM test_dflash.py; arXiv 2602.06036 table 1, floor x0.9",
    ),
    Reference(
        re.compile(r"qwen3\.6-27b", re.I), "dflash", 5, 2.5, 4.5, "noonghunna/club-3090: prose 2.8, code 4.7"
    ),
    Reference(re.compile(r"qwen3\.6-27b", re.I), "mtp", 3, 2.2, 3.4, "noonghunna/club-3090"),
    Reference(
        re.compile(r"qwen3\.8-27b", re.I),
        "dflash",
        7,
        2.3,
        5.8,
        "vLLM 0.33.0 tests; vllm-project/recipes#839 at 64k: 2.5",
    ),
    Reference(re.compile(r"qwen3\.[56]-35b", re.I), "dflash", 7, 3.3, 4.7, "modal-examples#1586; vllm#47914"),
    Reference(re.compile(r"gemma-4-31b", re.I), "mtp", 4, 3.0, 3.9, "noonghunna/club-3090"),
    Reference(re.compile(r"gemma-4-31b", re.I), "dflash", 7, 2.7, 5.2, "noonghunna/club-3090: prose 3.0"),
)


def reference_for(model: str, method: str | None, k: int | None) -> Reference | None:
    """The row for this model, method and draft length, or None."""
    for row in REFERENCES:
        if row.method == method and row.model.search(model) and (k or 0) >= row.min_k:
            return row
    return None
