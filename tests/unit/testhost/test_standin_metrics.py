"""The counters agree with what was sent, at the end and at every moment before it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from provision.testhost.process import Standin
from provision.testhost.standin.kpro_standin.metrics import Metrics

Read = Callable[[Standin], dict[str, float]]
K = 4


def adds_up(seen: dict[str, float]) -> bool:
    """First tokens, drafts (one bonus token each) and accepted tokens are all the tokens there are."""
    drafts, accepted = (
        seen["vllm:spec_decode_num_drafts_total"],
        seen["vllm:spec_decode_num_accepted_tokens_total"],
    )
    by_position = [seen[f"vllm:spec_decode_num_accepted_tokens_per_pos_total{{{i}}}"] for i in range(K)]
    return (
        seen["vllm:generation_tokens_total"]
        == seen["vllm:time_to_first_token_seconds_count"] + drafts + accepted
        and sum(by_position) == accepted
        and by_position == sorted(by_position, reverse=True)
        and seen["vllm:spec_decode_num_draft_tokens_total"] == K * drafts
        and seen["vllm:inter_token_latency_seconds_count"] == drafts
    )


def test_the_check_of_the_sums_can_fail(fast: Standin, metrics_of: Read) -> None:
    seen = metrics_of(fast)
    assert adds_up(seen)
    for name in ("vllm:generation_tokens_total", "vllm:spec_decode_num_accepted_tokens_per_pos_total{0}"):
        assert not adds_up({**seen, name: seen[name] + 1})


def test_many_requests_at_once_are_counted_to_the_last_token(fast: Standin, metrics_of: Read) -> None:
    before = metrics_of(fast)

    def one(number: int) -> tuple[int, int]:
        options = {"max_tokens": 30 + number, "ignore_eos": True}
        if number % 2:
            stream = {"stream": True, "stream_options": {"include_usage": True}}
            usage = json.loads(fast.complete(f"p {number}", **options, **stream).events[-2])["usage"]
        else:
            usage = fast.chat(f"p {number}", **options).json["usage"]
        return usage["prompt_tokens"], usage["completion_tokens"]

    with ThreadPoolExecutor(8) as pool:
        sent = list(pool.map(one, range(32)))
    after = metrics_of(fast)
    grown = {name: value - before.get(name, 0) for name, value in after.items()}
    assert grown["vllm:prompt_tokens_total"] == sum(prompt for prompt, _ in sent)
    assert grown["vllm:generation_tokens_total"] == sum(tokens for _, tokens in sent)
    assert grown["vllm:request_success_total{length}"] == 32
    assert grown["vllm:e2e_request_latency_seconds_count"] == 32
    assert adds_up(after)
    assert after["vllm:num_requests_running"] == after["vllm:num_requests_waiting"] == 0


class Interrupted(Metrics):
    """Counts a step in another thread while its series are being written out."""

    thread: threading.Thread | None = None

    def _counter(self, name: str, *args: Any, **options: Any) -> Iterator[str]:
        if name == "spec_decode_num_drafts" and self.thread is None:
            self.thread = threading.Thread(target=self.stepped, args=(3, 2, 0.01))
            self.thread.start()
            self.thread.join(0.05)
        yield from super()._counter(name, *args, **options)


def test_a_scrape_never_sees_half_a_step(parse: Callable[[str], dict[str, float]]) -> None:
    metrics = Interrupted("tiny", K)
    metrics.prefilled(3, 0.1, 0.1)
    during = parse(metrics.render())
    assert adds_up(during)
    assert during["vllm:generation_tokens_total"] == 1
    assert metrics.thread is not None
    metrics.thread.join()
    after = parse(metrics.render())
    assert adds_up(after)
    assert after["vllm:generation_tokens_total"] == 4


def test_the_series_have_the_names_types_and_labels_of_vllm(fast: Standin) -> None:
    families = {f.name: f for f in text_string_to_metric_families(fast.get("/metrics").body.decode())}
    types = {
        "vllm:num_requests_running": "gauge",
        "vllm:num_requests_waiting": "gauge",
        "vllm:prompt_tokens": "counter",
        "vllm:generation_tokens": "counter",
        "vllm:request_success": "counter",
        "vllm:spec_decode_num_drafts": "counter",
        "vllm:spec_decode_num_draft_tokens": "counter",
        "vllm:spec_decode_num_accepted_tokens": "counter",
        "vllm:spec_decode_num_accepted_tokens_per_pos": "counter",
        "vllm:time_to_first_token_seconds": "histogram",
        "vllm:inter_token_latency_seconds": "histogram",
        "vllm:request_time_per_output_token_seconds": "histogram",
        "vllm:e2e_request_latency_seconds": "histogram",
        "vllm:request_decode_time_seconds": "histogram",
    }
    assert {name: families[name].type for name in types} == types
    for family in families.values():
        assert all(s.labels["engine"] == "0" and s.labels["model_name"] == "tiny" for s in family.samples)
    assert fast.get("/metrics").headers["Content-Type"].startswith("text/plain")


def test_the_series_are_those_of_a_recorded_engine(fast: Standin, shared: Path) -> None:
    text = (shared / "fixtures/spec/right.metrics.txt").read_text()
    ours = {f.name: f.type for f in text_string_to_metric_families(fast.get("/metrics").body.decode())}
    theirs = {
        f.name: f.type
        for f in text_string_to_metric_families(text)
        if "spec_decode" in f.name or f.name.endswith(("_tokens", "request_success"))
    }
    assert len(theirs) >= 7
    assert theirs.items() <= ours.items()


def test_histograms_are_cumulative_and_hold_every_observation(fast: Standin, metrics_of: Read) -> None:
    fast.complete()
    seen = metrics_of(fast)
    name = "vllm:time_to_first_token_seconds"
    buckets = [value for key, value in seen.items() if key.startswith(f"{name}_bucket")]
    assert buckets == sorted(buckets)
    assert buckets[-1] == seen[f"{name}_count"] > 0
    assert seen[f"{name}_sum"] > 0


def test_without_speculation_there_is_no_series_of_it(
    start: Callable[..., Standin], metrics_of: Read
) -> None:
    standin = start("--tok-s", "20000", "--served-model-name", 'odd "name" \\ with\nall')
    standin.complete(max_tokens=10, ignore_eos=True)
    seen = metrics_of(standin)
    assert not [name for name in seen if "spec_decode" in name]
    assert seen["vllm:generation_tokens_total"] == 10
    assert seen["vllm:inter_token_latency_seconds_count"] == 9


def test_a_request_beyond_the_slots_waits_and_is_counted_as_waiting(
    start: Callable[..., Standin],
    until: Callable[..., None],
    endless: Callable[..., AbstractContextManager[None]],
) -> None:
    standin = start("--max-num-seqs", "1", "--tok-s", "20")
    with ThreadPoolExecutor(1) as pool:
        with endless(standin):
            until(standin, num_requests_running=1, num_requests_waiting=0)
            second = pool.submit(standin.complete, max_tokens=1)
            until(standin, num_requests_running=1, num_requests_waiting=1)
        assert second.result().status == 200
    until(standin, num_requests_running=0, num_requests_waiting=0, request_queue_time_seconds_count=2)


def test_a_waiting_client_that_leaves_is_no_longer_waited_for(
    start: Callable[..., Standin],
    until: Callable[..., None],
    endless: Callable[..., AbstractContextManager[None]],
) -> None:
    standin = start("--max-num-seqs", "1", "--tok-s", "20")
    with endless(standin):
        until(standin, num_requests_running=1)
        with endless(standin):
            until(standin, num_requests_waiting=1)
        until(standin, num_requests_running=1, num_requests_waiting=0)
