"""What each drafter fault costs, as measured, so that a small fault is never blamed for a collapse.

Rows marked ``tiny`` were measured on vLLM 0.20.1 and one H200 with a trained pair (target of 12 layers and
11.5 M parameters, DFlash drafter of 3 layers, block 8, k = 7, greedy, 40 code prompts, 2026-11-29); rows
marked ``loop`` on the same weights in a plain PyTorch loop; ``public`` rows come from the thread named.
Shapes and order of size carry over to large models, absolute numbers do not: one layer is 8 % of the depth
there and 1.6 % of 64 layers.
"""

from __future__ import annotations

from dataclasses import dataclass

HEALTHY_LENGTH = 3.99


@dataclass(frozen=True)
class Effect:
    """``length`` is the mean acceptance length with the bonus token; ``first`` the acceptance of the first
    position.

    ``crash`` says what happens instead where the engine dies. ``ratio`` is wrong theta / right theta for rope
    rows.
    """

    key: str
    what: str
    length: float | None
    first: float | None
    measured: str
    source: str
    crash: str | None = None
    ratio: float | None = None
    note: str = ""

    @property
    def loss(self) -> float | None:
        """Share of the healthy acceptance length that is lost, 0 to 1; None where that was not measured."""
        if self.length is None or self.measured == "public":
            return None
        return max(0.0, 1 - self.length / HEALTHY_LENGTH)

    def sentence(self) -> str:
        """One clause for a message."""
        if self.crash:
            return f"{self.what}: {self.crash} (vLLM 0.20.1)"
        if self.measured == "public":
            return f"{self.what}: {self.note} ({self.source})"
        if self.length is None:
            return f"{self.what}: not measured"
        first = "" if self.first is None else f", first position {self.first:g}"
        return (
            f"{self.what}: acceptance length {self.length:g} instead of {HEALTHY_LENGTH:g}{first} "
            "(measured, small pair)"
        )


_TINY = "vLLM 0.20.1, one H200, small trained pair, 2026-11-29"
_LOOP = "PyTorch fp32 loop, same weights, 2026-11-29"

EFFECTS: tuple[Effect, ...] = (
    Effect("ids_one_early", "every captured layer one early", 3.64, 0.77, "tiny", _TINY),
    Effect(
        "ids_one_early",
        "one early on an 8B target",
        None,
        None,
        "public",
        "vllm#40727",
        note="3.92-4.03 against 4.11-4.16 on mt-bench, 3-5 %",
    ),
    Effect("ids_two_off", "captured layers two off", 2.38, 0.61, "tiny", _TINY),
    Effect("ids_spread_wrong", "embeddings, middle and last layer", 2.11, 0.55, "tiny", _TINY),
    Effect("ids_far", "the last three layers only, the worst set tried", 1.39, 0.28, "tiny", _TINY),
    Effect("ids_reversed_honoured", "list in reverse, order honoured", 1.41, None, "loop", _LOOP),
    Effect("rope", "theta 10 times too low", 2.49, 0.76, "tiny", _TINY, ratio=0.1),
    Effect("rope", "theta 10 times too high", 2.43, 0.80, "tiny", _TINY, ratio=10.0),
    Effect("rope", "theta 100 times too high", 1.84, 0.67, "tiny", _TINY, ratio=100.0),
    Effect("rope", "theta 100 times too low", 1.61, 0.45, "tiny", _TINY, ratio=0.01),
    Effect("rope", "theta 1000 times too low", 1.13, 0.12, "loop", _LOOP, ratio=0.001),
    Effect("mask_unused", "another unused id as mask", 1.11, 0.089, "tiny", _TINY),
    Effect("mask_ordinary", "a common token as mask", 1.11, 0.108, "tiny", _TINY),
    Effect("mask_eos", "end-of-text as mask", 1.10, 0.090, "tiny", _TINY),
    Effect(
        "mask_range",
        "mask id beyond the vocabulary",
        None,
        None,
        "tiny",
        _TINY,
        crash="starts, /health is 200, the first request ends in a device-side assert and Xid 43 in the "
        "kernel log",
    ),
    Effect(
        "mask_missing",
        "no mask id",
        None,
        None,
        "tiny",
        _TINY,
        crash="the engine refuses to start with a ValueError",
    ),
    Effect(
        "ids_count",
        "ids that do not match fc (beyond the last layer, twice, none)",
        None,
        None,
        "tiny",
        _TINY,
        crash="starts, /health is 200, the first request ends in 'mat1 and mat2 shapes cannot be multiplied'",
    ),
    Effect(
        "vocab_large",
        "vocabulary larger than the target's",
        None,
        None,
        "tiny",
        _TINY,
        crash="starts, /health is 200, the first request ends in 'shape mismatch'",
    ),
    Effect("vocab_small", "vocabulary of 3000 instead of 4096", 3.84, 0.75, "tiny", _TINY),
    Effect("fc_missing", "fc.weight missing", 1.04, 0.037, "tiny", _TINY),
    Effect("attention_missing", "attention of a layer missing", 1.04, 0.037, "tiny", _TINY),
    Effect("mlp_missing", "MLP of the last layer missing", 3.21, 0.70, "tiny", _TINY),
    Effect("norm_missing", "hidden_norm.weight missing", 3.94, 0.77, "tiny", _TINY),
    Effect("layers_swapped", "two layers swapped", 1.07, 0.064, "tiny", _TINY),
    Effect("untrained", "untrained weights", 1.004, 0.004, "tiny", _TINY),
    Effect("wrong_target", "a healthy drafter of another target", 1.004, 0.004, "tiny", _TINY),
    Effect("k_long", "k 15 with a block of 8", 3.62, 0.77, "tiny", _TINY),
    Effect("k_short", "k 3 with a block of 8", 3.03, 0.80, "tiny", _TINY),
    Effect("k_short", "k 1 with a block of 8", 1.84, 0.84, "tiny", _TINY),
    Effect("guess", "guessed ids, wrong mask and theta missing together", 1.08, 0.077, "tiny", _TINY),
    Effect(
        "window",
        "sliding layers run as full attention",
        None,
        None,
        "public",
        "AEON-7/Qwen3.6-27B-AEON-Ultimate-Uncensored-DFlash#6",
        note="per position .600 .385 .215 .108 .062 then 0 beyond the window; harmless below it "
        "(4.4-4.5, club-3090)",
    ),
    Effect(
        "mtp_lost",
        "multi-token-prediction weights not loaded",
        None,
        None,
        "public",
        "sglang#35797",
        note="acceptance length exactly 1.000, 30.7 instead of 248 tok/s",
    ),
)


def effect(key: str) -> Effect:
    """The first row of that key. Raises KeyError for a key that no row has."""
    for row in EFFECTS:
        if row.key == key:
            return row
    raise KeyError(key)


def rope_effect(ratio: float) -> Effect:
    """The measured row nearest to this wrong / right ratio, by order of magnitude and on the same side of
    1."""
    from math import log10

    rows = [row for row in EFFECTS if row.ratio is not None and (row.ratio < 1) == (ratio < 1)]
    return min(rows, key=lambda row: abs(log10(row.ratio or 1) - log10(ratio)))
