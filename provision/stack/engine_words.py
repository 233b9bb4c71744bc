"""What the command line of an engine says about memory and drafting, as options of ``provcheck fit`` and ``drafter``.

Pure. The words are read as the engine's own parser reads them (abbreviations, ``=``, the last one wins), by the table
of the version or of its next neighbour.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from checks.fit.cache import DTYPES
from checks.flags.read import Reading, read
from checks.flags.table import BUILDS, ENGINES, history, nearest
from provision.data import engines

DRAFTED = {"mtp", "qwen3_next_mtp", "deepseek_mtp", "nextn"}
"""Methods that draft with heads of the target itself (vLLM config/speculative.py; SGLang's NEXTN)."""


@dataclass(frozen=True)
class Names:
    """How one engine spells what matters to memory. ``model_length``: without a length it takes the model's own, and
    refuses to start where that does not fit; else it serves what the memory leaves."""

    context: tuple[str, ...]
    fraction: tuple[str, ...]
    ranks: tuple[str, ...]
    requests: tuple[str, ...]
    batched: tuple[str, ...]
    eager: tuple[str, ...]
    model_length: bool
    source: str


NAMES = {
    "vllm": Names(
        ("--max-model-len",),
        ("--gpu-memory-utilization",),
        ("--tensor-parallel-size", "-tp"),
        ("--max-num-seqs",),
        ("--max-num-batched-tokens",),
        ("--enforce-eager",),
        True,
        "vLLM 0.20.1 and 0.33.0: engine/arg_utils.py; _check_enough_kv_cache_memory of v1/core/kv_cache_utils.py",
    ),
    "sglang": Names(
        ("--context-length",),
        ("--mem-fraction-static",),
        ("--tp-size", "--tensor-parallel-size", "--tp"),
        ("--max-running-requests",),
        (),
        ("--disable-cuda-graph",),
        False,
        "SGLang 0.5.11 srt/server_args.py, 0.5.23 srt/arg_groups; the pool bounds max_total_num_tokens",
    ),
}


@dataclass(frozen=True)
class Said:
    """``context`` in tokens, ``model`` or ``1`` (any); ``drafts`` tokens per draft; ``words``: more options of fit."""

    engine: str
    version: str
    context: str
    drafts: int = 0
    mtp: bool = False
    words: tuple[str, ...] = field(default=())

    @property
    def option(self) -> str:
        return f"{self.engine}=={self.version}"


NAMESPACES = ("VLLM_", "SGLANG_", "SGL_")


def judged(variables: Iterable[str], kind: str) -> list[str]:
    """The engine's own variables for ``provcheck flags``, without their values: that a version reads them is judged,
    and what they hold is nobody's business in an argv. The key's is kpro's own."""
    key = engines.kind_of(kind).key_variable
    return [f"{name}=" for name in sorted(variables) if name.startswith(NAMESPACES) and name != key]


def known(kind: str) -> bool:
    """Is this an engine that provcheck knows anything about?"""
    return BUILDS.get(kind, kind) in ENGINES


def said(kind: str, version: str, command: Sequence[str]) -> Said:
    """Reads the words. Raises ValueError for an engine that is not ``known``."""
    if not known(kind):
        raise ValueError(f"provcheck knows no engine {kind!r}")
    engine = BUILDS.get(kind, kind)
    table_file = history(engine)
    below, above = nearest(table_file, version)
    reading = read(table_file.table(str(below or above)), list(command[1:]))
    names = NAMES[engine]
    words = [
        *_number(reading, names.fraction, "--memory-fraction"),
        *_number(reading, names.requests, "--max-requests"),
        *_number(reading, names.batched, "--max-batched-tokens"),
        *_number(reading, ("--block-size", "--page-size"), "--block-size"),
        *(("--eager",) if reading.has(*names.eager) else ()),
    ]
    ranks = reading.values_of(*names.ranks)
    words += ["--tp", ranks[0] if ranks and ranks[0].isdecimal() else "1"]
    cache = reading.values_of("--kv-cache-dtype")
    # A kind that fit has no size for is counted as the model's own, which is the larger one.
    if cache and cache[0] != "auto" and cache[0] in DTYPES:
        words += ["--kv-cache-dtype", cache[0]]
    method, drafts = _speculation(engine, reading)
    return Said(engine, version, _context(names, reading), drafts, method in DRAFTED, tuple(words))


def _number(reading: Reading, names: Sequence[str], option: str) -> tuple[str, ...]:
    value = (reading.values_of(*names) if names else None) or ("",)
    try:
        float(value[0])
    except ValueError:
        return ()
    return option, value[0]


_UNITS = {"k": 1000, "K": 1 << 10, "m": 1000**2, "M": 1 << 20}
"""vLLM's human_readable_int: small letters are decimal, capitals binary (engine/arg_utils.py)."""


def _context(names: Names, reading: Reading) -> str:
    value = (reading.values_of(*names.context) or ("",))[0]
    number = value[:-1] if value[-1:] in _UNITS else value
    if number.isdecimal() and int(number) > 0:
        return str(int(number) * _UNITS.get(value[-1:], 1))
    if value in ("auto", "-1"):
        return "1"
    return "model" if names.model_length else "1"


def _speculation(engine: str, reading: Reading) -> tuple[str, int]:
    """The method and the tokens per draft; ("", 0) where nothing drafts."""
    if engine == "sglang":
        method = (reading.values_of("--speculative-algorithm") or ("",))[0].lower()
        own = reading.values_of("--speculative-draft-model-path") is None and method in ("eagle", "nextn")
        count = (reading.values_of("--speculative-num-draft-tokens") or ("",))[0]
        return "nextn" if own else method, int(count) if count.isdecimal() else (1 if method else 0)
    config: dict[str, object] = {}
    for given in reading.given:
        if "--speculative-config" in given.option.names:
            config |= {".".join(given.path): given.values[0]} if given.path else _json(given.values[0])
    method, count = str(config.get("method", "")), str(config.get("num_speculative_tokens", ""))
    return method, int(count) if count.isdecimal() else (1 if config else 0)


def _json(text: str) -> Mapping[str, object]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
