"""Rules that only a baseline can feed: changed settings, another drafter, speculation gone."""

from __future__ import annotations

from checks.serving.drafterdiff import IDS, MASK, ROPE, fields_of, siblings
from checks.serving.evidence import Evidence
from checks.serving.opinion import FITS, SILENT, Opinion, excluded, supported
from checks.serving.signs import Signs, lost_speculation, speed_ratio
from checks.serving.since import (
    accepted_less,
    drafter_changes,
    fall,
    settings_changed,
    suspects,
)

ASK_CONFIGS = "provcheck compare GOOD_RECORD THIS_RECORD: it lists what differs in the drafters' configs"
ASK_WEIGHTS = "the hash of both drafters' weights, and the target revision each was trained on"


def drift(e: Evidence, s: Signs) -> Opinion:
    if e.peer is None or not (s.slow_step or s.slow or s.shorter):
        return SILENT
    changed = settings_changed(e, s)
    if not changed:
        return excluded("no setting that could explain it differs in effect from the baseline's")
    return supported(0.7, "settings differ from the baseline: " + "; ".join(changed[:5]))


def other_drafter(e: Evidence, s: Signs) -> Opinion:
    """Names the difference of two drafters where no single field is the known suspect of a rule of its own."""
    base = e.baseline
    if base is None or not accepted_less(e, s) or suspects(e, s, MASK + ROPE + IDS):
        return SILENT
    told = f"the baseline's drafter is {fall(e)}"
    now = fields_of(e.seen.drafter_config)
    changed = drafter_changes(e)
    if changed:
        words = "; ".join(change.words for change in changed[:8])
        if siblings(base.drafter, now):
            return supported(0.4 if s.dead else 0.75, f"{told}, and the configs differ: {words}", ASK_WEIGHTS)
        return supported(FITS, f"{told}, and is of other sizes ({words}): another make", ASK_WEIGHTS)
    named = base.settings.get("drafter"), e.settings.get("drafter")
    if None in named or named[0] == named[1]:
        return SILENT
    if base.drafter and now:
        because = (
            f"{told}; the configs agree in every field that matters, so the weights differ: no file shows it"
        )
        return supported(0.4 if s.dead else 0.6, because, ASK_WEIGHTS)
    because = f"{told}; its weights or its ids differ, and both configs are not recorded"
    return supported(0.3 if s.dead else FITS, because, ASK_CONFIGS)


def speculation_off(e: Evidence, s: Signs) -> Opinion:
    """What the loss of speculation is worth: tokens/s with it are length / step, without it 1 / token, so the gain is
    the accepted length over the break-even (step / token)."""
    base, ratio = e.baseline, speed_ratio(e)
    if base is None or not lost_speculation(e) or ratio is None or not s.slow:
        return SILENT
    told = f"the baseline speculates ({base.method}{f', k={base.k}' if base.k else ''}), this one does not:"
    told += f" {ratio:.2f}x of its tokens/s"
    token = e.speed.ms_per_step if e.speed else None
    if base.length and base.ms_per_step and token:
        even = base.ms_per_step / token
        told += (
            f"; a draft step of {base.ms_per_step:.1f} ms there yields {base.length:.2f} tokens, a plain token takes"
            f" {token:.1f} ms here: break-even is a length of {even:.2f}, so speculation is worth"
            f" {base.length / even:.2f}x"
        )
    elif base.length:
        told += f"; it accepts a length of {base.length:.2f}"
    return supported(0.6 if s.slow_step else 0.93, told)
