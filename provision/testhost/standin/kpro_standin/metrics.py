"""Counters, gauges and histograms under vLLM's names, as Prometheus text.

Names, types, labels and buckets: vLLM, ``vllm/v1/metrics/loggers.py`` and ``vllm/v1/spec_decode/metrics.py``.
Every change happens under one lock, so that a scrape never sees a step half counted.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Iterator

FINISHED = ("stop", "length", "abort", "error", "repetition")
FIRST_TOKEN = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0),
    *(40.0, 80.0, 160.0, 640.0, 2560.0),
)
PER_TOKEN = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0),
    80.0,
)
PER_REQUEST = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0),
    *(960.0, 1920.0, 7680.0),
)
HISTOGRAMS = {
    "time_to_first_token_seconds": ("time to first token", FIRST_TOKEN),
    "inter_token_latency_seconds": ("time between two chunks of an answer", PER_TOKEN),
    "request_time_per_output_token_seconds": ("time per output token of a request", PER_TOKEN),
    "e2e_request_latency_seconds": ("time of a request, end to end", PER_REQUEST),
    "request_queue_time_seconds": ("time a request waited", PER_REQUEST),
    "request_prefill_time_seconds": ("time of the prompt's pass", PER_REQUEST),
    "request_decode_time_seconds": ("time from the first token to the last", PER_REQUEST),
}


class Histogram:
    """Counts of observations (seconds) by upper bound, not yet cumulative."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.sum += seconds


class Metrics:
    """All series of one engine. ``draft_tokens``: k of the speculation; 0: none, and no series of it."""

    def __init__(self, model_name: str, draft_tokens: int) -> None:
        self._lock = threading.Lock()
        self._created = time.time()
        self._labels = {"engine": "0", "model_name": model_name}
        self._k = draft_tokens
        self._running = self._waiting = 0
        self._prompt = self._generated = 0
        self._drafts = self._accepted = 0
        self._per_position = [0] * draft_tokens
        self._finished = dict.fromkeys(FINISHED, 0)
        self._histograms = {name: Histogram(bounds) for name, (_, bounds) in HISTOGRAMS.items()}

    def waiting(self, change: int) -> None:
        with self._lock:
            self._waiting += change

    def started(self, queued: float) -> None:
        """A request left the queue, after ``queued`` seconds, and runs."""
        with self._lock:
            self._waiting -= 1
            self._running += 1
            self._histograms["request_queue_time_seconds"].observe(queued)

    def prefilled(self, prompt_tokens: int, first_token: float, prefill: float) -> None:
        """The prompt's pass is done: the first token is there, ``first_token`` seconds after the arrival."""
        with self._lock:
            self._prompt += prompt_tokens
            self._generated += 1
            self._histograms["time_to_first_token_seconds"].observe(first_token)
            self._histograms["request_prefill_time_seconds"].observe(prefill)

    def stepped(self, tokens: int, accepted: int | None, seconds: float) -> None:
        """A later pass made ``tokens``, ``accepted`` of them from its draft (``None``: there was none)."""
        with self._lock:
            self._generated += tokens
            self._histograms["inter_token_latency_seconds"].observe(seconds)
            if accepted is not None:
                self._drafts += 1
                self._accepted += accepted
                for position in range(accepted):
                    self._per_position[position] += 1

    def ended(self, reason: str, total: float, decode: float, tokens: int) -> None:
        """A running request is over. ``total`` and ``decode`` in seconds."""
        with self._lock:
            self._running -= 1
            self._finished[reason] += 1
            self._histograms["e2e_request_latency_seconds"].observe(total)
            self._histograms["request_decode_time_seconds"].observe(decode)
            if tokens > 1:
                self._histograms["request_time_per_output_token_seconds"].observe(decode / (tokens - 1))

    def render(self) -> str:
        """The series in Prometheus' text format 0.0.4."""
        with self._lock:
            return "\n".join(self._lines()) + "\n"

    def summary(self) -> str:
        """One line for the log."""
        with self._lock:
            text = f"{sum(self._finished.values())} requests, {self._generated} tokens generated"
            if self._drafts:
                length = 1 + self._accepted / self._drafts
                text += f", {self._drafts} drafts, simulated mean acceptance length {length:.2f}"
            return text

    def _lines(self) -> Iterator[str]:
        yield from self._gauge("num_requests_running", "Requests in execution.", self._running)
        yield from self._gauge("num_requests_waiting", "Requests in the queue.", self._waiting)
        yield from self._counter("prompt_tokens", "Prompt tokens processed.", {"": self._prompt})
        yield from self._counter("generation_tokens", "Tokens generated.", {"": self._generated})
        yield from self._counter("request_success", "Requests by end.", self._finished, "finished_reason")
        if self._k:
            drafted = self._drafts * self._k
            by_position = {str(index): count for index, count in enumerate(self._per_position)}
            yield from self._counter("spec_decode_num_drafts", "Drafts (simulated).", {"": self._drafts})
            yield from self._counter("spec_decode_num_draft_tokens", "Drafted tokens.", {"": drafted})
            yield from self._counter(
                "spec_decode_num_accepted_tokens", "Accepted tokens.", {"": self._accepted}
            )
            yield from self._counter(
                "spec_decode_num_accepted_tokens_per_pos",
                "Accepted tokens by draft position.",
                by_position,
                "position",
            )
        for name, histogram in self._histograms.items():
            yield from self._histogram(name, HISTOGRAMS[name][0], histogram)

    def _gauge(self, name: str, text: str, value: int) -> Iterator[str]:
        yield from _head(f"vllm:{name}", "gauge", text)
        yield self._sample(name, float(value))

    def _counter(self, name: str, text: str, values: dict[str, int], label: str = "") -> Iterator[str]:
        """A counter by the values of ``label``, with the ``_created`` series that Prometheus' client adds."""
        yield from _head(f"vllm:{name}_total", "counter", text)
        for key, value in values.items():
            yield self._sample(f"{name}_total", float(value), **({label: key} if label else {}))
        yield from _head(f"vllm:{name}_created", "gauge", text)
        for key in values:
            yield self._sample(f"{name}_created", self._created, **({label: key} if label else {}))

    def _histogram(self, name: str, text: str, histogram: Histogram) -> Iterator[str]:
        yield from _head(f"vllm:{name}", "histogram", f"Histogram of {text}, in seconds.")
        seen = 0
        for bound, count in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
            seen += count
            yield self._sample(
                f"{name}_bucket", float(seen), le="+Inf" if bound == float("inf") else str(bound)
            )
        yield self._sample(f"{name}_count", float(seen))
        yield self._sample(f"{name}_sum", histogram.sum)
        yield from _head(f"vllm:{name}_created", "gauge", f"Histogram of {text}, in seconds.")
        yield self._sample(f"{name}_created", self._created)

    def _sample(self, name: str, value: float, **labels: str) -> str:
        pairs = sorted({**self._labels, **labels}.items())
        return f"vllm:{name}{{{','.join(f'{key}={_quoted(text)}' for key, text in pairs)}}} {value}"


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return f'"{escaped}"'
