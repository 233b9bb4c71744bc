"""Two services: what differs in effect, heaviest first, whatever the engines call it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from checks.cli import main
from checks.serving.compare import compare, differences
from checks.serving.evidence import gather
from checks.serving.observation import Observation

PAGE = """vllm:spec_decode_num_drafts_total{{engine="0"}} 3000.0
vllm:spec_decode_num_draft_tokens_total{{engine="0"}} 45000.0
vllm:spec_decode_num_accepted_tokens_total{{engine="0"}} {accepted}
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="0"}} {first}
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="1"}} {second}
vllm:generation_tokens_total{{engine="0"}} {tokens}
vllm:request_decode_time_seconds_count{{engine="0"}} 10.0
vllm:request_decode_time_seconds_sum{{engine="0"}} {seconds}
"""


def _page(first: int, second: int, rate: float) -> str:
    tokens = 3000 + first + second + 10
    return PAGE.format(
        accepted=first + second, first=first, second=second, tokens=tokens, seconds=(tokens - 10) / rate
    )


SGLANG_LOG = (
    "server_args=ServerArgs(model_path='Qwen/Qwen3.6-27B', tp_size=2, speculative_algorithm='EAGLE',"
    " speculative_draft_model_path=None, speculative_num_draft_tokens=4, disable_cuda_graph=False,"
    " disable_custom_all_reduce=False, kv_cache_dtype='auto', attention_backend='fa3',"
    " disable_overlap_schedule=False)\n"
    + "Decode batch, #running-req: 1, #token: 9, token usage: 0.0, accept len: 3.40, accept rate: 0.80, cuda"
    " graph: True, gen throughput (token/s): 73.50, #queue-req: 0\n" * 10
)
VLLM_LOG = (
    "INFO non-default args: {'model': 'Qwen/Qwen3.6-27B', 'tensor_parallel_size': 2}\nINFO Initializing a V1"
    " LLM engine (v0.20.1) with config: model='Qwen/Qwen3.6-27B',"
    " speculative_config=SpeculativeConfig(method='dflash', model='/d', num_spec_tokens=15),"
    " tensor_parallel_size=2, disable_custom_all_reduce=True, enforce_eager=False, kv_cache_dtype=auto\nINFO"
    " Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN'].\nINFO Graph capturing"
    " finished in 1 secs, took 0.05 GiB\n"
)
TUNED = Observation(log=SGLANG_LOG)
NOW = Observation(log=VLLM_LOG, after=_page(237, 117, 18.0))


def test_the_question_of_the_operator_is_answered() -> None:
    found = compare(gather(TUNED), gather(NOW), "tuned", "now")
    text = {finding.id: finding for finding in found.findings}
    assert found.verdict.value == "fail"
    assert "0.24x" in text["serve.speed"].message
    assert "drafter configuration" in text["serve.acceptance"].message
    assert "infrastructure excluded because" in text["serve.acceptance"].message
    assert "told and not judged" in text["serve.step"].message
    keys = [item["key"] for item in found.facts["differences"]]
    assert keys[0] == "method"
    assert {"k", "custom_all_reduce"} <= set(keys)
    assert not {"tp", "cuda_graphs", "kv_cache_dtype", "attention_backend", "model"} & set(keys)
    assert any(line.startswith("custom all-reduce: on (now off)") for line in found.facts["port_over"])


def test_equal_services_differ_in_nothing() -> None:
    found = compare(gather(NOW), gather(NOW), "a", "b")
    assert found.facts["differences"] == []
    assert found.facts["port_over"] == []
    good = gather(replace(NOW, after=_page(2300, 1800, 60.0)))
    assert compare(good, good, "a", "b").verdict.value == "pass"


def test_differences_are_ranked_by_what_they_cost() -> None:
    eager = gather(
        replace(
            NOW,
            log=VLLM_LOG.replace("enforce_eager=False", "enforce_eager=True").replace(
                "Graph capturing finished", "x"
            ),
        )
    )
    ranked = differences(gather(replace(NOW, log=VLLM_LOG + "INFO vLLM is using nccl==2.28\n")), eager)
    assert [item.row.key for item in ranked] == ["cuda_graphs", "nccl"]
    assert [item.effect for item in ranked] == [3, 0]


def test_a_changed_field_of_the_drafter_is_named() -> None:
    one = gather(replace(NOW, drafter_config={"dflash_config": {"mask_token_id": 4090}, "rope_theta": 1e6}))
    two = gather(replace(NOW, drafter_config={"dflash_config": {"mask_token_id": 4091}}))
    found = compare(one, two, "a", "b")
    assert found.facts["drafter"] == {
        "dflash_config.mask_token_id": [4090, 4091],
        "rope_theta": [1000000.0, None],
    }


def test_slower_steps_of_the_same_set_up_are_judged_and_of_another_engine_are_not() -> None:
    fast, slow = (
        gather(replace(NOW, after=_page(2300, 1800, 60.0))),
        gather(replace(NOW, after=_page(2300, 1800, 30.0))),
    )
    statuses = {finding.id: finding.status.value for finding in compare(fast, slow, "a", "b").findings}
    assert statuses["serve.step"] == "fail"
    assert statuses["serve.acceptance"] == "pass"
    other = {finding.id: finding.status.value for finding in compare(gather(TUNED), slow, "a", "b").findings}
    assert other["serve.step"] == "skip"


def test_without_a_speed_the_comparison_is_unknown() -> None:
    assert (
        compare(gather(Observation(log=VLLM_LOG)), gather(NOW), "a", "b").findings[0].status.value
        == "unknown"
    )


def test_the_command_takes_prefixes_and_records(tmp_path: Path) -> None:
    for name, seen in (("tuned", TUNED), ("now", NOW)):
        (tmp_path / f"{name}.log.txt").write_text(seen.log or "")
        if seen.after:
            (tmp_path / f"{name}.metrics.txt").write_text(seen.after)
    target = tmp_path / "report.json"
    assert (
        main(["compare", str(tmp_path / "tuned"), str(tmp_path / "now"), "--json", "--output", str(target)])
        == 1
    )
    report: dict[str, Any] = json.loads(target.read_text())
    assert report["command"] == "compare"
    assert report["evidence"] == "replayed"
    assert main(["compare", str(tmp_path / "tuned"), str(tmp_path / "nowhere")]) == 2


def test_a_prediction_head_inside_the_target_is_no_drafter_that_only_one_side_has() -> None:
    args = "'tensor_parallel_size': 2, 'speculative_config': {'method': 'mtp', 'model': 'HEAD'}"
    log = VLLM_LOG.replace("'tensor_parallel_size': 2", args)
    log = log.replace("method='dflash', model='/d', num_spec_tokens=15", "method='mtp', num_spec_tokens=3")
    for head, differs in (("Qwen/Qwen3.6-27B", False), ("/another", True)):
        now = gather(Observation(log=log.replace("HEAD", head)))
        keys = {item["key"] for item in compare(gather(TUNED), now, "tuned", "now").facts["differences"]}
        assert not {"method", "k"} & keys
        assert ("drafter" in keys) is differs
