"""Turns evidence into findings: one per check and subject, passes included. Pure."""

from __future__ import annotations

from checks.model import Finding, Status
from checks.serving import judge_config, judge_speed
from checks.serving.diagnose import Diagnosis
from checks.serving.evidence import Evidence
from checks.serving.opinion import ASK_LOG
from checks.serving.shape import Shape
from checks.serving.signs import LENGTH_FAIL, LENGTH_WARN, MIN_DRAFTS, Signs, length_ratio, signs_of


def judge(e: Evidence) -> tuple[Finding, ...]:
    """All findings of a run, without the diagnosis."""
    signs = signs_of(e)
    found = [generates(e, signs), speculation(e), acceptance(e, signs), against_baseline(e)]
    found += judge_config.findings(e, signs)
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
        return _finding("serve.generates", Status.FAIL, f"{healthy}the first request killed the engine{said}{xid}", owner="user",
                        fix="mend the cause, restart, and let one completion prove it, not /health")  # fmt: skip
    output = e.window.get("output")
    if isinstance(output, dict) and output.get("faults"):
        told = "; ".join(str(fault) for fault in output["faults"][:5])
        return _finding("serve.generates", Status.FAIL, f"answers come, but {told}", owner="user")
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
        return _finding("serve.generates", Status.UNKNOWN, "no token was generated since start, so nothing shows that it can",
                        fix="let it answer one request, or run without --passive")  # fmt: skip
    why = (
        "the metrics page is neither vLLM's nor SGLang's"
        if e.seen.after and not e.page_dialect
        else "no generated token is recorded"
    )
    return _finding(
        "serve.generates", Status.UNKNOWN, f"{why}: whether it answers is not knowable", fix=ASK_LOG
    )


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
        return _finding("serve.speculation", Status.FAIL, "speculation was asked for and the engine counts no drafts", owner="user",
                        cause="the drafter was not found, or the option was not read", fix="check the drafter's path; `provcheck flags` checks the option")  # fmt: skip
    if asked:
        return _finding("serve.speculation", Status.UNKNOWN, "speculation is configured, no statistics of it are in this record",
                        fix="SGLang publishes them with --enable-metrics; or " + ASK_LOG)  # fmt: skip
    if e.settings.speculation is False or (e.seen.after and e.page_dialect == "vllm"):
        return _finding("serve.speculation", Status.PASS, "speculation off", value=None)
    return _finding(
        "serve.speculation", Status.SKIP, "whether speculation is on is not in this record", fix=ASK_LOG
    )


def acceptance(e: Evidence, signs: Signs) -> Finding | None:
    """The acceptance length and its curve, by themselves: no baseline, no rate."""
    seen = e.acceptance
    if seen is None:
        if e.counters.drafts is not None and e.settings.speculation is not False and not signs.died:
            return _finding("serve.acceptance", Status.UNKNOWN, f"no draft was made; {MIN_DRAFTS} are needed", subject="drafter",
                            value=0, limit=MIN_DRAFTS, unit="drafts", fix="send requests, or run without --passive")  # fmt: skip
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
        return _finding("serve.acceptance", status, told + (f": {why}" if why else ""), subject="drafter", value=round(seen.length, 3),
                        unit="tokens", cause=cause, owner="user",
                        fix="provcheck serve --diagnose names the cause" if status in (Status.FAIL, Status.WARN) else None)  # fmt: skip

    if e.lookup:
        return finding(
            Status.PASS,
            "drafts only where the text repeats, so this length is not comparable with a drafter's",
        )
    if not signs.enough:
        return finding(Status.UNKNOWN, f"under {MIN_DRAFTS} drafts, too few to judge")
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
    if signs.weak or signs.below_reference:
        return finding(Status.WARN, "weak, not dead", "drafter")
    return finding(Status.PASS)


def _cut_is_block(e: Evidence) -> bool:
    """Whether the curve ends where the drafter's trained block ends: a matter of k, judged there."""
    block = e.drafter.block_size
    return bool(
        e.curve and e.curve.shape is Shape.CUT and block and e.curve.cut_at and e.curve.cut_at >= block - 2
    )


def against_baseline(e: Evidence) -> Finding | None:
    ratio = length_ratio(e)
    if ratio is None or e.acceptance is None or e.baseline is None or e.lookup:
        return None
    enough = e.acceptance.drafts is None or e.acceptance.drafts >= MIN_DRAFTS or e.seen.passive
    status = (
        Status.UNKNOWN if not enough
        else Status.FAIL if ratio < LENGTH_FAIL
        else Status.WARN if ratio < LENGTH_WARN
        else Status.PASS
    )  # fmt: skip
    return _finding("serve.acceptance_baseline", status, f"acceptance length {e.acceptance.length:.2f}, baseline {e.baseline.length:.2f}: "
                    f"{ratio:.2f}x", subject="drafter", value=round(ratio, 3), limit=LENGTH_WARN, unit="x of baseline", owner="user")  # fmt: skip


def diagnosis_finding(found: Diagnosis, findings: tuple[Finding, ...]) -> Finding:
    """The diagnosis as one finding. It takes the worst status of what it explains and never worsens a verdict."""
    order = (Status.FAIL, Status.UNKNOWN, Status.WARN)
    worst = next((status for status in order if any(f.status is status for f in findings)), Status.PASS)
    fix = "; ".join(dict.fromkeys(ranked.row.fix for ranked in found.causes[:3])) or None
    asks = f". To settle it: {'; '.join(found.asks[:3])}" if found.asks and worst is not Status.PASS else ""
    cause = ", ".join(ranked.row.id for ranked in found.causes) or None
    return _finding("serve.diagnosis", worst, found.headline + asks, cause=cause, fix=fix, owner="user")


def _finding(ident: str, status: Status, message: str, subject: str = "engine", **rest: object) -> Finding:
    return Finding(id=ident, status=status, subject=subject, message=message, **rest)  # type: ignore[arg-type]
