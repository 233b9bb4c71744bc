"""Findings about speed: against a baseline, against speculation off, and the time of one step."""

from __future__ import annotations

from checks.model import Finding, Status
from checks.serving.evidence import Evidence
from checks.serving.hostcost import host_cost
from checks.serving.limits import Limits
from checks.serving.measured import SEQUENTIAL
from checks.serving.opinion import ASK_BASELINE, ASK_OFF, Stance
from checks.serving.rules_engine import draft_cost
from checks.serving.signs import Signs, speed_ratio


def findings(e: Evidence, signs: Signs) -> list[Finding | None]:
    return [speed(e), at_once(e), step(e, signs), against_off(e, signs)]


def speed(e: Evidence) -> Finding | None:
    if e.speed is None:
        return None
    told = f"{e.speed.tok_s:.1f} tok/s decode for one request"
    ratio = speed_ratio(e)
    if ratio is None and e.off_ratio is not None:
        why = "the baseline does not speculate, this one does: serve.break_even says what that is worth"
        return _make("serve.speed", Status.SKIP, f"{told}; {why}", e.speed.tok_s, None, ASK_BASELINE)
    if ratio is None or e.baseline is None or e.baseline.tok_s is None:
        return _make(
            "serve.speed",
            Status.SKIP,
            f"{told}; not knowable from this record whether that is slow: no baseline was given",
            e.speed.tok_s,
            None,
            ASK_BASELINE,
        )
    status = status_of(ratio, e.limits)
    return _make(
        "serve.speed",
        status,
        f"{told}, baseline {e.baseline.tok_s:.1f}: {ratio:.2f}x",
        e.speed.tok_s,
        round(e.limits.speed_fail * e.baseline.tok_s, 2),
        "provcheck serve --diagnose names the cause" if status is not Status.PASS else None,
    )


def at_once(e: Evidence) -> Finding | None:
    """Decode speed of one request among several, each level against the baseline's own."""
    measured = e.window.get("tok_s")
    rates = {
        level: rate
        for level, rate in (measured if isinstance(measured, dict) else {}).items()
        if level != "1"
    }
    told: list[str] = []
    worst = Status.SKIP
    for level, rate in sorted(rates.items()):
        if not isinstance(rate, (int, float)):
            continue
        base = e.baseline.by_concurrency.get(level) if e.baseline else None
        told.append(
            f"{rate:.1f} tok/s per request of {level} at once" + (f", baseline {base:.1f}" if base else "")
        )
        if base:
            worst = max(
                worst,
                status_of(rate / base, e.limits),
                key=(Status.SKIP, Status.PASS, Status.WARN, Status.FAIL).index,
            )
    if not told:
        return None
    told += [] if worst is not Status.SKIP else ["no baseline for it"]
    return _make(
        "serve.speed_at_once",
        worst,
        "; ".join(told),
        None,
        None,
        ASK_BASELINE if worst is Status.SKIP else None,
    )


def status_of(ratio: float, limits: Limits) -> Status:
    """The status of a decode speed over the baseline's."""
    return (
        Status.FAIL
        if ratio < limits.speed_fail
        else Status.WARN
        if ratio < limits.speed_warn
        else Status.PASS
    )


def step(e: Evidence, signs: Signs) -> Finding | None:
    """The time of a step is the machine's and the engine's part of the speed; acceptance does not touch it."""
    if e.speed is None or e.speed.ms_per_step is None:
        return None
    unit = "draft step" if e.acceptance else "token"
    told = f"{e.speed.ms_per_step:.1f} ms per {unit}"
    ratio = e.step_ratio
    if ratio is not None and e.peer and e.peer.ms_per_step:
        status = (
            Status.FAIL
            if ratio > e.limits.step_fail
            else Status.WARN
            if ratio > e.limits.step_warn
            else Status.PASS
        )
        return Finding(
            "serve.step",
            status,
            "engine",
            f"{told}, baseline {e.peer.ms_per_step:.1f}: {ratio:.2f}x",
            value=round(e.speed.ms_per_step, 2),
            limit=round(e.limits.step_warn * e.peer.ms_per_step, 2),
            unit="ms",
            cause="infrastructure" if status is not Status.PASS else None,
        )
    if signs.slow_step and e.break_even is not None:
        return Finding(
            "serve.step",
            Status.FAIL,
            "engine",
            f"{told} cost {e.break_even:.1f} plain tokens, more than any acceptance of {e.k} drafts can pay",
            value=round(e.speed.ms_per_step, 2),
            unit="ms",
            cause="infrastructure",
        )
    if (cost := host_cost(e)) is not None and cost.starved:
        return Finding(
            "serve.step",
            Status.WARN,
            "engine",
            f"{told}: {cost.words}",
            value=round(e.speed.ms_per_step, 2),
            limit=round(cost.limit_ms, 2),
            unit="ms",
            cause="infrastructure",
            fix="provcheck serve --diagnose ranks the causes; give the engine whole CPUs",
            owner="node",
        )
    return Finding(
        "serve.step",
        Status.SKIP,
        "engine",
        f"{told}; not knowable from this record whether that is slow: no baseline of the same engine and"
        " method",
        value=round(e.speed.ms_per_step, 2),
        unit="ms",
        fix=ASK_BASELINE,
    )


def against_off(e: Evidence, signs: Signs) -> Finding | None:
    if not e.spec_counted or e.acceptance is None:
        return None
    if e.off_ratio is None:
        opinion = draft_cost(e, signs)
        if e.method in SEQUENTIAL and opinion.stance is Stance.SUPPORTED:
            return _make(
                "serve.break_even",
                Status.WARN,
                opinion.because,
                None,
                None,
                ASK_OFF,
                "draft_cost",
                "x of off",
            )
        return _make(
            "serve.break_even",
            Status.SKIP,
            "not knowable from this record whether speculation pays: speculation off was not measured",
            None,
            None,
            ASK_OFF,
            None,
            "x of off",
        )
    even = (
        f", break-even at a length of {e.break_even:.2f}, here {e.acceptance.length:.2f}"
        if e.break_even is not None
        else ""
    )
    told = f"{e.off_ratio:.2f}x of speculation off{even}"
    if e.off_ratio < 1.0:
        return _make(
            "serve.break_even",
            Status.WARN,
            f"{told}: a net loss",
            round(e.off_ratio, 3),
            1.0,
            "turn speculation off, or mend what the other findings say",
            "break_even",
            "x of off",
        )
    return _make("serve.break_even", Status.PASS, told, round(e.off_ratio, 3), 1.0, None, None, "x of off")


def _make(
    ident: str,
    status: Status,
    message: str,
    value: object,
    limit: object,
    fix: str | None,
    cause: str | None = None,
    unit: str = "tok/s",
) -> Finding:
    shown = round(value, 2) if isinstance(value, float) else value
    return Finding(
        ident,
        status,
        "engine",
        message,
        value=shown,
        limit=limit,
        unit=unit,
        cause=cause,
        fix=fix,
        owner="user",
    )
