"""A measurement on this host: look, copy between pairs, all-reduce, and again without P2P or SHM on a hang."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checks import child
from checks.errors import BadInput
from checks.load import busy
from checks.load.turn import TAKEN, Turn
from checks.nccl import crew, environment, library, pairs
from checks.nccl.binding import OLDEST
from checks.nccl.crew import Deadlines
from checks.nccl.environment import Service
from checks.nccl.measured import STOPPED
from checks.nccl.rules_ranks import WITHOUT_P2P, WITHOUT_SHM

SUMS = (8, 1 << 20, 8 << 20)
"""Bytes of the all-reduces before the greatest: each takes another of NCCL's ways (LL, LL128, Simple)."""
SEES_S = 30.0


@dataclass(frozen=True)
class Wish:
    """What the caller asks for. ``size`` in bytes; ``gpus`` CUDA ordinals, None for all."""

    size: int = 1 << 30
    gpus: tuple[int, ...] | None = None
    library: Path | None = None
    env: Path | None = None
    service: Service | None = None
    force: bool = False
    deadlines: Deadlines = field(default_factory=Deadlines)
    curve: bool = False
    """Whether the rate at every size from 8 bytes up is wanted as well, each twice the one before."""


@dataclass(frozen=True)
class Node:
    """This host's part in a run over many: ranks ``first`` .. of ``nranks``, and how the id is exchanged."""

    nranks: int
    first: int
    exchange: Callable[[str | None], str]


@dataclass
class Bench:
    """What is known before any GPU is used; ``data`` is what becomes the record."""

    library: str
    variables: dict[str, str]
    data: dict[str, Any] = field(default_factory=dict)
    turn: Turn | None = None
    tell: Callable[[str], None] = lambda text: None

    @property
    def gpus(self) -> list[int]:
        return list(self.data["gpus"])


def look(wish: Wish, nvml: Mapping[str, Any] | None, own: Mapping[str, str] | None = None) -> Bench:
    """Finds the libraries and GPUs. Raises BadInput when what the caller named is not there."""
    service = wish.service
    variables = environment.ranks(os.environ if own is None else own, service, {})
    variables.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    variables.setdefault("CUDA_CACHE_DISABLE", "1")  # no compiled kernels in somebody's home
    mapped, cudart = _loaded(service)
    found = library.candidates(
        library=wish.library,
        env=wish.env,
        variables=variables,
        mapped=mapped,
        command=service.program if service else None,
    )[0]
    runtimes = library.runtimes(found.home, cudart if found.path in mapped else ())
    seen = _ask(found.path, runtimes, variables)
    ordinals = [gpu["ordinal"] for gpu in seen["gpus"]]
    gpus = ordinals if wish.gpus is None else list(wish.gpus)
    if ordinals and (unknown := [gpu for gpu in gpus if gpu not in ordinals]):
        raise BadInput(
            f"--gpus: CUDA has no GPU {', '.join(map(str, unknown))} here: it numbers them "
            f"{', '.join(map(str, ordinals))}{_visible(variables)}"
        )
    source: dict[str, Any] = {"how": found.how, "asked": found.path}
    source["home"] = str(found.home) if found.home else None
    if service is not None:
        source |= {"service": service.name, "unread": list(service.unread)}
    data: dict[str, Any] = {
        "look": seen,
        "gpus": gpus if ordinals else [],
        "size": wish.size,
        "source": source,
    }
    data |= {"environment": variables, "runs": [], "shm_bytes": _shm_bytes()}
    tested = [gpu for gpu in seen["gpus"] if gpu["ordinal"] in gpus]
    used = in_use(nvml, tested)
    data["shared"] = bool(used)
    data["busy"] = cramped(nvml, tested) if wish.force and used else used
    turn = Turn(gpu.get("bdf") for gpu in tested)
    data["busy"] += [f"gpu{gpu['ordinal']}: {TAKEN}" for gpu in tested if str(gpu.get("bdf")) in turn.taken]
    return Bench(found.path, variables, data, turn)


def usable(bench: Bench) -> bool:
    """Whether there is a library, a GPU, and nobody else on it."""
    told = bench.data["look"].get("nccl") or {}
    return bool(bench.gpus) and not bench.data["busy"] and int(told.get("version") or 0) >= OLDEST


def copy(bench: Bench, wish: Wish) -> None:
    """Adds ``pairs`` to the data: every ordered pair of this host's GPUs."""
    environ = environment.of_child(bench.variables)
    many = len(bench.gpus) > 1
    bench.tell(f"copies between {len(bench.gpus)} GPUs" if many else "one GPU: no copies between GPUs")
    bench.data["pairs"] = pairs.copy_all(bench.gpus, wish.deadlines.size, environ) if many else []


def measure(bench: Bench, wish: Wish) -> None:
    """Adds ``runs`` to the data."""
    run(bench, wish, "as found", {})
    if len(bench.gpus) < 2 or _right(bench) or _ended_from_outside(bench):
        return
    for name, extra in (("without P2P", WITHOUT_P2P), ("without P2P and SHM", WITHOUT_SHM)):
        run(bench, wish, name, extra)
        if _right(bench):
            return


def run(bench: Bench, wish: Wish, name: str, extra: Mapping[str, str], node: Node | None = None) -> None:
    """One communicator over the GPUs of this host, or over those of all nodes."""
    sizes = sorted({size for size in SUMS if size < wish.size} | {wish.size})
    bench.tell(f"all-reduce over {node.nranks if node else len(bench.gpus)} ranks, {name}")
    order = crew.Order(
        library=bench.library,
        gpus=bench.gpus,
        sizes=sizes,
        seed=secrets.randbits(32) if node is None else 20261129,
        environment={**bench.variables, **extra},
        nranks=node.nranks if node else len(bench.gpus),
        first=node.first if node else 0,
        deadlines=wish.deadlines,
        shared=bench.data["shared"],
        curve=steps(wish.size) if wish.curve else (),
    )
    told = crew.run(order, node.exchange if node else None)
    bench.data["runs"].append({"name": name, "extra": dict(extra), **told})


def steps(size: int) -> list[int]:
    """The sizes from 8 bytes on, each twice the one before, that are smaller than ``size``."""
    return [1 << power for power in range(3, 40) if 1 << power < size]


def longest(deadlines: Deadlines, size: int = 1 << 30, gpus: int = 8, curve: bool = False) -> float:
    """Seconds that a measurement on one host takes at most: every copy hangs, and every rank at the end of a phase."""
    copies = (
        (gpus - 1 + gpus % 2) * 3 * deadlines.size
    )  # a round: both ways of a pair in one child, one again alone
    sums = len(SUMS) + 3 * deadlines.scale(size)  # small ones; the greatest, the paced and the timed ones
    sums += sum(deadlines.scale(step) for step in steps(size)) if curve else 0
    once = 2 * deadlines.start + 2 * deadlines.init + sums * deadlines.size + crew.LEAVE_S + crew.GRACE_S
    return 2 * SEES_S + copies + 3 * once


def _right(bench: Bench) -> bool:
    """Every rank came through and summed rightly. Wrong sums are tried again too: only what is right without P2P shows
    that P2P was the reason."""
    return all(
        rank["done"] and not any(line.get("wrong") for line in rank["told"] if "sum" in line)
        for rank in bench.data["runs"][-1]["ranks"]
    )


def _ended_from_outside(bench: Bench) -> bool:
    """A rank that died or was stopped says nothing about the way between GPUs; another run would seem to."""
    ranks = bench.data["runs"][-1]["ranks"]
    return any(rank["ended"] == "died" or rank["state"] in STOPPED for rank in ranks)


def _loaded(service: Service | None) -> tuple[list[str], list[str]]:
    """libnccl and libcudart that the running engine has loaded; nothing when it may not be looked at."""
    if service is None or service.pid is None:
        return [], []
    try:
        return library.mapped_by(service.pid, "libnccl.so"), library.mapped_by(service.pid, "libcudart.so")
    except BadInput:
        return [], []


def _ask(path: str, runtimes: Sequence[str], variables: Mapping[str, str]) -> dict[str, Any]:
    asked = json.dumps({"library": path, "runtimes": list(runtimes)}) + "\n"
    environ = environment.of_child(variables)
    ended = child.run(child.self_command("_probe", "nccl-look"), SEES_S, asked.encode(), env=environ)
    seen: dict[str, Any] = {"gpus": [], "why": None}
    for raw in ended.stdout.splitlines():
        try:
            line = json.loads(raw)
        except ValueError:
            continue
        if isinstance(line, dict):
            if "gpu" in line:
                seen["gpus"].append(line.pop("gpu"))
            seen |= line
    if ended.timed_out:
        seen["why"] = f"no answer within {SEES_S:g} s, the probe was killed"
    elif ended.code != 0:
        seen["why"] = f"the probe ended with {ended.code}: {ended.stderr[-200:]}"
    return seen


def in_use(nvml: Mapping[str, Any] | None, gpus: Sequence[Mapping[str, Any]]) -> list[str]:
    """Who uses the GPUs, by NVML: the reasons per GPU. Where NVML does not tell, that is a reason too."""
    reasons = []
    for name, device in _by_nvml(nvml, gpus):
        reasons += [f"{name}: {who}" for who in busy.holders(device)]
        if not busy.seen(device):
            reasons.append(f"{name}: NVML does not tell whether anybody uses it")
    return reasons


def cramped(nvml: Mapping[str, Any] | None, gpus: Sequence[Mapping[str, Any]]) -> list[str]:
    """The GPUs in use that have too little memory free to test beside their user, whoever forces it."""
    found = [(name, busy.too_little(device)) for name, device in _by_nvml(nvml, gpus)]
    return [f"{name}: {why}" for name, why in found if why]


def _visible(variables: Mapping[str, str]) -> str:
    shown = variables.get("CUDA_VISIBLE_DEVICES")
    return "" if shown is None else f", of those that CUDA_VISIBLE_DEVICES={shown} lets it see"


def _by_nvml(
    nvml: Mapping[str, Any] | None, gpus: Sequence[Mapping[str, Any]]
) -> list[tuple[str, Mapping[str, Any]]]:
    """NVML's name and view of each GPU of CUDA; an empty view where it has none (a MIG slice, no NVML)."""
    devices = nvml.get("devices") if nvml is not None else None
    listed = [device if isinstance(device, Mapping) else {} for device in devices or ()]
    numbers = {device.get("nvmlDeviceGetUUID"): number for number, device in enumerate(listed)}
    found = []
    for gpu in gpus:
        number = numbers.get(gpu.get("uuid"))
        known = number is not None
        name = f"gpu{number}" if known else f"gpu{gpu.get('ordinal')} ({gpu.get('uuid')})"
        found.append((name, listed[number] if number is not None else {}))
    return found


def _shm_bytes() -> int | None:
    try:
        told = os.statvfs("/dev/shm")
    except OSError:
        return None
    return told.f_blocks * told.f_frsize
