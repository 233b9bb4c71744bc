"""What ``--speculative-config`` asks for, and how many drafted tokens this engine then pretends to accept."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from .model import read_json

# True: the method needs a drafter folder.
METHODS = {"ngram": False, "mtp": False, "dflash": True, "eagle3": True, "draft_model": True}
KEYS = {"method", "model", "num_speculative_tokens", "prompt_lookup_max", "prompt_lookup_min", "standin"}
MAX_DRAFT = 64
# Unconditional acceptance by position of a healthy DFlash drafter (block of 8, measured on a tiny model pair
# with vLLM 0.20.1); later positions fall by the last ratio.
HEALTHY = (0.77, 0.61, 0.49, 0.41, 0.31, 0.23, 0.16)
# Time of a step with drafts over a step without: of a large model, 1.2 to 1.6 is expected.
STEP_COST = 1.3


class SpeculationError(ValueError):
    """The speculative configuration is refused; the text says why."""


@dataclass(frozen=True)
class Speculation:
    """``acceptance[i]``: share of drafts whose token ``i`` is accepted; never rising, one per drafted token.

    ``step_cost``: time of a step with drafts over the time of one without.
    """

    method: str
    acceptance: tuple[float, ...]
    step_cost: float

    @property
    def k(self) -> int:
        return len(self.acceptance)

    @property
    def acceptance_length(self) -> float:
        """Expected tokens per step, the bonus token included: 1 + sum of the per-position rates."""
        return 1.0 + sum(self.acceptance)

    def accepted(self, draws: list[float]) -> int:
        """How many leading drafted tokens hold, for ``draws`` in [0, 1), one per position.

        A position counts only if all before it did, so each draw meets the conditional rate p[i] / p[i-1].
        """
        before = 1.0
        for position, (draw, rate) in enumerate(zip(draws, self.acceptance, strict=True)):
            if before <= 0 or draw >= rate / before:
                return position
            before = rate
        return self.k


def parse_speculation(text: str | None) -> Speculation | None:
    """The speculation of ``--speculative-config``; ``None`` without one. Raises ``SpeculationError``.

    The stated probabilities come from the key ``standin`` (``{"acceptance": [...], "step_cost": x}``), of the
    configuration itself or else of the drafter's ``config.json``; without either, from ``HEALTHY``.
    """
    if text is None:
        return None
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        raise SpeculationError("it is not JSON") from None
    if not isinstance(config, dict):
        raise SpeculationError("it is not a JSON object")
    unknown = sorted(set(config) - KEYS)
    if unknown:
        raise SpeculationError(f"unknown key {', '.join(unknown)}; known: {', '.join(sorted(KEYS))}")
    method = config.get("method")
    if not isinstance(method, str) or method not in METHODS:
        raise SpeculationError(f"method {method!r} is none of {', '.join(METHODS)}")
    k = config.get("num_speculative_tokens")
    if type(k) is not int or not 1 <= k <= MAX_DRAFT:
        raise SpeculationError(f"num_speculative_tokens {k!r} is no number from 1 to {MAX_DRAFT}")
    drafter = _drafter(method, config.get("model"))
    stated = config.get("standin", drafter.get("standin", {}))
    if not isinstance(stated, dict) or set(stated) - {"acceptance", "step_cost"}:
        raise SpeculationError("standin takes an object with acceptance and step_cost, nothing else")
    return Speculation(method, _acceptance(stated.get("acceptance"), k), _cost(stated.get("step_cost")))


def _drafter(method: str, model: Any) -> dict[str, Any]:
    if not METHODS[method]:
        return {}
    if not isinstance(model, str):
        raise SpeculationError(f"method {method} needs model=<folder of the drafter>")
    try:
        config = read_json(Path(model) / "config.json")
    except ValueError as error:
        raise SpeculationError(f"drafter {model}: {error}") from None
    block = config.get("dflash_config")
    if method == "dflash" and not (isinstance(block, dict) and type(block.get("mask_token_id")) is int):
        # vLLM refuses this one as well; other wrong fields it takes in silence.
        raise SpeculationError(f"drafter {model}: config.json has no dflash_config.mask_token_id")
    return config


def _acceptance(stated: Any, k: int) -> tuple[float, ...]:
    rates = list(HEALTHY) if stated is None else stated
    if (
        not isinstance(rates, list)
        or not rates
        or not all(type(rate) in (int, float) and 0 <= rate <= 1 for rate in rates)
        or any(later > earlier for earlier, later in pairwise(rates))
    ):
        raise SpeculationError(f"acceptance {rates!r} must be a list of shares from 0 to 1 that never rises")
    ratio = rates[-1] / rates[-2] if len(rates) > 1 and rates[-2] else 0.0
    while len(rates) < k:
        rates = [*rates, rates[-1] * ratio]
    return tuple(float(rate) for rate in rates[:k])


def _cost(stated: Any) -> float:
    if stated is None:
        return STEP_COST
    if type(stated) not in (int, float) or not 0 < stated <= 1000:
        raise SpeculationError(f"step_cost {stated!r} must be a factor above 0")
    return float(stated)
