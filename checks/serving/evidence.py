"""Everything a verdict may rest on, derived once from an observation. Pure: no clock, no I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from checks.serving import counters as counting
from checks.serving import metrics
from checks.serving.baseline import Baseline
from checks.serving.counters import Counters
from checks.serving.drafterfile import DrafterFacts, Files, Running, drafter_facts
from checks.serving.enginelog import LogFacts
from checks.serving.enginelog import parse as parse_log
from checks.serving.limits import Limits
from checks.serving.measured import (
    LOOKUP,
    Acceptance,
    Speed,
    acceptance_of,
    covers_output,
    speed_of,
)
from checks.serving.observation import Observation
from checks.serving.settings import Settings, settings_of
from checks.serving.shape import Curve, shape_of


@dataclass(frozen=True)
class Evidence:
    seen: Observation
    counters: Counters
    log: LogFacts
    settings: Settings
    drafter: DrafterFacts
    acceptance: Acceptance | None
    curve: Curve | None
    speed: Speed | None
    page_dialect: str | None
    since_start: bool
    cache_info: dict[str, str] = field(default_factory=dict)
    baseline: Baseline | None = None
    off: Baseline | None = None
    wanted: dict[str, Any] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)

    @property
    def method(self) -> str | None:
        method = self.settings.get("method")
        return str(method) if method is not None else None

    @property
    def window(self) -> dict[str, Any]:
        return self.seen.window or {}

    @property
    def lookup(self) -> bool:
        """n-gram or suffix speculation, named by the settings or told by drafts that do not cover the output."""
        if self.method is not None:
            return self.method in LOOKUP
        return self.acceptance is not None and not covers_output(self.counters, self.acceptance)

    @property
    def spec_counted(self) -> bool:
        """Whether the engine publishes or logs any speculation statistics."""
        return self.acceptance is not None or self.counters.drafts is not None

    @property
    def peer(self) -> Baseline | None:
        """The baseline, when its milliseconds per step mean the same: same engine, method and draft length."""
        base = self.baseline
        if base is None or base.engine != self.settings.engine or base.method != self.method:
            return None
        return base if base.k is None or self.k is None or base.k == self.k else None

    @property
    def k(self) -> int | None:
        if self.acceptance and self.acceptance.k:
            return self.acceptance.k
        k = self.settings.get("k")
        return k if isinstance(k, int) else None

    @property
    def step_ratio(self) -> float | None:
        """Milliseconds per step against the peer baseline; above 1 is slower."""
        peer = self.peer
        if peer is None or not peer.ms_per_step or self.speed is None or not self.speed.ms_per_step:
            return None
        return self.speed.ms_per_step / peer.ms_per_step

    @property
    def break_even(self) -> float | None:
        """The acceptance length at which a draft step pays: its time over the time of one plain token."""
        if self.off is None or not self.off.tok_s or self.speed is None or not self.speed.ms_per_step:
            return None
        return self.speed.ms_per_step * self.off.tok_s / 1000.0

    @property
    def off_ratio(self) -> float | None:
        """Decode speed against speculation off; below 1 speculation loses."""
        if self.off is None or not self.off.tok_s or self.speed is None or not self.spec_counted:
            return None
        return self.speed.tok_s / self.off.tok_s

    @property
    def kv_bytes_per_token(self) -> float | None:
        """Bytes of keys and values of one token, from the size that was given to the cache and its blocks."""
        told = self.cache_info
        try:
            size, blocks = float(told["kv_cache_memory_bytes"]), float(told["num_gpu_blocks"])
            found = size / (blocks * float(told["block_size"]))
        except (KeyError, ValueError, ZeroDivisionError):
            return None
        plain = told.get("cache_dtype") in ("auto", "bfloat16", "float16")
        return found if plain and 0 < found < 1e9 else None

    @property
    def same_prompts(self) -> bool:
        """Whether this run and its baseline used the same prompts, as far as both are known."""
        mine, theirs = prompts_of(self), self.baseline.prompts if self.baseline else None
        return mine is None or theirs is None or mine == theirs

    @property
    def like_prompts(self) -> bool:
        """Whether both were measured with the same prompts, or both with unknown ones."""
        return prompts_of(self) == (self.baseline.prompts if self.baseline else None)

    @property
    def mean_prompt(self) -> float | None:
        """Prompt tokens per request in this window."""
        requests = self.counters.ttft_requests or self.counters.decode_requests
        if not requests or self.counters.prompt_tokens is None:
            return None
        return self.counters.prompt_tokens / requests


def prompts_of(e: Evidence) -> str | None:
    """Which prompts were measured with: ``shipped/1``, with a preamble ``shipped/1@8192``; None for unknown
    traffic."""
    kind, version = e.window.get("prompts"), e.window.get("prompts_version")
    context = e.window.get("context")
    return f"{kind}/{version}" + (f"@{context}" if context else "") if kind else None


def gather(
    seen: Observation,
    baselines: tuple[Baseline, ...] = (),
    wanted: dict[str, Any] | None = None,
    limits: Limits | None = None,
) -> Evidence:
    """Derives the evidence. Of several baselines the last with speculation is the reference, the last without it is
    "speculation off"; a run without speculation is held against the latter first. Raises BadInput when the metrics
    cannot be true."""
    log = parse_log((seen.log or "").splitlines())
    settings = settings_of(seen, log)
    before = metrics.parse(seen.before, "the first scrape") if seen.before else None
    after = metrics.parse(seen.after, "the metrics page") if seen.after else None
    counts = counting.of_page(after) if after else Counters()
    if before and after:
        counts = counting.difference(counting.of_page(before), counts)
    acceptance = acceptance_of(counts, log, settings, seen)
    curve = shape_of(acceptance.positions, acceptance.length) if acceptance and acceptance.positions else None
    on = [base for base in baselines if base.speculation]
    off = [base for base in baselines if not base.speculation]
    speculating = acceptance is not None or settings.speculation is True
    reference = on if speculating else (off or on)
    return Evidence(
        seen=seen,
        counters=counts,
        log=log,
        settings=settings,
        drafter=drafter_facts(
            Files(
                seen.drafter_config,
                seen.drafter_tensors,
                seen.target_config,
                seen.mask_ordinary,
                seen.mask_text,
            ),
            _running(settings, acceptance),
        ),
        acceptance=acceptance,
        curve=curve,
        speed=speed_of(counts, log, acceptance, settings, seen),
        page_dialect=after.dialect if after else None,
        since_start=before is None,
        cache_info=after.cache_info() if after else {},
        baseline=reference[-1] if reference else None,
        off=off[-1] if off else None,
        wanted=wanted or {},
        limits=limits or Limits(),
    )


def _running(settings: Settings, acceptance: Acceptance | None) -> Running:
    k = acceptance.k if acceptance and acceptance.k else settings.get("k")
    return Running(
        settings.engine,
        settings.version,
        settings.get("runner"),
        settings.get("method"),
        k if isinstance(k, int) else None,
        str(settings.get("drafter") or ""),
        str(settings.get("model") or ""),
    )
