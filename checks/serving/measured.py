"""Acceptance and speed of one run, each from the best source there is: counters, answers, log, gauge."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from checks.errors import BadInput
from checks.serving.counters import Counters
from checks.serving.enginelog import LogFacts
from checks.serving.observation import Observation
from checks.serving.settings import Settings

LOOKUP = frozenset({"ngram", "ngram_gpu", "suffix"})
"""Methods without a drafter: they draft only where the text repeats, so their length says nothing about a drafter."""


BURST = 1.25
"""A client that sees tokens so much faster than the engine makes them got them late and together: on a busy machine
vLLM 0.32.0 handed out 256 tokens at once, 1000 times too fast by the client's clock."""

SEQUENTIAL = frozenset({"draft_model", "mtp", "eagle", "eagle3"})
"""Methods that run the drafter once per drafted token; the others draft all at once."""


@dataclass(frozen=True)
class Acceptance:
    """``length`` counts the bonus token (1..k+1). ``positions`` are shares of drafts, empty where the engine has
    no such series. ``drafts`` is None where only a mean was published. ``source`` says what it was read from.
    """

    length: float
    k: int | None
    drafts: float | None
    positions: tuple[float, ...]
    source: str

    @property
    def first(self) -> float | None:
        """Acceptance of the first drafted token; bounded above by length - 1 where positions are unknown."""
        return self.positions[0] if self.positions else None


@dataclass(frozen=True)
class Speed:
    """``tok_s``: decode tokens/s of one request; ``ms_per_step``: milliseconds per draft step, per token with
    speculation off, None where drafts do not cover the output (n-gram)."""

    tok_s: float
    ms_per_step: float | None
    source: str


def acceptance_of(
    counts: Counters, log: LogFacts, settings: Settings, seen: Observation
) -> Acceptance | None:
    return (
        _from_counters(counts, settings)
        or _from_window(seen, settings)
        or _from_sglang_counters(counts, settings)
        or _from_log(log, settings)
        or _from_server_info(seen, settings)
        or _from_gauge(counts, settings)
    )


def _from_counters(counts: Counters, settings: Settings) -> Acceptance | None:
    if not counts.drafts or counts.accepted is None:
        return None
    positions = tuple(count / counts.drafts for count in counts.per_position or ())
    configured = settings.get("k")
    drafted = counts.draft_tokens / counts.drafts if counts.draft_tokens is not None else None
    k = (
        configured
        if isinstance(configured, int)
        else (len(positions) or (round(drafted) if drafted else None))
    )
    length = 1.0 + counts.accepted / counts.drafts
    if positions and abs(sum(positions) - (length - 1.0)) > 0.02 * len(positions) + 2.0 / counts.drafts:
        raise BadInput(
            f"the counters contradict one another: {length - 1:.3f} tokens accepted per draft in total, "
            f"{sum(positions):.3f} by position. Nothing can be concluded; scrape again."
        )
    return Acceptance(length, k, counts.drafts, positions, "counters")


def _from_window(seen: Observation, settings: Settings) -> Acceptance | None:
    """SGLang's per-request numbers, added up by the client: tokens out, verify calls, histogram of accepted drafts."""
    spec = (seen.window or {}).get("speculation")
    if not isinstance(spec, dict):
        return None
    verify, tokens = spec.get("verify_calls"), spec.get("tokens")
    if not isinstance(verify, (int, float)) or not isinstance(tokens, (int, float)) or verify <= 0:
        return None
    histogram = [float(item) for item in spec.get("histogram") or [] if isinstance(item, (int, float))]
    total = sum(histogram)
    positions = tuple(sum(histogram[at + 1 :]) / total for at in range(len(histogram) - 1)) if total else ()
    return Acceptance(tokens / verify, _k(settings), float(verify), positions, "the answers' own statistics")


def _from_sglang_counters(counts: Counters, settings: Settings) -> Acceptance | None:
    if settings.engine != "sglang" or not counts.drafts or counts.generation_tokens is None:
        return None
    tokens = counts.generation_tokens - (counts.ttft_requests or 0.0)
    return Acceptance(max(1.0, tokens / counts.drafts), _k(settings), counts.drafts, (), "verify calls")


def _from_log(log: LogFacts, settings: Settings) -> Acceptance | None:
    lines = log.statistics
    if not lines:
        return None
    k = _k(settings) or (max(len(line.per_position) for line in lines) or None)
    if any(line.drafted for line in lines) and k:
        weights = [(line.drafted or 0.0) / k for line in lines]
        drafts = sum(weights)
        if not drafts:
            return None
        length = 1.0 + sum(line.accepted or 0.0 for line in lines) / drafts
        width = max(len(line.per_position) for line in lines)
        positions = tuple(
            sum(
                w * line.per_position[at]
                for w, line in zip(weights, lines, strict=True)
                if at < len(line.per_position)
            )
            / drafts
            for at in range(width)
        )
        return Acceptance(length, k, drafts, positions, "log lines")
    return Acceptance(statistics.fmean(line.length for line in lines), k, None, (), "log lines")


def _from_server_info(seen: Observation, settings: Settings) -> Acceptance | None:
    info = seen.config.get("server_info", seen.config)
    states = info.get("internal_states") if isinstance(info, dict) else None
    state = states[0] if isinstance(states, list) and states else None
    length = state.get("avg_spec_accept_length") if isinstance(state, dict) else None
    if not isinstance(length, (int, float)) or length < 1:
        return None
    return Acceptance(float(length), _k(settings), None, (), "/server_info, since start")


def _from_gauge(counts: Counters, settings: Settings) -> Acceptance | None:
    if not counts.accept_length or counts.accept_length < 1 or settings.speculation is False:
        return None
    return Acceptance(counts.accept_length, _k(settings), None, (), "a gauge of the last interval")


def covers_output(counts: Counters, acceptance: Acceptance) -> bool:
    """Whether drafts account for the generated tokens; a lookup method drafts only some of its steps."""
    if not counts.drafts or not counts.generation_tokens or acceptance.source != "counters":
        return True
    return counts.drafts * acceptance.length >= 0.85 * (
        counts.generation_tokens - (counts.decode_requests or 0.0)
    )


def _k(settings: Settings) -> int | None:
    k = settings.get("k")
    return k if isinstance(k, int) else None


def speed_of(
    counts: Counters, log: LogFacts, acceptance: Acceptance | None, settings: Settings, seen: Observation
) -> Speed | None:
    window = seen.window or {}
    measured, timed = window.get("tok_s"), _timed_by_engine(counts)
    rate: float | None = None
    source = ""
    if isinstance(measured, dict) and isinstance(measured.get("1"), (int, float)) and measured["1"] > 0:
        rate, source = float(measured["1"]), "timed by the client at concurrency 1"
        if timed and rate > BURST * timed and window.get("foreign_traffic") is not True:
            rate, source = timed, "request_decode_time_seconds, as the answers arrived in bursts"
    elif timed:
        rate, source = timed, "request_decode_time_seconds"
    elif counts.itl_seconds and counts.itl_tokens:
        rate, source = counts.itl_tokens / counts.itl_seconds, "inter_token_latency_seconds"
    elif log.throughputs:
        rate, source = max(log.throughputs), "log lines, at least"
    elif counts.gen_throughput and counts.running is not None and counts.running <= 1:
        rate, source = counts.gen_throughput, "gen_throughput gauge"
    if not rate or rate <= 0:
        return None
    return Speed(rate, _ms_per_step(rate, counts, acceptance, settings), source)


def _timed_by_engine(counts: Counters) -> float | None:
    """Decode tokens/s of one request by the engine's own clock."""
    if not (counts.decode_seconds and counts.generation_tokens and counts.decode_requests):
        return None
    return (counts.generation_tokens - counts.decode_requests) / counts.decode_seconds


def _ms_per_step(
    rate: float, counts: Counters, acceptance: Acceptance | None, settings: Settings
) -> float | None:
    if acceptance is None:
        return 1000.0 / rate
    if settings.get("method") in LOOKUP or not covers_output(counts, acceptance):
        return None
    return 1000.0 * acceptance.length / rate
