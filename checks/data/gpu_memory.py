"""Memory that CUDA programs see per GPU model: less than the label, because the driver keeps some.

``usable`` in GiB is the lowest "total capacity" that PyTorch's out-of-memory messages show for that model in
public reports; H200 is a recorded NVML dump (total minus reserved).
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Gpu(NamedTuple):
    """``name`` is a regular expression for what people write and for NVML names without the word NVIDIA."""

    name: str
    usable: float
    source: str


_REPORTED = "torch.OutOfMemoryError messages, lowest 'total capacity' seen"

GPUS = (
    Gpu(r"(RTX )?A6000|A40|(RTX )?6000 ?Ada.*|L20", 47.53, _REPORTED),
    Gpu(r"(GeForce )?(RTX )?3090( Ti)?", 23.55, _REPORTED),
    Gpu(r"(GeForce )?(RTX )?4090( D)?", 23.52, _REPORTED),
    Gpu(r"(GeForce )?(RTX )?5090( D)?", 31.36, _REPORTED),
    Gpu(r"RTX PRO 6000.*", 94.97, _REPORTED),
    Gpu(r"L40S?", 44.34, _REPORTED),
    Gpu(r"L4|A10G?", 22.03, _REPORTED),
    Gpu(r"(Tesla )?T4", 14.56, _REPORTED),
    Gpu(r"A100([- ].*)?[- ]40 ?GB?|A100-40", 39.25, _REPORTED),
    Gpu(r"A100([- ].*)?[- ]80 ?GB?|A100-80|A800.*", 79.14, _REPORTED),
    Gpu(r"H100 NVL", 93.09, _REPORTED),
    Gpu(r"H100([- ](80 ?GB?( HBM3)?|PCIe|SXM\d?))?|H800.*", 79.14, _REPORTED),
    Gpu(r"H20", 95.0, _REPORTED),
    Gpu(r"H200( NVL)?", 139.80, "recorded NVML dump: 150754820096 bytes, 644939776 reserved by the driver"),
    Gpu(r"B200", 178.35, _REPORTED),
)

LABEL_SHARE = 0.98
"""Usable share of a size given as a label (``48G``): the rows above have 0.98 (24 GB cards) to 0.99."""


def usable_gib(name: str) -> float | None:
    """GiB that a program sees on a GPU of this name; None for one that is in no row."""
    bare = re.sub(r"^NVIDIA ", "", name.strip(), flags=re.IGNORECASE)
    return next((row.usable for row in GPUS if re.fullmatch(row.name, bare, re.IGNORECASE)), None)
