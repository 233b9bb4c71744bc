"""Rules about the drafter: its weights, its config, its pairing. Each answers for one cause of the table.

The bands of position-0 acceptance are those measured on vLLM 0.20.1: below 0.01 untrained, foreign or no weights;
0.03-0.07 tensors missing or mixed; 0.08-0.12 mask token or a rope 1000x off, which metrics cannot tell apart.
"""

from __future__ import annotations

from checks.model import Status
from checks.serving.drafterdiff import MASK, ROPE
from checks.serving.evidence import Evidence, prompts_of
from checks.serving.opinion import (
    ASK_CONTEXT,
    ASK_DRAFTER,
    DIRECT,
    FITS,
    POSSIBLE,
    SIGNATURE,
    SILENT,
    Opinion,
    excluded,
    supported,
)
from checks.serving.rules_bands import NEARLY, band_of, bordering, errors_of, healthy, layered
from checks.serving.rules_layers import off_family
from checks.serving.signs import Signs
from checks.serving.since import proven_by_baseline, suspects

FALLS = 0.4
"""Share of the first tokens that a second follows, under which a mask token can be at fault though position 0 lives: a
near one left 0.23, a rope 10x off 0.6."""

ASK_MASK = "the mask_token_id of the drafter's publisher, or a baseline of this drafter's good config"


def mask_faults(e: Evidence, s: Signs) -> list[str]:
    """What cannot be right about the mask token; a config read without its target is held against itself."""
    d = e.drafter
    if not d.present or not layered(e):
        return []
    found: list[str] = []
    mask, vocab = d.config.mask, d.config.vocab
    if e.log.mask_token_id is not None and mask is not None and e.log.mask_token_id != mask:
        found.append(f"the engine drafts with mask token {e.log.mask_token_id}, the config says {mask}")
    found += d.told(("drafter.mask",), (Status.FAIL,), healthy=healthy(e, s))
    if not d.target_known and mask is not None and vocab is not None and mask >= vocab:
        found.append(f"mask_token_id {mask} is not below the config's own vocab_size {vocab}")
    return found


def mask_token(e: Evidence, s: Signs) -> Opinion:
    if not layered(e):
        return SILENT
    if "mask_missing" in errors_of(e):
        return supported(DIRECT + 0.03, "the engine refused to start and named the field")
    faults = mask_faults(e, s)
    if s.died and faults and errors_of(e) & {"device_assert", "mask_range"}:
        return supported(DIRECT + 0.03, f"{faults[0]}, and the first request met an index out of bounds")
    if faults and s.dead:
        return supported(DIRECT, faults[0])
    if stated := e.drafter.told(("drafter.mask",), (Status.FAIL,), healthy=healthy(e, s)):
        return supported(DIRECT if s.poor_acceptance else SIGNATURE, stated[0])
    if s.first is None or not s.enough:
        return SILENT
    if right := mask_right(e):
        return excluded(right)
    band = band_of(s.first)
    if told := suspects(e, s, MASK):
        return supported(FITS if band == "gone" else 0.9, told)
    if not s.dead:
        return _mask_alive(e, s)
    if band == "mask":
        return supported(
            SIGNATURE, f"position 0 accepts {s.first:.3f}: wrong mask tokens gave 0.09-0.11", ASK_DRAFTER
        )
    if band == "tensors":
        return supported(
            NEARLY if bordering(s.first) else FITS,
            f"position 0 accepts {s.first:.3f}, a little under what a wrong mask token leaves",
            ASK_DRAFTER,
        )
    return excluded(f"position 0 accepts {s.first:.3f}; a wrong mask token still leaves 0.09")


def mask_right(e: Evidence) -> str:
    """Why the mask token is right: a published relative has it, or the baseline's drafter works with it."""
    d = e.drafter
    known = d.case.expected.mask if d.case and d.dflash else None
    if known is not None and known.confirmed and known.value == d.config.mask:
        return f"mask_token_id {known.value} is that of {known.source}"
    return proven_by_baseline(e, MASK[0])


def _mask_alive(e: Evidence, s: Signs) -> Opinion:
    """A position 0 that lives excuses a mask token only where the rest of the curve lives too: the embedding of
    another unused id can be near enough for the first token."""
    chain = e.curve.conditionals if e.curve else ()
    if not s.cliff or len(chain) < 2 or chain[1] >= FALLS:
        return excluded(
            f"position 0 accepts {s.first or 0:.2f} and the next ones follow; a wrong mask token leaves at most 0.12"
            " there, or nothing behind it"
        )
    if told := rope_against_target(e, s) or silent_rope(e):
        return excluded(f"the rope explains this curve: {told}")
    shape = (
        "position 0 lives and hardly anything behind it: another unused id as mask token left 0.74/0.17/0.07"
    )
    if rope_right(e):
        return supported(0.6, f"{shape}, and the rope is right", ASK_MASK)
    return supported(POSSIBLE, shape, ASK_MASK)


def rope_right(e: Evidence) -> str:
    """Whose rope_theta this drafter rightly has; empty when that is not known, or it has another."""
    d = e.drafter
    right = d.case.expected.theta if d.case and d.dflash else None
    if right is not None and not d.told(("drafter.rope",), (Status.FAIL,)):
        return f"rope_theta {right.value:g} is that of {right.source}"
    return proven_by_baseline(e, "rope_theta")


def rope_against_target(e: Evidence, s: Signs) -> str | None:
    """How the drafter's rope_theta differs from the one it was trained with, where somebody says that."""
    if not e.drafter.dflash:
        return None
    return next(iter(e.drafter.told(("drafter.rope",), (Status.FAIL,), healthy=healthy(e, s))), None)


def silent_rope(e: Evidence) -> str | None:
    """What an absent rope_theta becomes, where nobody says which was trained."""
    d = e.drafter
    if not d.present or d.config.theta is not None:
        return None
    return f"no rope_theta, so it silently is {d.silent_theta:g}"


def rope(e: Evidence, s: Signs) -> Opinion:
    d = e.drafter
    if not s.enough or (s.first is None and not d.present):
        return SILENT
    if differs := rope_against_target(e, s):
        return supported(DIRECT if s.poor_acceptance or s.first is None else SIGNATURE, differs)
    if changed := suspects(e, s, ROPE):
        return supported(FITS if band_of(s.first) == "gone" else 0.9, changed)
    if right := rope_right(e):
        return excluded(right)
    told = silent_rope(e)
    if s.cliff:
        shape = "each position is accepted worse than the one before, from the start"
        return supported(DIRECT if told else 0.85, f"{shape}; {told}" if told else shape, ASK_DRAFTER)
    if s.dead and band_of(s.first) in ("mask", "tensors"):
        weight = SIGNATURE if band_of(s.first) == "mask" else NEARLY if bordering(s.first) else FITS
        because = f"position 0 accepts {s.first:.3f}: a rope_theta 1000x too small gave 0.12 and then nothing"
        return supported(weight, f"{because}; {told}" if told else because, ASK_DRAFTER)
    if told and s.weak:
        return supported(0.85, told, ASK_DRAFTER)
    if s.dead:
        return excluded(f"position 0 accepts {s.first:.3f}; a wrong rope leaves at least 0.1 there")
    if s.cut:
        return supported(POSSIBLE, "the curve breaks off, though late and suddenly", ASK_DRAFTER)
    if told and not s.poor_acceptance:
        return SILENT
    return excluded(
        "the conditional acceptance stays even; a wrong rope makes each position worse than the one before"
    )


def vocab_faults(e: Evidence) -> list[str]:
    """What cannot be right about the vocabulary; read without its target, the config's own mask token counts."""
    d = e.drafter
    if not d.present:
        return []
    if d.target_known:
        return d.told(("drafter.vocab",), (Status.FAIL,))
    if d.config.vocab is None:
        becomes = d.config.effective_vocab
        return [f"no vocab_size, so it silently is {becomes}"] if layered(e) and becomes else []
    if d.config.mask is not None and d.config.mask >= d.config.vocab:
        return [
            f"vocab_size {d.config.vocab} does not reach the config's own mask_token_id {d.config.mask}: ids"
            " beyond it can never be proposed"
        ]
    return []


def vocab(e: Evidence, s: Signs) -> Opinion:
    for error in e.log.errors:
        if error.row == "vocab_width" and len(error.numbers) == 4:
            return supported(
                DIRECT + 0.03,
                f"the engine died at the first request: {error.numbers[1]} logits against {error.numbers[3]}",
            )
    faults = vocab_faults(e)
    if faults and s.died:
        return supported(0.9, faults[0])
    if faults:
        return supported(0.6 if s.dead else 0.9, faults[0])
    return SILENT


def several_at_once(e: Evidence, s: Signs) -> Opinion:
    doubts = sum(
        bool(part)
        for part in (
            mask_faults(e, s),
            vocab_faults(e),
            off_family(e),
            rope_against_target(e, s) or silent_rope(e),
        )
    )
    if not s.dead or band_of(s.first) not in ("mask", "tensors") or doubts < 2:
        return SILENT
    return supported(
        0.7,
        f"{doubts} fields are doubtful at once; they hide each other, so mending one shows no movement: lint"
        " all of them first",
        ASK_DRAFTER,
    )


def _bad_only_long(e: Evidence) -> str | None:
    """A length far under that of the same prompts without a preamble; None when that was not measured or is not so."""
    base, context = e.baseline, e.window.get("context")
    if not context or base is None or not base.length or e.acceptance is None or base.method != e.method:
        return None
    if (prompts_of(e) or "").partition("@")[0] != base.prompts or e.acceptance.length > 0.8 * base.length:
        return None
    return (
        f"length {e.acceptance.length:.2f} after {context} tokens of context, {base.length:.2f} without: fine"
        " short, bad long"
    )


def window(e: Evidence, s: Signs) -> Opinion:
    d = e.drafter
    if "mixed_attention" in errors_of(e):
        return supported(DIRECT + 0.03, "the engine refuses windowed and full layers mixed on the V1 runner")
    if because := d.windows_ignored:
        if s.dead:
            return supported(0.35, f"{because}; that bites beyond the window and does not kill position 0")
        return supported(DIRECT if s.cut or s.cliff or s.weak or s.shorter else 0.6, because)
    if drop := _bad_only_long(e):
        return supported(SIGNATURE, drop)
    if (
        s.shorter
        and e.baseline
        and e.mean_prompt
        and e.baseline.prompt_tokens
        and e.mean_prompt > 4 * e.baseline.prompt_tokens
    ):
        return supported(
            SIGNATURE,
            f"prompts of {e.mean_prompt:.0f} tokens against the baseline's {e.baseline.prompt_tokens:.0f}: "
            "fine short, bad long",
            ASK_CONTEXT,
        )
    if s.cut and not d.config.sliding_layers and d.present:
        return excluded("the drafter has no windowed layers")
    if s.cut or (s.cliff and not d.present):
        return supported(
            FITS if s.cut else POSSIBLE, "the curve breaks off, as with windowed layers run full", ASK_DRAFTER
        )
    if (s.weak or s.below_reference) and (e.mean_prompt or 0) > 16_000:
        return supported(
            FITS,
            f"prompts of {e.mean_prompt:.0f} tokens: acceptance falls beyond a window",
            ASK_CONTEXT,
        )
    return SILENT
