"""From an observation to the report: evidence, findings, diagnosis, facts. Pure; the command adds the I/O."""

from __future__ import annotations

from typing import Any

from checks.model import Report
from checks.serving.baseline import Baseline
from checks.serving.diagnose import as_facts, diagnose
from checks.serving.drafterdiff import fields_of
from checks.serving.evidence import Evidence, gather, prompts_of
from checks.serving.judge import diagnosis_finding, judge
from checks.serving.limits import Limits
from checks.serving.observation import Observation


def report(
    seen: Observation,
    baselines: tuple[Baseline, ...] = (),
    wanted: dict[str, Any] | None = None,
    limits: Limits | None = None,
    *,
    with_diagnosis: bool = False,
) -> Report:
    """Judges one observation. Raises BadInput when its metrics cannot be true."""
    e = gather(seen, baselines, wanted, limits)
    findings = (*seen.findings, *judge(e))
    facts = facts_of(e)
    if with_diagnosis:
        found = diagnose(e)
        findings = (*findings, diagnosis_finding(found, findings))
        facts["diagnosis"] = as_facts(found)
    return Report("serve", findings, "live" if seen.live else "replayed", facts)


_WINDOW = (
    "prompts",
    "thinking",
    "context",
    "requests",
    "tokens",
    "ttft_ms",
    "tok_s",
    "kinds",
    "content_characters",
    "reasoning_characters",
    "cpu_wait",
)


def facts_of(e: Evidence) -> dict[str, Any]:
    """The numbers and settings of a run, in the units of :mod:`checks.serving.evidence`."""
    accepted, speed = e.acceptance, e.speed
    return {
        "host": e.seen.host or None,
        "taken": e.seen.taken or None,
        "engine": e.settings.engine,
        "version": e.settings.version,
        "settings": dict(e.settings.values),
        "layers": list(e.log.layers) if e.log.layers else None,
        "since": "start" if e.since_start else "window",
        "acceptance": (
            None
            if accepted is None
            else {
                "length": round(accepted.length, 4),
                "k": accepted.k,
                "drafts": accepted.drafts,
                "per_position": [round(share, 4) for share in accepted.positions],
                "shape": e.curve.shape.value if e.curve and not e.lookup else None,
                "source": accepted.source,
            }
        ),
        "speed": (
            None
            if speed is None
            else {
                "tok_s": round(speed.tok_s, 3),
                "ms_per_step": None if speed.ms_per_step is None else round(speed.ms_per_step, 3),
                "source": speed.source,
            }
        ),
        "window": {key: e.window[key] for key in _WINDOW if key in e.window} or None,
        "break_even": None if e.break_even is None else round(e.break_even, 3),
    }


def baseline_of(e: Evidence, name: str) -> Baseline:
    """The numbers of this run as a baseline for later ones."""
    accepted, speed = e.acceptance, e.speed
    measured = e.window.get("tok_s")
    thinking = e.window.get("thinking")
    return Baseline(
        name=name,
        engine=e.settings.engine,
        version=e.settings.version,
        model=e.settings.get("model"),
        method=(e.method or "unknown") if accepted else None,
        k=e.k if accepted else None,
        length=accepted.length if accepted else None,
        drafts=accepted.drafts if accepted else None,
        positions=accepted.positions if accepted else (),
        tok_s=speed.tok_s if speed else None,
        by_concurrency={
            level: float(rate)
            for level, rate in (measured if isinstance(measured, dict) else {}).items()
            if level != "1" and isinstance(rate, (int, float))
        },
        ms_per_step=speed.ms_per_step if speed else None,
        layers=e.log.layers,
        cache_dirs=e.log.cache_dirs,
        prompt_tokens=e.mean_prompt,
        thinking=thinking if isinstance(thinking, bool) else None,
        prompts=prompts_of(e),
        settings=dict(e.settings.values),
        drafter=fields_of(e.seen.drafter_config) if accepted else {},
    )
