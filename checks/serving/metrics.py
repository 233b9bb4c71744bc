"""Reads a ``/metrics`` page into numbers, and nothing but the numbers this package knows.

The page comes from a process that may be broken or from a file that may be hostile, so its size, the number of
its samples and every value are bounded before anything is believed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from checks.data.metric_names import CACHE_INFO, METRICS, PER_POSITION, PREFIXES, RANKS
from checks.errors import BadInput

MAX_BYTES = 4 << 20
MAX_SAMPLES = 20_000
MAX_LINE = 16 * 1024
MAX_VALUE = 1e15
MAX_POSITIONS = 512

_KINDS = {name: row.kind for row in METRICS for name in (row.vllm, row.sglang) if name}
_WANTED = frozenset(_KINDS) | {PER_POSITION, CACHE_INFO}


@dataclass(frozen=True)
class Sample:
    name: str
    labels: dict[str, str]
    value: float


@dataclass(frozen=True)
class Page:
    """One scrape. ``dialect`` is ``vllm``, ``sglang`` or None when the page is neither's."""

    dialect: str | None
    samples: tuple[Sample, ...]

    def by_engine(self, name: str) -> list[float]:
        """The value of each engine and other label; ranks of one engine count once, with the greatest of theirs."""
        found: dict[frozenset[tuple[str, str]], float] = {}
        for sample in self.samples:
            if sample.name == name:
                whose = frozenset(pair for pair in sample.labels.items() if pair[0] not in RANKS)
                found[whose] = max(sample.value, found.get(whose, 0.0))
        return list(found.values())

    def per_position(self) -> tuple[float, ...] | None:
        """Accepted tokens by position (0 first), summed over engines; None when the page has no such series."""
        found: dict[int, float] = {}
        for sample in self.samples:
            if sample.name == PER_POSITION:
                position = _position(sample.labels.get("position"))
                found[position] = found.get(position, 0.0) + sample.value
        if not found:
            return None
        return tuple(found.get(position, 0.0) for position in range(max(found) + 1))

    def cache_info(self) -> dict[str, str]:
        return next((sample.labels for sample in self.samples if sample.name == CACHE_INFO), {})


def parse(text: str, where: str = "the metrics page") -> Page:
    """Parses a Prometheus text page. Raises BadInput when it is oversized, malformed, or holds NaN, an infinity
    or a negative number in a series this package reads."""
    if len(text) > MAX_BYTES:
        raise BadInput(
            f"{where} is {len(text) / 2**20:.0f} MiB; a real one is under {MAX_BYTES // 2**20} MiB, so it is"
            " not read. Record it again with `curl URL/metrics`."
        )
    samples: list[Sample] = []
    for number, line in _wanted_lines(text):
        if len(line) > MAX_LINE:
            raise BadInput(
                f"{where}, line {number}: {len(line)} characters in one sample; not a metrics page"
            )
        sample = _sample(line, f"{where}, line {number}")
        if sample is None:
            continue
        samples.append(sample)
        if len(samples) > MAX_SAMPLES:
            raise BadInput(
                f"{where} has more than {MAX_SAMPLES} samples of the series read here; not a real engine's"
            )
    return Page(_dialect(text), tuple(samples))


def _dialect(text: str) -> str | None:
    return next(
        (name for name, prefix in PREFIXES.items() if text.startswith(prefix) or f"\n{prefix}" in text), None
    )


def _wanted_lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        name = stripped[: _name_end(stripped)]
        if name in _WANTED:
            yield number, stripped


def _name_end(line: str) -> int:
    ends = [end for end in (line.find("{"), line.find(" ")) if end >= 0]
    return min(ends) if ends else len(line)


def _sample(line: str, where: str) -> Sample | None:
    from prometheus_client.parser import text_string_to_metric_families

    try:
        family = next(iter(text_string_to_metric_families(line + "\n")), None)
    except ValueError as error:
        raise BadInput(
            f"{where} is no metrics sample ({error}); record the page again with `curl URL/metrics`"
        ) from None
    if family is None or not family.samples:
        raise BadInput(f"{where} is no metrics sample; record the page again with `curl URL/metrics`")
    parsed = family.samples[0]
    if not math.isfinite(parsed.value):
        raise BadInput(
            f"{where}: {parsed.name} is {parsed.value}, which is no count; the page cannot be judged"
        )
    if parsed.value < 0 or parsed.value > MAX_VALUE:
        raise BadInput(
            f"{where}: {parsed.name} is {parsed.value:g}, which no engine counts; the page cannot be judged"
        )
    return Sample(parsed.name, dict(parsed.labels), float(parsed.value))


def _position(text: str | None) -> int:
    if text is None or not text.isdecimal() or int(text[:6]) >= MAX_POSITIONS or len(text) > 6:
        raise BadInput(
            f"a per-position series has the position {text!r}; positions run from 0 to the number of draft"
            " tokens"
        )
    return int(text)
