"""What SGLang 0.5.11 and 0.5.23 write into their log and on /metrics, in the words of their own sources.

Each line follows the format string of that version: ``scheduler_metrics_mixin.py`` and ``metrics_reporter.py`` (decode
lines), ``engine.py`` (arguments), ``model_runner.py``, ``cuda_graph_setup.py`` and ``eagle_worker_v2.py`` (graphs),
``dflash_worker.py`` and ``dflash_worker_v2.py``, ``metrics_collector.py``.
"""

from __future__ import annotations

import pytest

from checks.data.metric_names import METRICS
from checks.serving import metrics
from checks.serving.enginelog import parse

OLD = """\
[2026-05-09 10:00:00] server_args=ServerArgs(model_path='Qwen/Qwen3.6-27B', host='127.0.0.1', port=8000, tp_size=2, \
speculative_algorithm='EAGLE', speculative_num_steps=3, speculative_num_draft_tokens=4, disable_cuda_graph=False)
[2026-05-09 10:00:20 TP0] sglang is using nccl==2.28.9
[2026-05-09 10:00:30] Spec v2 is enabled by default for eagle/eagle3/standalone speculative decoding.
[2026-05-09 10:01:00 TP0] Capture piecewise CUDA graph end. Time elapsed: 3.10 s. mem usage=0.40 GB. avail mem=9.00 GB.
{graphs}[2026-05-09 10:02:00 TP0] Prefill batch, #new-seq: 1, #new-token: 96, #cached-token: 0, \
full token usage: 0.00, mamba usage: 0.01, #running-req: 0, #queue-req: 0, cuda graph: False, \
input throughput (token/s): 12.00
{decode}"""
OLD_GRAPHS = "[2026-05-09 10:01:10 TP0] Capture cuda graph end. Time elapsed: 5.00 s. mem usage=0.90 GB.\n"
OLD_DECODE = """\
[2026-05-09 10:02:10 TP0] Decode batch, #running-req: 1, #full token: 200, full token usage: 0.01, mamba num: 2, \
mamba usage: 0.02, accept len: 2.95, accept rate: 0.65, cuda graph: True, gen throughput (token/s): 73.50, #queue-req: 0
"""
NEW = """\
[2026-11-01 10:00:00] server_args={{'model_path': 'Qwen/Qwen3.6-27B', 'host': '127.0.0.1', 'port': 8000, 'tp_size': 2, \
'speculative_algorithm': 'DFLASH', 'speculative_num_draft_tokens': 8, 'disable_cuda_graph': False}}
[2026-11-01 10:00:20 TP0] sglang is using nccl==2.30.7
[2026-11-01 10:00:40 TP0] DFLASH block size mismatch: using speculative_num_draft_tokens=8 but draft config \
block_size=16.
[2026-11-01 10:00:41 TP0] DFLASH draft runner ready. mask_token=<|MASK|>, mask_token_id=248070, \
mask_token_id_override=None, noise_embed_scale=None
[2026-11-01 10:01:00 TP0] Capture target prefill CUDA graph end. elapsed=3.10 s, mem usage=0.40 GB, avail mem=9.00 GB.
{graphs}{decode}"""
NEW_GRAPHS = "[2026-11-01 10:01:10 TP0] Capture target verify CUDA graph end. bs=[1, 2], elapsed=5.00 s.\n"
NEW_DECODE = """\
[2026-11-01 10:02:10 TP0] Decode batch, #running-req: 1, #full token: 200, full token usage: 0.01, mamba num: 2, \
mamba usage: 0.02, accept len: 5.20, accept rate: 0.60, cap len: 6.00, block accept len: 7.10, cuda graph: True, \
gen throughput (token/s): 120.25, #queue-req: 0
"""


@pytest.mark.parametrize(
    ("log", "graphs", "decode", "length", "rate", "nccl", "drafts"),
    [
        (OLD, OLD_GRAPHS, OLD_DECODE, 2.95, 73.5, "2.28.9", "4"),
        (NEW, NEW_GRAPHS, NEW_DECODE, 5.2, 120.25, "2.30.7", "8"),
    ],
    ids=["0.5.11", "0.5.23"],
)
def test_a_log_of_either_generation_says_length_speed_graphs_and_arguments(
    log: str, graphs: str, decode: str, length: float, rate: float, nccl: str, drafts: str
) -> None:
    facts = parse(log.format(graphs=graphs, decode=decode).splitlines())
    assert facts.engine == "sglang"
    assert facts.config["speculative_num_draft_tokens"] == drafts
    assert facts.config["tp_size"] == "2"
    assert facts.nccl == nccl
    assert [line.length for line in facts.statistics] == [length]
    assert facts.throughputs == (rate,)
    assert facts.graphs is True
    assert facts.most_running == 1


@pytest.mark.parametrize(("log", "graphs"), [(OLD, OLD_GRAPHS), (NEW, NEW_GRAPHS)], ids=["0.5.11", "0.5.23"])
def test_graphs_of_the_prefill_are_not_taken_for_those_of_decoding(log: str, graphs: str) -> None:
    assert parse(log.format(graphs="", decode="").splitlines()).graphs is None
    assert parse(log.format(graphs=graphs, decode="").splitlines()).graphs is True
    off = (OLD_DECODE if log is OLD else NEW_DECODE).replace("cuda graph: True", "cuda graph: False")
    assert parse(log.format(graphs=graphs, decode=off).splitlines()).graphs is False


@pytest.mark.parametrize(
    "line",
    [
        "Capture draft cuda graph end. Time elapsed: 1.00 s.",
        "Capture draft extend cuda graph end. Time elapsed: 1.00 s.",
        "Capture draft decode CUDA graph end. bs=[1]",
        "Capture target decode CUDA graph end. bs=[1]",
    ],
)
def test_graphs_of_the_drafter_count_under_each_of_their_names(line: str) -> None:
    assert parse([line]).graphs is True


def test_what_a_drafter_was_really_given_is_kept() -> None:
    facts = parse(NEW.format(graphs="", decode="").splitlines())
    assert facts.mask_token_id == 248070
    assert [note for note in facts.notes if note.startswith("DFLASH block size mismatch")]
    slow = "Non-overlap (synchronous) spec v2 is used for eagle/eagle3/standalone speculative decoding."
    assert parse([slow]).notes == (slow,)


PAGE = """\
# TYPE sglang:spec_accept_length gauge
sglang:spec_accept_length{{engine_type="unified",model_name="qwen",tp_rank="0"}} 2.95
sglang:spec_accept_rate{{engine_type="unified",model_name="qwen",tp_rank="0"}} 0.65
sglang:gen_throughput{{engine_type="unified",model_name="qwen",tp_rank="0"}} 73.5
sglang:num_running_reqs{{engine_type="unified",model_name="qwen",tp_rank="0"}} 1.0
sglang:num_queue_reqs{{engine_type="unified",model_name="qwen",tp_rank="0"}} 0.0
sglang:token_usage{{engine_type="unified",model_name="qwen",tp_rank="0"}} 0.02
sglang:is_cuda_graph{{engine_type="unified",model_name="qwen",tp_rank="0"}} 1.0
sglang:prompt_tokens_total{{model_name="qwen"}} 96.0
sglang:generation_tokens_total{{model_name="qwen"}} 295.0
sglang:time_to_first_token_seconds_sum{{model_name="qwen"}} 0.4
sglang:time_to_first_token_seconds_count{{model_name="qwen"}} 1.0
sglang:inter_token_latency_seconds_sum{{model_name="qwen"}} 4.0
sglang:inter_token_latency_seconds_count{{model_name="qwen"}} 294.0
{more}"""
MORE = """\
sglang:spec_num_draft_tokens{engine_type="unified",model_name="qwen",tp_rank="0"} 4.0
sglang:spec_verify_calls_total{model_name="qwen"} 100.0
"""


@pytest.mark.parametrize(
    ("more", "missing"), [("", {"drafts", "draft_slots"}), (MORE, set())], ids=["0.5.11", "0.5.23"]
)
def test_every_number_of_a_page_that_has_a_row_is_read(more: str, missing: set[str]) -> None:
    page = metrics.parse(PAGE.format(more=more))
    assert page.dialect == "sglang"
    unread = {row.field for row in METRICS if row.sglang and not page.by_engine(row.sglang)}
    assert unread == missing
    assert page.by_engine("sglang:spec_accept_length") == [2.95]
    assert page.per_position() is None
