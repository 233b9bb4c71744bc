"""Every ordered pair of GPUs copied, in rounds of disjoint pairs, each pair in a child with a deadline."""

from __future__ import annotations

import json
import os
import secrets
import selectors
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from checks import child

OUTPUT_LIMIT = 1 << 20
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
    """What became of each ordered pair: see ``told``. ``deadline`` is for one direction, its contexts included.

    A pair's child does both directions; the one that it did not come to, because the other hung, gets a child of its
    own afterwards.
    """
    done: list[dict[str, Any]] = []
    for together in rounds(gpus):
        left = [[(a, b), (b, a)] for a, b in together]
        while left:
            asked = [Asked(ways, deadline * len(ways)) for ways in left]
            _run(asked, environment)
            ended = [(one.ways, told(one, deadline)) for one in asked]
            done += [way for _, ways in ended for way in ways]
            left = [ways[len(came) :] for ways, came in ended if len(came) < len(ways)]
    return sorted(done, key=lambda way: (way["src"], way["dst"]))


@dataclass
class Asked:
    """One child and what it said so far; ``code`` None while it runs, or when it was killed at its deadline."""

    ways: list[tuple[int, int]]
    seconds: float
    out: bytes = b""
    err: bytes = b""
    code: int | None = None
    hung: bool = False


def _run(asked: list[Asked], environment: Mapping[str, str]) -> None:
    """Runs the children side by side, each to its end or its deadline; an interrupt takes them all along."""
    children: list[tuple[Asked, Any, float]] = []
    selector = selectors.DefaultSelector()
    try:
        for one in asked:
            process = child.start(child.self_command("_probe", "nccl-peer"), environment)
            children.append((one, process, time.monotonic() + one.seconds))
            line = {"ways": one.ways, "sizes": SIZES, "seed": secrets.randbits(32)}
            with suppress(OSError):
                os.write(process.stdin.fileno(), (json.dumps(line) + "\n").encode())  # type: ignore[union-attr]
            selector.register(process.stdout, selectors.EVENT_READ, (one, "out"))  # type: ignore[arg-type]
            selector.register(process.stderr, selectors.EVENT_READ, (one, "err"))  # type: ignore[arg-type]
        while selector.get_map():
            now = time.monotonic()
            for one, process, end in children:
                if now >= end and not one.hung:
                    one.hung = process.poll() is None
                    for stream in (process.stdout, process.stderr):
                        with suppress(KeyError):
                            selector.unregister(stream)
            ends = [end - now for _, _, end in children if end > now]
            for key, _ in selector.select(max(0.01, min(ends, default=0.01))):
                one, name = key.data
                if data := os.read(key.fd, 1 << 16):
                    setattr(one, name, (getattr(one, name) + data)[-OUTPUT_LIMIT:])
                else:
                    selector.unregister(key.fileobj)
        for one, process, end in children:
            while not one.hung and process.poll() is None and time.monotonic() < end:
                time.sleep(0.005)  # its pipes are closed: it is ending
    finally:
        for one, process, _ in children:
            one.code = None if one.hung else process.poll()
            child.abandon(process)
        selector.close()


def told(asked: Asked, deadline: float) -> list[dict[str, Any]]:
    """``src``, ``dst``, ``direct`` (peer access), ``copies``; with ``error``, ``hung``, ``after_s`` and ``at`` (source,
    target, copy, check) for the one that broke off, and nothing of those behind it."""
    lines = [_line(raw) for raw in asked.out.splitlines()]
    error = next((str(line["error"]) for line in lines if "error" in line), None)
    if error is None and not asked.hung and asked.code != 0:
        error = f"the probe ended with {asked.code}: {asked.err.decode(errors='replace').strip()[-200:]}"
    found: list[dict[str, Any]] = []
    for src, dst in asked.ways:
        copies = [line for line in lines if line.get("copy") == [src, dst]]
        direct = next((line["direct"] for line in lines if line.get("phase") == f"{src}-{dst}"), None)
        way: dict[str, Any] = {"src": src, "dst": dst, "direct": direct, "copies": copies}
        found.append(way)
        if len(copies) < len(SIZES):
            way |= {"error": error, "hung": asked.hung, "after_s": deadline if asked.hung else None}
            way["at"] = next((line["at"] for line in reversed(lines) if "at" in line), None)
            break
    return found


def _line(raw: bytes) -> dict[str, Any]:
    try:
        line = json.loads(raw)
    except ValueError:
        return {}
    return line if isinstance(line, dict) else {}
