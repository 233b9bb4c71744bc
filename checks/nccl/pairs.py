"""Every ordered pair of GPUs copied, in rounds of disjoint pairs, each pair in a child with a deadline."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from checks import child

SIZES = (64 << 10, 64 << 20)
"""Bytes: small enough for one packet's path, and large enough to need the whole path."""


def rounds(gpus: Sequence[int]) -> list[list[tuple[int, int]]]:
    """All unordered pairs in rounds in which no GPU occurs twice (the circle method of tournaments)."""
    places: list[int | None] = [*gpus, *([None] if len(gpus) % 2 else [])]
    found = []
    for _ in range(len(places) - 1):
        half = len(places) // 2
        both = zip(places[:half], reversed(places[half:]))  # noqa: B905 - two halves of one length
        found.append([tuple(sorted((a, b))) for a, b in both if a is not None and b is not None])
        places = [places[0], places[-1], *places[1:-1]]
    return found  # type: ignore[return-value]


def copy_all(gpus: Sequence[int], deadline: float, environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """What became of each ordered pair: see ``way``. ``deadline`` is for one direction, its contexts included."""
    told: list[dict[str, Any]] = []
    for together in rounds(gpus):
        with ThreadPoolExecutor(len(together)) as pool:
            for ways in pool.map(lambda pair: _pair(pair[0], pair[1], deadline, environment), together):
                told += ways
    return sorted(told, key=lambda way: (way["src"], way["dst"]))


def _pair(a: int, b: int, deadline: float, environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """Both directions by one child; the second again by a child of its own if the first took it away."""
    ways = [(a, b), (b, a)]
    told = []
    while ways:
        done = _ask(ways, deadline * len(ways), environment)
        told += done
        ways = ways[len(done) :]
    return told


def _ask(
    ways: list[tuple[int, int]], deadline: float, environment: Mapping[str, str]
) -> list[dict[str, Any]]:
    asked = {"ways": ways, "sizes": SIZES, "seed": secrets.randbits(32)}
    ended = child.run(
        child.self_command("_probe", "nccl-peer"),
        deadline,
        (json.dumps(asked) + "\n").encode(),
        env=environment,
    )
    lines = [_line(raw) for raw in ended.stdout.splitlines()]
    error = next((str(line["error"]) for line in lines if "error" in line), None)
    if error is None and not ended.timed_out and ended.code != 0:
        error = f"the probe ended with {ended.code}: {ended.stderr[-200:]}"
    told = []
    for src, dst in ways:
        copies = [line for line in lines if line.get("copy") == [src, dst]]
        direct = next((line["direct"] for line in lines if line.get("phase") == f"{src}-{dst}"), None)
        way: dict[str, Any] = {"src": src, "dst": dst, "direct": direct, "copies": copies}
        told.append(way)
        if len(copies) < len(SIZES):
            way |= {"error": error, "hung": ended.timed_out, "after_s": deadline if ended.timed_out else None}
            break
    return told


def _line(raw: bytes) -> dict[str, Any]:
    try:
        line = json.loads(raw)
    except ValueError:
        return {}
    return line if isinstance(line, dict) else {}
