"""The ways in which this engine can be told to fail, each the likeness of a failure that engines have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .model import Model

FAULTS: dict[str, str] = {
    "empty": "answers 200 with an empty text (only end-of-text tokens)",
    "never-ready": "stays at 503, as an engine that never finishes loading",
    "health-only": "answers /health with 200 and every completion with 500 (a dead engine core)",
    "dies": "exits with status 1 at the first completion",
    "crash": "exits with status 1 while starting",
    "memory": "takes memory while starting until it is killed for it",
    "garbage": "repeats one token",
    "slow": "takes 20 times as long for every step; acceptance is untouched (a starved machine)",
    "hang": "takes completions and never answers them; /health stays 200",
    "wrong-answers": "answers as other weights would: other words, other log-probabilities",
    "cut-off": "ends each answer after three tokens, as an engine that aborts its requests",
    "other-tokenizer": "makes other tokens of a text",
    "other-template": "renders a chat otherwise",
}
SLOW_FACTOR = 20.0
MEMORY_STEP = 16 << 20


def take_memory(stop: Callable[[], bool]) -> None:
    """Takes memory, and writes to it, until the process is killed or ``stop`` says so. Raises MemoryError at a limit
    that is the process's own."""
    held = []
    while not stop():
        held.append(b"\1" * MEMORY_STEP)


def faulty(model: Model, fault: str | None) -> Model:
    """The model as a faulty engine has it."""
    if fault == "wrong-answers":
        return replace(model, weights=model.weights + b"other")
    if fault == "other-template":
        return replace(model, template=model.template + b"other")
    if fault == "other-tokenizer":
        return replace(model, tokenizer=model.tokenizer + b"other")
    return model
