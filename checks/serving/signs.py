"""What is wrong, before why: the symptoms of one run."""

from __future__ import annotations

from dataclasses import dataclass

from checks.data.references import reference_for
from checks.serving.evidence import Evidence
from checks.serving.hostcost import host_cost
from checks.serving.limits import MIN_PASSIVE_DRAFTS
from checks.serving.measured import SEQUENTIAL
from checks.serving.shape import DEAD_BELOW, Shape, is_weak


@dataclass(frozen=True)
class Signs:
    """``first`` is the acceptance of position 0, or its upper bound ``length - 1`` where only a mean is known."""

    enough: bool = True
    died: bool = False
    refused: bool = False
    dead: bool = False
    cliff: bool = False
    cut: bool = False
    weak: bool = False
    below_reference: bool = False
    shorter: bool = False
    slow_step: bool = False
    slow: bool = False
    net_loss: bool = False
    not_speculating: bool = False
    first: float | None = None

    @property
    def poor_acceptance(self) -> bool:
        return self.dead or self.cliff or self.cut or self.weak or self.below_reference or self.shorter

    @property
    def any(self) -> bool:
        return (
            self.died
            or self.refused
            or self.poor_acceptance
            or self.slow_step
            or self.slow
            or self.net_loss
            or self.not_speculating
        )


def signs_of(e: Evidence) -> Signs:
    """The symptoms in this evidence; acceptance is judged only from enough drafts (200, any number for passive)."""
    rows = {error.row for error in e.log.errors}
    refused = bool(rows & {"start_failed", "mask_missing", "mixed_attention"}) and not e.log.health_ok
    died = (
        bool(rows & {"engine_dead", "scheduler_died", "fc_width", "vocab_width", "device_assert"})
        or e.log.request_failed
    )
    base: dict[str, object] = {
        "died": died and not refused,
        "refused": refused,
        "slow_step": _slow_step(e),
        "slow": _slow(e),
        "net_loss": e.off_ratio is not None and e.off_ratio < 1.0,
        "not_speculating": not_speculating(e),
    }
    accepted = e.acceptance
    if accepted is None or e.lookup:
        return Signs(**base)  # type: ignore[arg-type]
    needed = MIN_PASSIVE_DRAFTS if e.seen.passive else e.limits.drafts
    enough = accepted.drafts is None or accepted.drafts >= needed
    first = accepted.first if accepted.first is not None else max(0.0, accepted.length - 1.0)
    if not enough:
        return Signs(**base, enough=False, first=first)  # type: ignore[arg-type]
    shape = e.curve.shape if e.curve else None
    dead = first < DEAD_BELOW
    weak = shape is Shape.WEAK or (
        shape is None and not dead and is_weak(accepted.length, accepted.k or 3, None)
    )
    reference = reference_for(str(e.settings.get("model") or ""), e.method, accepted.k)
    return Signs(
        **base,  # type: ignore[arg-type]
        dead=dead,
        cliff=shape is Shape.CLIFF,
        cut=shape is Shape.CUT,
        weak=weak,
        below_reference=reference is not None and accepted.length < reference.floor,
        shorter=(length_ratio(e) or 1.0) < length_limits(e)[1],
        first=first,
    )


def length_ratio(e: Evidence) -> float | None:
    """Acceptance length against the baseline's, of one method and draft length only."""
    base = e.baseline
    if (
        base is None
        or not base.length
        or e.acceptance is None
        or base.method != e.method
        or not e.same_prompts
    ):
        return None
    if base.k is not None and e.k is not None and base.k != e.k:
        return None
    return e.acceptance.length / base.length


def length_limits(e: Evidence) -> tuple[float, float]:
    """(fail, warn) for the length against the baseline. Live traffic against fixed prompts is never a failure: other
    texts have other lengths."""
    if e.like_prompts:
        return e.limits.length_fail, e.limits.length_warn
    return 0.0, e.limits.length_fail


def speed_ratio(e: Evidence) -> float | None:
    """Decode tokens/s at concurrency 1 against the baseline's, whatever engine that was."""
    if e.baseline is None or not e.baseline.tok_s or e.speed is None:
        return None
    return e.speed.tok_s / e.baseline.tok_s


def not_speculating(e: Evidence) -> bool:
    """Speculation was asked for and the running engine shows none."""
    asked = e.settings.speculation is True or bool(e.wanted.get("method"))
    counted = e.spec_counted or not (e.seen.after or e.log.statistics)
    return asked and not counted and e.settings.engine != "sglang"


def lost_speculation(e: Evidence) -> bool:
    """The baseline speculates, and this run is known not to, by its settings or by a page without such counters."""
    base = e.baseline
    if base is None or not base.speculation or e.spec_counted or e.settings.speculation is True:
        return False
    return e.settings.speculation is False or bool(e.seen.after and e.page_dialect == "vllm")


def token_over_step(e: Evidence) -> float | None:
    """The time of a plain token here over that of a whole draft step of the baseline, where only the baseline
    speculates. A draft step contains a pass of the target, so more than 1 is the machine's or the engine's."""
    base = e.baseline
    if base is None or not lost_speculation(e) or base.engine != e.settings.engine:
        return None
    if not base.ms_per_step or e.speed is None or not e.speed.ms_per_step:
        return None
    return e.speed.ms_per_step / base.ms_per_step


def _slow_step(e: Evidence) -> bool:
    """Slow against the peer baseline, where there is one; else against speculation off, or for a model this small."""
    over = token_over_step(e)
    if over is not None:
        return over > e.limits.step_warn
    if e.step_ratio is not None:
        return e.step_ratio > e.limits.step_warn
    cost = host_cost(e)
    return _impossible_break_even(e) or (cost is not None and cost.starved)


def _slow(e: Evidence) -> bool:
    ratio = speed_ratio(e)
    return ratio is not None and ratio < e.limits.speed_warn


def _impossible_break_even(e: Evidence) -> bool:
    """A parallel drafter whose step costs more than k+1 plain tokens: no acceptance could ever pay for that, and one
    extra pass of a small drafter cannot cost it either."""
    if e.break_even is None or e.k is None or e.method in SEQUENTIAL:
        return False
    return e.k >= 3 and e.break_even > e.k + 1
