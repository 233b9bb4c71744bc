"""Can an environment be built in this guest at all? Every reason at once, before anything is touched. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from provision.data import engine_builds, engines
from provision.plan import Refusal
from provision.stack.engine.desired import ENVS, DesiredEngine
from provision.stack.engine.wheels import fitting_floor

NAME = "engine-room"
_TOOLS = tuple(dict.fromkeys(tool for row in engine_builds.SOURCE_BUILDS for tool, _ in row.tools))

# The nearest folder that is there already; memory as the container may use it, which lxcfs need not show.
LOOK = f"""\
echo "glibc $(getconf GNU_LIBC_VERSION 2>/dev/null)"
for p in python3 /usr/bin/python3.[0-9] /usr/bin/python3.[0-9][0-9] /usr/local/bin/python3.[0-9][0-9]; do
  "$p" -I -S -c 'import sys; print("python %d.%d" % sys.version_info[:2])' 2>/dev/null
done
for f in {ENVS} /var/cache/kpro; do
  while [ ! -e "$f" ]; do f=${{f%/*}}; f=${{f:-/}}; done
  df -Pk "$f" | awk 'NR == 2 {{ print "free", $4, $6 }}'
done
awk '/^MemAvailable:/ {{ print "memory", $2 }}' /proc/meminfo
for f in /sys/fs/cgroup/memory.max /sys/fs/cgroup/init.scope/memory.max; do
  read -r most 2>/dev/null <"$f" && case $most in *[!0-9]*) ;; *) echo "memory $((most / 1024))" ;; esac
done
echo "cpus $(nproc)"
for t in {" ".join(_TOOLS)}; do command -v "$t" >/dev/null && echo "tool $t"; done
for n in nvcc "${{CUDA_HOME:-/usr/local/cuda}}/bin/nvcc"; do
  "$n" --version 2>/dev/null | sed -n 's/.*release \\([0-9.]*\\),.*/nvcc \\1/p'
done
:
"""


@dataclass(frozen=True)
class Room:
    """What a guest has. ``free``: mount point and GiB of what holds environments, then of what holds caches;
    ``memory``: GiB that can be had, None when it is not known."""

    glibc: tuple[int, int] | None
    pythons: tuple[str, ...]
    free: tuple[tuple[str, float], ...]
    memory: float | None
    cpus: int
    tools: frozenset[str]
    nvcc: tuple[str, ...]


def parse(text: str) -> Room:
    """Reads what ``LOOK`` printed."""
    rows = [line.split() for line in text.splitlines() if line.split()]

    def of(word: str) -> list[list[str]]:
        return [row[1:] for row in rows if row[0] == word and len(row) > 1]

    glibc = re.search(r"(?m)^glibc glibc (\d+)\.(\d+)", text)
    memory = [int(row[0]) / (1 << 20) for row in of("memory") if row[0].isdecimal()]
    return Room(
        (int(glibc[1]), int(glibc[2])) if glibc else None,
        tuple(dict.fromkeys(row[0] for row in of("python"))),
        tuple((row[1], int(row[0]) / (1 << 20)) for row in of("free") if len(row) > 1 and row[0].isdecimal()),
        min(memory, default=None),
        max([int(row[0]) for row in of("cpus") if row[0].isdecimal()], default=1),
        frozenset(row[0] for row in of("tool")),
        tuple(dict.fromkeys(row[0] for row in of("nvcc"))),
    )


def refusals(engine: DesiredEngine, room: Room, where: str) -> Iterator[Refusal]:
    """Why the environment cannot be built there."""
    if engine.python not in room.pythons:
        yield Refusal(
            f"{where}.python",
            f"the guest has no Python {engine.python} (it has {', '.join(room.pythons) or 'none'})",
            "the environment is built with the guest's own Python; none is downloaded",
            f"install python{engine.python} in the guest, or name one that it has and the engine takes",
        )
    yield from _glibc(engine, room, where)
    yield from _space(engine, room, where)
    if engine.checkout is not None:
        yield from _build(engine, room, where)


def _glibc(engine: DesiredEngine, room: Room, where: str) -> Iterator[Refusal]:
    need = fitting_floor([wheel.name for wheel in engine.wheels], engine.requirement, engine.python)
    if need is None and engine.checkout is None:
        try:
            need = engines.release_of(engine.kind, engine.version).glibc
        except engines.UnknownEngine:
            return
    if need is not None and room.glibc is not None and need > room.glibc:
        yield Refusal(
            f"{where}.version",
            f"{engine.requirement} needs glibc {need[0]}.{need[1]}, and the guest has {room.glibc[0]}.{room.glibc[1]}",
            "its compiled modules would not load",
            "take a guest of a newer suite, or another version of the engine",
        )


def _space(engine: DesiredEngine, room: Room, where: str) -> Iterator[Refusal]:
    row = engine_builds.room(engine.kind, engine.version)
    if row is None or len(room.free) != 2:
        return
    cache = sum(wheel.size for wheel in engine.wheels) / (1 << 30) if engine.wheels else row.cache
    needed: dict[str, float] = {}
    for (place, _), gib in zip(room.free, (row.gib, cache), strict=True):
        needed[place] = needed.get(place, 0) + gib
    for place, free in dict(room.free).items():
        if free < needed[place]:
            yield Refusal(
                where,
                f"{place} of the guest has {free:.1f} GiB left, and the environment of {engine.requirement} takes "
                f"{needed[place]:.1f} GiB with what it is made of ({row.source})",
                "a disk that fills up half-way stops what else writes to it",
                f"make room there, or remove environments that no service needs (ls {ENVS})",
            )


def _build(engine: DesiredEngine, room: Room, where: str) -> Iterator[Refusal]:
    row = engine_builds.source_build(engine.kind)
    if row is None:
        yield Refusal(
            f"{where}.source",
            f"nothing is known of building {engine.kind} from its repository",
            "tools and memory that are missing show themselves after hours",
            "add a row with its source to provision/data/engine_builds.py, or take another source",
        )
        return
    missing = [(tool, package) for tool, package in row.tools if tool not in room.tools]
    if missing:
        yield Refusal(
            f"{where}.source",
            f"the guest has no {', '.join(tool for tool, _ in missing)}",
            "the engine is built from its repository in the guest",
            f"install them: apt-get install {' '.join(package for _, package in missing)}",
        )
    if row.gib_per_job == 0:
        return
    cuda = _cuda(engine)
    if cuda and not any(found.split(".")[0] == cuda.split(".")[0] for found in room.nvcc):
        yield Refusal(
            f"{where}.source",
            f"the guest has {f'nvcc {room.nvcc[0]}' if room.nvcc else 'no nvcc'}, and its torch is CUDA {cuda}",
            "kernels that another CUDA has compiled do not load beside it",
            f"put a CUDA {cuda.split('.')[0]} toolkit into the guest at /usr/local/cuda, or take source='index'",
        )
    if room.memory is None or room.memory < row.gib_least:
        seen = "not known" if room.memory is None else f"{room.memory:.1f} GiB"
        yield Refusal(
            f"{where}.source",
            f"memory of the guest: {seen}; a build takes {row.gib_least:g} GiB, and {row.gib_per_job:g} a job "
            f"({row.source})",
            "a compiler that is killed for memory ends the build after hours, and takes services with it",
            "give the guest more memory, or stop what uses it, or take source='index'",
        )


def jobs(engine: DesiredEngine, room: Room) -> int | None:
    """Compilers at once: as many as there are processors, and as fit into memory; None where nothing is compiled."""
    row = engine_builds.source_build(engine.kind)
    if engine.checkout is None or row is None or row.gib_per_job == 0:
        return None
    return max(1, min(room.cpus, int((room.memory or 0) // row.gib_per_job)))


def _cuda(engine: DesiredEngine) -> str | None:
    try:
        return engines.release_of(engine.kind, engine.version).cuda
    except engines.UnknownEngine:
        return None
