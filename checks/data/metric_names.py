"""How the two engines spell the numbers on ``/metrics``. One row per meaning, both dialects.

vLLM's client library appends ``_total`` to counters; the ``*_created`` twins are timestamps and never read.
Sources: vLLM ``v1/metrics/loggers.py`` and ``v1/spec_decode/metrics.py`` (0.20.1, 0.33.0, same names); SGLang
``srt/metrics/collector.py`` (0.5.10.post1, 0.5.11, 0.5.23). SGLang publishes only with ``--enable-metrics``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MetricRow:
    """``field`` is the attribute of :class:`checks.serving.counters.Counters`; ``kind`` is counter or gauge.

    A counter is summed over engines and differenced over a window; a gauge is read once, at the end. ``join`` makes
    one value of several engines' gauges: their ``mean``, their ``sum``, or the ``least`` that is not 0, which is what
    an engine without work publishes.
    """

    field: str
    kind: str
    vllm: str | None
    sglang: str | None
    note: str = ""
    join: str = "mean"


METRICS: tuple[MetricRow, ...] = (
    MetricRow(
        "drafts",
        "counter",
        "vllm:spec_decode_num_drafts_total",
        "sglang:spec_verify_calls_total",
        "SGLang counts verify calls since 0.5.23 only",
    ),
    MetricRow("draft_tokens", "counter", "vllm:spec_decode_num_draft_tokens_total", None),
    MetricRow(
        "accepted", "counter", "vllm:spec_decode_num_accepted_tokens_total", None, "bonus not included"
    ),
    MetricRow("prompt_tokens", "counter", "vllm:prompt_tokens_total", "sglang:prompt_tokens_total"),
    MetricRow(
        "generation_tokens", "counter", "vllm:generation_tokens_total", "sglang:generation_tokens_total"
    ),
    MetricRow("preemptions", "counter", "vllm:num_preemptions_total", None),
    MetricRow(
        "decode_seconds",
        "counter",
        "vllm:request_decode_time_seconds_sum",
        None,
        "first to last token, summed over requests",
    ),
    MetricRow("decode_requests", "counter", "vllm:request_decode_time_seconds_count", None),
    MetricRow(
        "ttft_seconds",
        "counter",
        "vllm:time_to_first_token_seconds_sum",
        "sglang:time_to_first_token_seconds_sum",
    ),
    MetricRow(
        "ttft_requests",
        "counter",
        "vllm:time_to_first_token_seconds_count",
        "sglang:time_to_first_token_seconds_count",
    ),
    MetricRow(
        "itl_seconds",
        "counter",
        None,
        "sglang:inter_token_latency_seconds_sum",
        "vLLM's is the time between chunks, not tokens: never read",
    ),
    MetricRow("itl_tokens", "counter", None, "sglang:inter_token_latency_seconds_count"),
    MetricRow("running", "gauge", "vllm:num_requests_running", "sglang:num_running_reqs", join="sum"),
    MetricRow("waiting", "gauge", "vllm:num_requests_waiting", "sglang:num_queue_reqs", join="sum"),
    MetricRow("kv_usage", "gauge", "vllm:kv_cache_usage_perc", "sglang:token_usage"),
    MetricRow(
        "accept_length",
        "gauge",
        None,
        "sglang:spec_accept_length",
        "the last interval's, bonus included; a mean would hide one dead engine behind a healthy one",
        join="least",
    ),
    MetricRow("draft_slots", "gauge", None, "sglang:spec_num_draft_tokens", "since 0.5.23, anchor included"),
    MetricRow("cuda_graph", "gauge", None, "sglang:is_cuda_graph"),
    MetricRow(
        "gen_throughput",
        "gauge",
        None,
        "sglang:gen_throughput",
        "tokens/s of all running requests",
        join="sum",
    ),
)

RANKS = frozenset({"tp_rank", "pp_rank", "moe_ep_rank", "attn_tp_rank"})
"""Labels of the parts of one engine, which publish the same numbers each (SGLang,
--enable-metrics-for-all-schedulers); ``dp_rank`` and vLLM's ``engine`` tell engines apart."""

PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
CACHE_INFO = "vllm:cache_config_info"
PREFIXES = {"vllm": "vllm:", "sglang": "sglang:"}
