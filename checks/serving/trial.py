"""What a measurement of a profile means for it: accepted or refused, and what is remembered of that. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from checks.serving.diagnose import NOTHING

_GREEN = ("pass", "warn")


@dataclass(frozen=True)
class Verdict:
    """``why``: lines, what was measured first; empty when there is nothing to say."""

    accepted: bool
    why: tuple[str, ...]


def judge(
    report: Any, code: int, beats: float | None = None, baseline: Any = None, profile: str | None = None
) -> Verdict:
    """``report``: of ``provcheck serve --json``, None when there is none; ``code``: its exit code; ``beats``: the least
    ratio to the tokens/s of ``baseline`` that counts; ``profile``: digest of what was measured. What could not be
    looked at is refused."""
    if not isinstance(report, dict) or report.get("schema") != "provcheck/1":
        return Verdict(False, (f"the measurement gave no report (exit {code})",))
    findings = [item for item in report.get("findings") or () if isinstance(item, dict)]
    if report.get("verdict") not in _GREEN or code != 0:
        return Verdict(False, _red(report, findings, foreign=_foreign(baseline, profile)))
    odd = tuple(_line(item) for item in findings if item.get("status") == "warn")
    if beats is None:
        return Verdict(True, odd)
    reached, known = tok_s(report), baseline.get("tok_s") if isinstance(baseline, dict) else None
    if not reached or not isinstance(known, (int, float)) or known <= 0:
        what = "of the baseline" if reached else "of this run"
        return Verdict(
            False, (f"whether it is faster is not knowable: there is no decode speed {what}", *odd)
        )
    ratio = reached / known
    told = f"{reached:.1f} tok/s decode, the baseline {known:.1f}: {ratio:.2f}x, {beats:.2f}x is asked for"
    return Verdict(ratio >= beats, (told if ratio >= beats else f"not better than what serves: {told}", *odd))


def stays(before: Any, digest: Any) -> bool:
    """Is the record that is there of another profile, and was that one accepted?"""
    return isinstance(before, dict) and before.get("verdict") == "accepted" and before.get("digest") != digest


def _foreign(baseline: Any, profile: str | None) -> bool:
    """Is the baseline one of another profile? Then a loss against it says nothing about the machine."""
    by = baseline.get("kpro") if isinstance(baseline, dict) else None
    return profile is not None and isinstance(by, dict) and by.get("digest") != profile


def _red(report: dict[str, Any], findings: list[dict[str, Any]], *, foreign: bool) -> tuple[str, ...]:
    """What was measured comes before what it is taken for: where one line is shown, it is the one with the figures."""
    bad = [
        item
        for item in findings
        if item.get("status") in ("fail", "unknown") and item.get("id") != "serve.diagnosis"
    ]
    bad.sort(key=lambda item: (item.get("status") != "fail", item.get("id") != "serve.speed"))
    lines = [_line(item) for item in bad] or [f"the measurement is {report.get('verdict')}"]
    headline = _diagnosis(report, foreign)
    if headline:
        lines.insert(1, f"diagnosis: {headline}")
    return tuple(lines)


def _diagnosis(report: dict[str, Any], foreign: bool) -> str | None:
    diagnosis = (report.get("facts") or {}).get("diagnosis")
    if not isinstance(diagnosis, dict) or diagnosis.get("headline") in (None, "", NOTHING):
        return None
    causes = diagnosis.get("causes")
    first = causes[0] if isinstance(causes, list) and causes else None
    if foreign and isinstance(first, dict) and first.get("family") == "infrastructure":
        return None
    return str(diagnosis["headline"])


def _line(item: dict[str, Any]) -> str:
    return f"{item.get('id')} {item.get('subject')} ({item.get('status')}): {item.get('message')}"


def tok_s(report: Any) -> float | None:
    """Decode tokens/s of one request in a report of ``provcheck serve``."""
    return _fact(report, "speed", "tok_s")


def acceptance(report: Any) -> float | None:
    """Acceptance length in a report of ``provcheck serve``, the bonus token included."""
    return _fact(report, "acceptance", "length")


def reading(report: Any) -> dict[str, Any] | None:
    """The numbers of a report of ``provcheck serve`` that a plot is made of; None when it has no speed. ``tok_s`` and
    ``by_concurrency`` decode tokens/s of one request (by how many there are), ``acceptance`` the mean length,
    ``per_position`` shares, ``ttft_ms`` milliseconds."""
    rate, facts = tok_s(report), report.get("facts") if isinstance(report, dict) else None
    if rate is None or not isinstance(facts, dict):
        return None
    window = facts.get("window")
    window = window if isinstance(window, dict) else {}
    accepted = facts.get("acceptance")
    given: dict[str, Any] = {
        "tok_s": rate,
        "by_concurrency": window.get("tok_s"),
        "acceptance": acceptance(report),
        "per_position": accepted.get("per_position") if isinstance(accepted, dict) else None,
        "ttft_ms": window.get("ttft_ms"),
    }
    return {name: value for name, value in given.items() if value is not None}


def _fact(report: Any, group: str, name: str) -> float | None:
    facts = report.get("facts") if isinstance(report, dict) else None
    found = facts.get(group) if isinstance(facts, dict) else None
    value = found.get(name) if isinstance(found, dict) else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
