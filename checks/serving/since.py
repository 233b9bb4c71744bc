"""What is otherwise than in the baseline: settings in effect, the drafter, whether there is speculation at all. Pure.

A trial runs beside what it is measured against, so its folders, port and name differ by design: a path is told as
context and is never a cause. A setting counts where it can explain what is seen.
"""

from __future__ import annotations

from typing import Any

from checks.data.settings_map import SETTINGS
from checks.serving.drafterdiff import Change, changes, fields_of, siblings
from checks.serving.evidence import Evidence
from checks.serving.signs import Signs, lost_speculation

_PLACES = {"drafter": "drafter", "model": "model"}
"""Settings that name a place; what lies there may be the same."""

_BETWEEN_GPUS = frozenset({"custom_all_reduce", "env.NCCL_P2P_DISABLE", "env.NCCL_SHM_DISABLE"})
_ACCEPTANCE = frozenset({"quantization", "attention_backend", "runner", "spec_v2"})
"""Settings that can change which tokens are accepted; the others of weight change only the time of a step."""

_NOTHING = ("", "0", "none", "false", "auto")
HEALTHY = 1.5
"""Length from which on a baseline shows that its drafter works."""


def settings_changed(e: Evidence, s: Signs) -> list[str]:
    """Settings of weight that differ in effect from those of a baseline of the same engine and method, and can explain
    what is seen. CUDA graphs are left to their own rule."""
    base = e.peer
    timed = s.slow_step or (s.slow and not s.poor_acceptance)
    if base is None or not (timed or s.poor_acceptance):
        return []
    return [
        f"{row.meaning}: {base.settings[row.key]} -> {e.settings.get(row.key)}"
        for row in SETTINGS
        if row.effect >= 2
        and row.key not in _PLACES
        and row.key != "cuda_graphs"
        and row.key in base.settings
        and row.key in e.settings.values
        and (timed or row.key in _ACCEPTANCE)
        and _worse(e, row.key, base.settings[row.key], e.settings.get(row.key))
    ]


def _worse(e: Evidence, key: str, was: Any, now: Any) -> bool:
    """Whether a change can cost anything here: more CPUs do not, and one GPU has nobody to talk to."""
    if _plain(was) == _plain(now):
        return False
    if key in _BETWEEN_GPUS and e.settings.get("tp") == 1 and (e.settings.get("pp") or 1) == 1:
        return False
    if key in ("custom_all_reduce", "overlap"):
        return now is False
    if key == "cpus" and isinstance(was, int) and isinstance(now, int):
        return now < was
    return True


def _plain(value: Any) -> str:
    text = str(value).lower()
    return "" if text in _NOTHING else text


def drafter_changes(e: Evidence) -> tuple[Change, ...]:
    """Fields of the drafter's config that matter and differ from the baseline's; empty when one is not recorded."""
    return changes(e.baseline.drafter, fields_of(e.seen.drafter_config)) if e.baseline else ()


def accepted_less(e: Evidence, s: Signs) -> bool:
    """Whether this run's drafts are accepted clearly less than those of a baseline of the same engine and method."""
    base = e.baseline
    if base is None or e.acceptance is None or e.lookup or not s.enough or not base.length:
        return False
    same = base.engine == e.settings.engine and base.method == e.method
    return same and (s.shorter or (s.dead and base.length >= HEALTHY))


def suspect_words(e: Evidence, s: Signs, fields: tuple[str, ...]) -> str:
    """How these fields differ from those of the baseline's drafter, of one make and accepted better; or empty."""
    base = e.baseline
    if base is None or not accepted_less(e, s):
        return ""
    if not siblings(base.drafter, fields_of(e.seen.drafter_config)):
        return ""
    return "; ".join(change.words for change in drafter_changes(e) if change.field in fields)


def suspects(e: Evidence, s: Signs, fields: tuple[str, ...]) -> str:
    """The same as a reason, with what the change goes along with; or empty."""
    words = suspect_words(e, s, fields)
    return f"otherwise than in the baseline's drafter ({words}), which is {fall(e)}" if words else ""


def proven_by_baseline(e: Evidence, field: str) -> str:
    """That a field has the value with which the baseline's drafter works on this engine's version; else empty."""
    base, now = e.baseline, fields_of(e.seen.drafter_config)
    if base is None or base.engine != e.settings.engine or base.version != e.settings.version:
        return ""
    if base.method != e.method or (base.length or 0) < HEALTHY or field not in base.drafter:
        return ""
    if base.drafter[field] != now.get(field) or not siblings(base.drafter, now):
        return ""
    return f"{field} is that of the baseline's drafter, which reaches {base.length:.2f}"


def fall(e: Evidence) -> str:
    """How much better the baseline's drafts are accepted, and from which position on (counted from 0)."""
    base, seen = e.baseline, e.acceptance
    if base is None or seen is None or not base.length:
        return ""
    told = f"accepted at a length of {base.length:.2f}, this one {seen.length:.2f}"
    told += f" ({1 - (seen.length - 1) / max(base.length - 1, 1e-9):.0%} fewer drafts accepted"
    pairs = [pair for pair in zip(base.positions, seen.positions, strict=False) if pair[0] >= 0.02]
    lower = [now < 0.8 * was for was, now in pairs]
    if lower and all(lower):
        told += ", at every position"
    elif True in lower:
        at = lower.index(True)
        told += f", from position {at} on: {pairs[at][1]:.3f} against {pairs[at][0]:.3f}"
    return told + ")"


def context_of(e: Evidence) -> tuple[str, ...]:
    """What a reader of the comparison must know, though it is no cause by itself."""
    found: list[str] = []
    base = e.baseline
    if base is None:
        if e.off is not None and e.spec_counted:
            found.append("the baseline does not speculate, this one does")
        return tuple(found)
    for key, word in _PLACES.items():
        was, now = base.settings.get(key), e.settings.get(key)
        if was and now and was != now:
            found.append(f"another {word} than the baseline's: {was} -> {now}")
    if differ := drafter_changes(e):
        found.append("the drafters' configs differ: " + "; ".join(change.words for change in differ[:8]))
    if lost_speculation(e):
        found.append("the baseline speculates, this one does not")
    elif e.spec_counted and base.method and (base.method, base.k or e.k) != (e.method, e.k):
        found.append(f"the baseline speculates by {base.method}, k={base.k}, this one by {e.method}, k={e.k}")
    return tuple(found)
