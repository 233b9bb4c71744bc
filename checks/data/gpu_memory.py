"""Memory that CUDA programs see per GPU model: less than the label, because the driver keeps some.

``usable`` in GiB is the lowest "total capacity" that PyTorch's out-of-memory messages show for that model in
public reports; H200 is a recorded NVML dump (total minus reserved).
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Gpu(NamedTuple):
    """``name`` is a regular expression for what people write and for NVML names without the word NVIDIA;
    ``label`` is how a message names them."""

    name: str
    usable: float
    source: str
    label: str


_REPORTED = "torch.OutOfMemoryError messages, lowest 'total capacity' seen"

GPUS = (
    Gpu(r"(RTX )?A6000|A40|(RTX )?6000 ?Ada.*|L20", 47.53, _REPORTED, "A6000, A40, RTX 6000 Ada, L20"),
    Gpu(r"(GeForce )?(RTX )?3090( Ti)?", 23.55, _REPORTED, "3090"),
    Gpu(r"(GeForce )?(RTX )?4090( D)?", 23.52, _REPORTED, "4090"),
    Gpu(r"(GeForce )?(RTX )?5090( D)?", 31.36, _REPORTED, "5090"),
    Gpu(r"RTX PRO 6000.*", 94.97, _REPORTED, "RTX PRO 6000"),
    Gpu(r"L40S?", 44.34, _REPORTED, "L40, L40S"),
    Gpu(r"L4|A10G?", 22.03, _REPORTED, "L4, A10"),
    Gpu(r"(Tesla )?T4", 14.56, _REPORTED, "T4"),
    Gpu(r"A100([- ].*)?[- ]40 ?GB?|A100-40", 39.25, _REPORTED, "A100-40"),
    Gpu(r"A100([- ].*)?[- ]80 ?GB?|A100-80|A800.*", 79.14, _REPORTED, "A100-80, A800"),
    Gpu(r"H100 NVL", 93.09, _REPORTED, "H100 NVL"),
    Gpu(r"H100([- ](80 ?GB?( HBM3)?|PCIe|SXM\d?))?|H800.*", 79.14, _REPORTED, "H100, H800"),
    Gpu(r"H20", 95.0, _REPORTED, "H20"),
    Gpu(
        r"H200( NVL)?",
        139.80,
        "recorded NVML dump: 150754820096 bytes, 644939776 reserved by the driver",
        "H200",
    ),
    Gpu(r"B200", 178.35, _REPORTED, "B200"),
)

LABEL_SHARE = 0.98
"""Usable share of a size given as a label (``48G``): the rows above have 0.98 (24 GB cards) to 0.99."""


def usable_gib(name: str) -> float | None:
    """GiB that a program sees on a GPU of this name; None for one that is in no row."""
    bare = re.sub(r"^NVIDIA ", "", name.strip(), flags=re.IGNORECASE)
    return next((row.usable for row in GPUS if re.fullmatch(row.name, bare, re.IGNORECASE)), None)
