"""Turns evidence into findings: one per check and subject, passes included. Pure."""

from __future__ import annotations

from checks.model import Finding, Status
from checks.serving import judge_config, judge_drafter, judge_speed
from checks.serving.diagnose import NOTHING, Diagnosis, leaders
from checks.serving.evidence import Evidence, prompts_of
from checks.serving.limits import MIN_PASSIVE_DRAFTS
from checks.serving.opinion import ASK_BASELINE, ASK_LOG
from checks.serving.shape import Shape
from checks.serving.signs import (
    Signs,
    length_limits,
    length_ratio,
    signs_of,
)

HOPELESS = 1.5
"""Acceptance length below which four and more drafts are wasted; the lowest public healthy run has 2.2."""


def judge(e: Evidence) -> tuple[Finding, ...]:
    """All findings of a run, without the diagnosis."""
    signs = signs_of(e)
    found = [
        generates(e, signs),
        output(e),
        traffic(e),
        speculation(e),
        acceptance(e, signs),
        against_baseline(e, signs),
    ]
    found += judge_drafter.findings(e, signs)
    found += judge_config.findings(e)
    found += judge_speed.findings(e, signs)
    return tuple(finding for finding in found if finding is not None)


def generates(e: Evidence, signs: Signs) -> Finding:
    """Ready means that tokens came out, in this window, and that they say something. /health proves nothing."""
    first = next((error for error in e.log.errors if error.row not in ("engine_dead", "start_failed")), None)
    said = f": {first.line[-220:].strip()}" if first else ""
    if signs.refused:
        return _finding("serve.generates", Status.FAIL, f"the engine refused to start{said}", owner="user")
    if signs.died:
        healthy = "/health answered 200 and " if e.log.health_ok else ""
        xid = (
            "; Xid 43 in the kernel log names the engine: an application error, not hardware"
            if e.log.xids
            else ""
        )
        return _finding(
            "serve.generates",
            Status.FAIL,
            f"{healthy}the first request killed the engine{said}{xid}",
            owner="user",
            fix="mend the cause, restart, and let one completion prove it, not /health",
        )
    tokens = e.counters.generation_tokens
    if tokens:
        return _finding(
            "serve.generates", Status.PASS, f"{tokens:.0f} tokens generated", value=tokens, unit="tokens"
        )
    if e.acceptance is not None:
        return _finding(
            "serve.generates", Status.PASS, f"the engine drafts and verifies ({e.acceptance.source})"
        )
    if e.seen.passive and e.page_dialect:
        return _finding(
            "serve.generates",
            Status.UNKNOWN,
            "no token was generated since start, so nothing shows that it can",
            fix="let it answer one request, or run without --passive",
        )
    if any(one.id == "serve.ready" and one.status is Status.UNKNOWN for one in e.seen.findings):
        return _finding(
            "serve.generates",
            Status.UNKNOWN,
            "nothing answers there: whether it generates is not knowable",
            fix="start the service, or correct the address",
        )
    why = (
        "the metrics page is neither vLLM's nor SGLang's"
        if e.seen.after and not e.page_dialect
        else "no generated token is recorded"
    )
    return _finding(
        "serve.generates", Status.UNKNOWN, f"{why}: whether it answers is not knowable", fix=ASK_LOG
    )


def output(e: Evidence) -> Finding | None:
    """What the answers say for themselves: empty, looping or unreadable; content and reasoning seen apart."""
    looks = e.window.get("output")
    if not isinstance(looks, dict) or not e.window.get("requests"):
        return None
    bad = [str(fault) for fault in looks.get("faults") or []]
    odd = [str(fault) for fault in looks.get("odd") or []]
    content, reasoning = e.window.get("content_characters"), e.window.get("reasoning_characters")
    if e.window.get("thinking") is False and reasoning:
        odd.append(f"thinking was asked to be off, and {reasoning} characters of reasoning came")
    told = f"{e.window['requests']} answers, {content} characters of content, {reasoning} of reasoning"
    if bad:
        fix = (
            "look at the answers, the chat template, the quantisation and the weights; numbers mean nothing"
            " before"
        )
        return _finding("serve.output", Status.FAIL, f"{told}: {'; '.join(bad + odd)}", owner="user", fix=fix)
    if odd:
        return _finding("serve.output", Status.WARN, f"{told}: {'; '.join(odd)}", owner="user")
    return _finding("serve.output", Status.PASS, told)


def traffic(e: Evidence) -> Finding | None:
    """Whether the window was ours alone."""
    if e.window.get("foreign_traffic") is None:
        return None
    if e.window["foreign_traffic"]:
        return _finding(
            "serve.window",
            Status.WARN,
            "others were served during the measurement: its counts and speed are mixed",
            fix="measure again when the service is idle",
        )
    return _finding("serve.window", Status.PASS, "the measured window was ours alone")


def speculation(e: Evidence) -> Finding:
    if e.spec_counted:
        k = f", k={e.k}" if e.k else ""
        return _finding(
            "serve.speculation",
            Status.PASS,
            f"speculation on ({e.method or 'method not named'}{k})",
            value=e.method,
        )
    asked = e.settings.speculation is True or bool(e.wanted.get("method"))
    if asked and (e.seen.after or e.seen.live) and e.settings.engine != "sglang":
        return _finding(
            "serve.speculation",
            Status.FAIL,
            "speculation was asked for and the engine counts no drafts",
            owner="user",
            cause="the drafter was not found, or the option was not read",
            fix="check the drafter's path; `provcheck flags` checks the option",
        )
    if asked:
        return _finding(
            "serve.speculation",
            Status.UNKNOWN,
            "speculation is configured, no statistics of it are in this record",
            fix="SGLang publishes them with --enable-metrics; or " + ASK_LOG,
        )
    if e.settings.speculation is False or (e.seen.after and e.page_dialect == "vllm"):
        return _finding("serve.speculation", Status.PASS, "speculation off", value=None)
    return _finding(
        "serve.speculation", Status.SKIP, "whether speculation is on is not in this record", fix=ASK_LOG
    )


def acceptance(e: Evidence, signs: Signs) -> Finding | None:
    """The acceptance length and its curve, by themselves: no baseline, no rate."""
    seen = e.acceptance
    if seen is None:
        if e.counters.drafts is not None and e.seen.passive:
            return _finding("serve.acceptance", Status.SKIP, "no draft since: idle", subject="drafter")
        if e.counters.drafts is not None and e.settings.speculation is not False and not signs.died:
            return _finding(
                "serve.acceptance",
                Status.UNKNOWN,
                f"no draft was made; {e.limits.drafts:.0f} are needed",
                subject="drafter",
                value=0,
                limit=e.limits.drafts,
                unit="drafts",
                fix="send requests, or run without --passive",
            )
        return None
    curve = "/".join(f"{share:.3f}".lstrip("0") for share in seen.positions[:8])
    count = f"{seen.drafts:.0f} drafts" if seen.drafts is not None else seen.source
    told = (
        f"acceptance length {seen.length:.2f}"
        + (f" of at most {e.k + 1}" if e.k else "")
        + f" ({count}"
        + (f", by position {curve}" if curve else "")
        + ")"
    )

    def finding(status: Status, why: str = "", cause: str | None = None) -> Finding:
        return _finding(
            "serve.acceptance",
            status,
            told + (f": {why}" if why else ""),
            subject="drafter",
            value=round(seen.length, 3),
            unit="tokens",
            cause=cause,
            owner="user",
            fix=(
                "provcheck serve --diagnose names the cause" if status in (Status.FAIL, Status.WARN) else None
            ),
        )

    if e.lookup:
        return finding(
            Status.PASS,
            "drafts only where the text repeats, so this length is not comparable with a drafter's",
        )
    if not signs.enough and e.seen.passive:
        return finding(Status.SKIP, f"under {MIN_PASSIVE_DRAFTS} drafts since, nothing to judge")
    if not signs.enough:
        return finding(Status.UNKNOWN, f"under {e.limits.drafts:.0f} drafts, too few to judge")
    if signs.dead:
        name = "dead drafter" if (signs.first or 0.0) < 0.075 else "garbage drafter"
        return finding(
            Status.FAIL,
            f"{name}: position 0 accepts {signs.first or 0.0:.3f}, a healthy one 0.6 and more",
            "drafter",
        )
    if signs.cliff:
        return finding(
            Status.FAIL, "the curve falls off a cliff: each position is worse than the one before", "drafter"
        )
    if signs.cut and not _cut_is_block(e):
        at = e.curve.cut_at if e.curve else None
        return finding(Status.FAIL, f"nothing is accepted from position {at} on", "drafter")
    if signs.weak and (e.k or 0) >= 4 and seen.length < HOPELESS:
        return finding(Status.FAIL, "far below any healthy run", "drafter")
    if signs.weak or signs.below_reference:
        return finding(Status.WARN, "weak, not dead", "drafter")
    return finding(Status.PASS)


def _cut_is_block(e: Evidence) -> bool:
    """Whether the curve ends where the drafter's trained block ends: a matter of k, judged there."""
    best = e.drafter.best_k
    return bool(
        e.curve and e.curve.shape is Shape.CUT and best and e.curve.cut_at and e.curve.cut_at >= best - 1
    )


def against_baseline(e: Evidence, signs: Signs) -> Finding | None:
    ratio = length_ratio(e)
    if e.acceptance is None or e.baseline is None or e.lookup:
        return None
    if e.baseline.length and not e.same_prompts:
        why = f"measured with {prompts_of(e)}, the baseline with {e.baseline.prompts}: lengths do not compare"
        return _finding("serve.acceptance_baseline", Status.SKIP, why, subject="drafter", fix=ASK_BASELINE)
    if ratio is None:
        return None
    low, odd = length_limits(e)
    status = (
        Status.UNKNOWN
        if not signs.enough
        else Status.FAIL
        if ratio < low
        else Status.WARN
        if ratio < odd
        else Status.PASS
    )
    return _finding(
        "serve.acceptance_baseline",
        status,
        f"acceptance length {e.acceptance.length:.2f}, baseline {e.baseline.length:.2f}: {ratio:.2f}x",
        subject="drafter",
        value=round(ratio, 3),
        limit=odd,
        unit="x of baseline",
        owner="user",
    )


def diagnosis_finding(found: Diagnosis, findings: tuple[Finding, ...]) -> Finding:
    """The diagnosis as one finding. It takes the worst status of what it explains and never worsens a verdict."""
    order = (Status.FAIL, Status.UNKNOWN, Status.WARN)
    worst = next((status for status in order if any(f.status is status for f in findings)), Status.PASS)
    fix = "; ".join(dict.fromkeys(ranked.row.fix for ranked in leaders(found.causes))) or None
    asks = f". To settle it: {'; '.join(found.asks[:3])}" if found.asks and worst is not Status.PASS else ""
    beside = f". {'; '.join(found.context)}" if found.context and worst is not Status.PASS else ""
    cause = ", ".join(ranked.row.id for ranked in found.causes) or None
    headline = found.headline
    if headline == NOTHING and worst is not Status.PASS:
        first = next(f for f in findings if f.status is worst)
        headline = f"no cause among those of drafts and speed: {first.id} says it: {first.message}"
    return _finding("serve.diagnosis", worst, headline + beside + asks, cause=cause, fix=fix, owner="user")


def _finding(ident: str, status: Status, message: str, subject: str = "engine", **rest: object) -> Finding:
    return Finding(id=ident, status=status, subject=subject, message=message, **rest)  # type: ignore[arg-type]
