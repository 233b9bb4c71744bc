"""The areas of finding ids: the word before the point, in the order of the pages."""

from __future__ import annotations

AREAS: dict[str, tuple[str, str]] = {
    "driver": ("provcheck gpus", "Kernel module and library"),
    "gpu": ("provcheck gpus", "Each GPU"),
    "nvlink": ("provcheck gpus", "NVLink"),
    "fabric": ("provcheck gpus", "NVSwitch fabric"),
    "pcie": ("provcheck gpus", "The bus between GPUs"),
    "node": ("provcheck gpus", "The machine around the GPUs"),
    "load": ("provcheck load", "GPUs at work"),
    "nccl": ("provcheck nccl", "GPUs together"),
    "drafter": ("provcheck drafter", "Draft models"),
    "flags": ("provcheck flags", "Command lines of engines"),
    "fit": ("provcheck fit", "What fits into memory"),
    "serve": ("provcheck serve", "A served model"),
}
"""Area -> the command that finds it, and its heading."""
