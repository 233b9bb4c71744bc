"""The shipped PTX, also out of the single file."""

from __future__ import annotations

from importlib import resources


def kernels(name: str) -> str:
    """The text of ``kernels.ptx`` (any GPU from sm_60 on) or ``kernels_sm80.ptx`` (tensor cores, sm_80 on)."""
    return resources.files("checks.cuda").joinpath(name).read_text(encoding="utf-8")
