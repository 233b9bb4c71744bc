"""A step that is too slow for so small a model is the host's doing; where the size or the load is open, nothing is
said."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.data import host_costs as costs
from checks.model import Report
from checks.serving.report import report

STARTED = (
    "INFO [model.py:555] Resolved architecture: Qwen3ForCausalLM",
    "INFO [flash_attn.py:646] Using FlashAttention version 3",
    "INFO [loggers.py:271] Engine 000: Avg generation throughput: 195.2 tokens/s, Running: 1 reqs, Waiting: 0 reqs",
)
CACHE = (
    'vllm:cache_config_info{block_size="16",cache_dtype="auto",kv_cache_memory_bytes="1073741824",'
    'num_gpu_blocks="10922"} 1.0\n'
)


def _off(made: ModuleType, tok_s: float, cache: str = CACHE, **log: Any) -> Report:
    page = made.page(spec=False, tok_s=tok_s) + cache
    log.setdefault("lines", STARTED)
    seen = made.Observation(after=page, log=made.vllm_log(method=None, **log))
    return report(seen, with_diagnosis=True)


def _on(made: ModuleType, ms: float, config: dict[str, Any] | None = None, **log: Any) -> Report:
    length = 1 + sum(made.HEALTHY)
    log.setdefault("lines", STARTED)
    return report(
        made.tiny(made.HEALTHY, 1000 * length / ms, config or made.CONFIG, **log), with_diagnosis=True
    )


def _blamed(found: Report) -> bool:
    statuses = {finding.id: finding.status.value for finding in found.findings}
    first = {cause["id"] for cause in found.facts["diagnosis"]["causes"] if cause["rank"] == 1}
    assert (statuses.get("serve.step") == "warn") == ("starved_cpu" in first)
    return "starved_cpu" in first


@given(ms=st.floats(4.8, 60))
def test_a_tiny_model_without_drafts_that_takes_several_ms_a_token_has_a_starved_host(
    made: ModuleType, ms: float
) -> None:
    assert _blamed(_off(made, 1000 / ms))


@given(ms=st.floats(0.8, 1.49 * 2.4))
def test_a_host_twice_as_slow_as_the_measured_one_is_not_called_starved(made: ModuleType, ms: float) -> None:
    assert not _blamed(_off(made, 1000 / ms))


@given(ms=st.floats(12.5, 100))
def test_a_slow_step_of_a_tiny_pair_is_the_hosts_and_the_drafter_passes(made: ModuleType, ms: float) -> None:
    found = _on(made, ms)
    assert _blamed(found)
    assert found.verdict.value == "warn"
    assert {f.id: f.status.value for f in found.findings}["serve.acceptance"] == "pass"


@given(ms=st.floats(2, 4.6 * 2.4))
def test_healthy_steps_with_all_their_noise_raise_no_alarm(made: ModuleType, ms: float) -> None:
    assert not _blamed(_on(made, ms))


@pytest.mark.parametrize("ms", [17.5, 60, 200])
def test_of_a_large_model_no_record_alone_tells_what_is_slow(made: ModuleType, ms: float) -> None:
    found = _on(made, ms, made.QWEN27, layers=(2, 17, 32, 47, 62), k=7)
    assert not _blamed(found)
    assert "not knowable from this record" in next(f.message for f in found.findings if f.id == "serve.step")


@pytest.mark.parametrize(
    ("what", "changes"),
    [
        ("two ran at once", {"lines": (*STARTED, STARTED[-1].replace("Running: 1", "Running: 2"))}),
        ("how many ran is not told", {"lines": STARTED[:2]}),
        ("the GPU may be a slow one", {"lines": (STARTED[0], STARTED[2])}),
        ("the architecture is not told", {"lines": STARTED[1:]}),
        ("not every layer keeps a cache", {"lines": (STARTED[0].replace("Qwen3", "Jamba"), *STARTED[1:])}),
        ("several GPUs", {"tp": 2}),
    ],
)
def test_what_leaves_size_or_load_open_leaves_the_answer_open(
    made: ModuleType, what: str, changes: dict[str, Any]
) -> None:
    assert _blamed(_off(made, 177))
    assert not _blamed(_off(made, 177, **changes)), what


@pytest.mark.parametrize(
    "cache",
    ["", CACHE.replace("auto", "fp8"), CACHE.replace("10922", "0"), CACHE.replace("10922", "100"), "x"],
)
def test_a_cache_that_tells_no_small_size_tells_nothing(made: ModuleType, cache: str) -> None:
    assert not _blamed(_off(made, 177, "" if cache == "x" else cache))


def test_graphs_off_explain_a_slow_step_without_a_starved_host(made: ModuleType) -> None:
    assert not _blamed(_off(made, 147, eager=True))


def test_the_loaded_size_is_taken_where_the_engine_logs_it(made: ModuleType) -> None:
    loaded = "INFO [gpu_model_runner.py:4800] Model loading took {} GiB memory and 1.2 seconds"
    small = (*STARTED[1:], loaded.format(0.03))
    large = (*STARTED, loaded.format(50.3))
    assert _blamed(_off(made, 177, lines=small))
    assert not _blamed(_off(made, 40, lines=large))


def test_a_baseline_of_the_same_engine_and_method_overrules_the_estimate(made: ModuleType) -> None:
    slow = replace(made.RIGHT, tok_s=222.0, ms_per_step=17.6)
    seen = made.tiny(made.HEALTHY, 222, lines=STARTED)
    assert _blamed(report(seen, with_diagnosis=True))
    assert not _blamed(report(seen, (slow,), with_diagnosis=True))


def test_recorded_ratios_lie_on_both_sides_of_the_limit_with_room() -> None:
    healthy, starved = (1.49 / 1.5, 5.5 / 4.5), (5.7 / 1.5, 16.0 / 4.5)
    assert max(healthy) * 1.8 < costs.SLOW_HOST < min(starved) / 1.4


def test_an_earlier_start_in_the_log_with_other_layers_and_the_same_cache_settles_the_stale_graph(
    made: ModuleType,
) -> None:
    config = made.edited(made.UNSHIFTED_FILE, ids=[1, 6, 11])
    seen = made.tiny(made.HEALTHY, 800, config, layers=(1, 6, 11), cache="95c1a0306c")
    before = made.vllm_log(layers=(1, 5, 9), cache="95c1a0306c", warm=False)
    found = report(replace(seen, log=before + seen.log), with_diagnosis=True)
    first = found.facts["diagnosis"]["causes"][0]
    assert (first["id"], first["weight"]) == ("compile_cache", 0.9)
    assert "[1, 5, 9]" in first["because"]
    other = before.replace("95c1a0306c", "0000000000")
    assert "earlier start" not in str(report(replace(seen, log=other + seen.log), with_diagnosis=True).facts)
