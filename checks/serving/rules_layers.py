"""Rules about captured layers: which ones, in which counting, how many. Metrics show them as an even, lower curve."""

from __future__ import annotations

from checks.model import Status
from checks.serving.drafterdiff import IDS
from checks.serving.evidence import Evidence
from checks.serving.opinion import (
    ASK_DRAFTER,
    ASK_LOG,
    DIRECT,
    FITS,
    POSSIBLE,
    SILENT,
    Opinion,
    excluded,
    supported,
    unknown,
)
from checks.serving.rules_bands import healthy, layered
from checks.serving.signs import Signs
from checks.serving.since import suspects


def layer_ids(e: Evidence, s: Signs) -> Opinion:
    if not layered(e) or layer_faults(e):
        return SILENT
    wanted, used = e.drafter.trained, e.log.layers
    depth = e.drafter.case.goal.layers if e.drafter.case else None
    if wanted and used:
        if sorted(used) == sorted(wanted):
            if changed := _changed(e, s):
                return supported(0.4 if s.dead else 0.9, changed)
            unusual = off_family(e)
            if unusual and s.poor_acceptance:
                return supported(0.4 if s.dead else 0.6, unusual, ASK_DRAFTER)
            return excluded(f"the engine captures {_list(used)}, as the config asks")
        if all_one_early(wanted, used):
            unusual = off_family(e)
            return (
                supported(0.4 if s.dead else FITS, unusual, ASK_DRAFTER)
                if unusual and s.poor_acceptance
                else SILENT
            )
        if len(used) != len(wanted) or len(set(used)) != len(used) or (depth and max(used) > depth):
            return SILENT
        if healthy(e, s) and sorted(used) == sorted(e.drafter.meant or ()):
            return supported(POSSIBLE, f"{off_family(e)}; the numbers are healthy all the same", ASK_DRAFTER)
        because = f"the engine captures {_list(used)}, this drafter wants {_list(wanted)}"
        return supported(0.4 if s.dead else DIRECT, because)
    if used is None and (changed := _changed(e, s)):
        return supported(0.4 if s.dead else 0.9, changed)
    if s.dead:
        unusual = off_family(e)
        if unusual:
            return supported(
                0.4, f"{unusual}; wrong ids alone never went below a length of 1.39", ASK_DRAFTER
            )
        return unknown("the layers really captured are not in this record", ASK_LOG)
    if s.weak or s.shorter or s.below_reference:
        unusual = off_family(e)
        if unusual:
            return supported(FITS, unusual, ASK_LOG)
        return supported(0.35, "wrong layer ids bend the whole curve down evenly, as here", ASK_LOG)
    return SILENT


def _changed(e: Evidence, s: Signs) -> str:
    """Other ids than in the baseline's drafter, which is accepted better; not where the same layers are captured."""
    same = e.log.layers is not None and e.baseline is not None and e.log.layers == e.baseline.layers
    return "" if same else suspects(e, s, IDS)


def off_family(e: Evidence) -> str | None:
    """How the file's ids differ from those of a published relative, or from the usual spacing."""
    return next(iter(e.drafter.told(("drafter.ids_family",))), None)


def all_one_early(wanted: tuple[int, ...], used: tuple[int, ...]) -> bool:
    """Whether each captured layer lies one before the wanted one."""
    return len(wanted) == len(used) and all(
        a - b == 1 for a, b in zip(sorted(wanted), sorted(used), strict=True)
    )


def one_early(e: Evidence, s: Signs) -> Opinion:
    wanted, used = e.drafter.meant, e.log.layers
    if not layered(e) or not wanted:
        return SILENT
    if used is not None and not all_one_early(wanted, used):
        return SILENT
    if used is None and not e.drafter.unshifted:
        return SILENT
    cost = "3-5 % on an 8B model, 9 % on a 12-layer one"
    told = f"captures {_list(used)}" if used else "reads the ids as they are"
    because = (
        f"vLLM {e.settings.version or ''} {told}, one layer before the trained {_list(wanted)} in the"
        " engine's counting"
    )
    if s.dead:
        return supported(0.15, f"{because}; that costs {cost}, never this much")
    return supported(0.9 if s.poor_acceptance else 0.7, f"{because}; that costs {cost}")


def layer_count(e: Evidence, s: Signs) -> Opinion:
    for error in e.log.errors:
        if error.row == "fc_width" and len(error.numbers) == 4:
            have, want = int(error.numbers[1]), int(error.numbers[2])
            hidden = e.drafter.config.hidden
            counted = (
                f" = {have // hidden} captured layers where {want // hidden} are needed"
                if hidden and not have % hidden
                else ""
            )
            return supported(
                DIRECT + 0.03,
                f"the engine died at the first request: {have} features against fc width {want}{counted}",
            )
        if error.row in ("aux_count", "layer_range"):
            return supported(DIRECT + 0.03, error.line[-160:])
    faults = layer_faults(e)
    if faults:
        return supported(DIRECT, faults[0])
    return SILENT


def layer_faults(e: Evidence) -> list[str]:
    """Layer ids that cannot work: none, duplicate, beyond the last layer, or another number than fc takes."""
    if not e.drafter.present or not layered(e):
        return []
    return e.drafter.told(("drafter.ids_read", "drafter.ids_count", "drafter.ids_range"), (Status.FAIL,))


def _list(ids: tuple[int, ...]) -> str:
    return "[" + ", ".join(str(number) for number in ids[:16]) + "]"
