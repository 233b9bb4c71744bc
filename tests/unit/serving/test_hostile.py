"""Whatever a page, a log or a record holds, the answer is a verdict or one clear line, never a traceback."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.cli import main
from checks.errors import BadInput
from checks.serving import baseline, counters, enginelog, metrics, record
from checks.serving.observation import Observation
from checks.serving.report import report

GOOD = """vllm:spec_decode_num_drafts_total{engine="0"} 1000.0
vllm:spec_decode_num_draft_tokens_total{engine="0"} 2000.0
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 1100.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 700.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 400.0
vllm:generation_tokens_total{engine="0"} 2100.0
"""


def _replay(folder: Path, page: str, before: str | None = None) -> int:
    (folder / "case.metrics.txt").write_text(page)
    if before is not None:
        (folder / "case.before.txt").write_text(before)
    return main(["serve", "--replay", str(folder / "case"), "--diagnose", "--output", "/dev/null"])


def test_a_good_page_is_judged(tmp_path: Path) -> None:
    assert _replay(tmp_path, GOOD) == 0


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("nan", GOOD.replace("700.0", "NaN")),
        ("infinite", GOOD.replace("1000.0", "+Inf")),
        ("negative", GOOD.replace("1100.0", "-5")),
        ("absurd", GOOD.replace("2000.0", "1e300")),
        ("no number", GOOD.replace("1000.0", "many")),
        ("cut off", GOOD[:-60] + 'vllm:generation_tokens_total{engine="0'),
        ("position beyond any block", GOOD.replace('position="1"', 'position="99999999999"')),
        ("position no number", GOOD.replace('position="1"', 'position="x"')),
        ("more accepted than drafted", GOOD.replace("1100.0", "2500.0").replace("700.0", "1900.0")),
        ("positions against total", GOOD.replace("1100.0", "300.0")),
        ("a position accepts more than was drafted", GOOD.replace("700.0", "1500.0")),
        ("megabytes", GOOD + "# filler\n" * 600_000),
        ("one endless line", 'vllm:generation_tokens_total{a="' + "x" * 100_000 + '"} 1\n'),
        (
            "a flood of samples",
            "".join(f'vllm:generation_tokens_total{{a="{n}"}} 1\n' for n in range(25_000)),
        ),
    ],
)
def test_a_page_that_cannot_be_true_is_exit_2_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, page: str
) -> None:
    assert _replay(tmp_path, page) == 2, name
    told = capsys.readouterr().err
    assert told.startswith("provcheck: ")
    assert len(told.splitlines()) == 1


def test_a_counter_that_went_backwards_is_exit_2_and_says_restart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _replay(tmp_path, GOOD, before=GOOD.replace("1000.0", "5000.0")) == 2
    assert "restarted" in capsys.readouterr().err


def test_a_huge_file_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "case.metrics.txt"
    with path.open("wb") as file:
        file.truncate(2 << 30)
    tracemalloc.start()
    try:
        with pytest.raises(BadInput, match="larger than"):
            record.load(str(tmp_path / "case"))
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_of_a_log_of_any_size_head_and_tail_are_read(tmp_path: Path) -> None:
    path = tmp_path / "case.log.txt"
    with path.open("wb") as file:
        file.write(b"INFO non-default args: {'model': 'm', 'tensor_parallel_size': 2}\n")
        file.seek(1 << 30)
        file.write(b"\nERROR EngineDeadError: EngineCore encountered an issue\n")
    text = record.read_log(path)
    assert len(text) <= record.LOG_HEAD + record.LOG_TAIL + 1
    facts = enginelog.parse(text.splitlines())
    assert facts.args["tensor_parallel_size"] == 2
    assert [error.row for error in facts.errors] == ["engine_dead"]


PIECES = [
    "SpecDecoding metrics: Mean acceptance length: ",
    "Accepted: ",
    " tokens, ",
    "Drafted: ",
    "Per-position acceptance rate: ",
    "Using auxiliary layers from speculative config: (",
    "non-default args: {",
    "server_args=ServerArgs(",
    "Decode batch",
    "#running-req: ",
    "accept len: ",
    "mat1 and mat2 shapes cannot be multiplied (",
    "x",
    " and ",
    ")",
    "}",
    "'a': ",
    "=",
    ",",
    "[",
    "1.2.3",
    "9" * 5000,
    "0.5",
    "-1",
    "nan",
    "NVRM: Xid (PCI:0): 43, pid=1, name=VLLM",
    "Initializing a V1 LLM engine (v0.20.1) with config: ",
    "\n",
    "\x00",
]


@given(st.lists(st.sampled_from(PIECES), max_size=60))
def test_no_log_makes_a_traceback(pieces: list[str]) -> None:
    report(Observation(log="".join(pieces), after=GOOD), with_diagnosis=True)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**14), 10**14)
    | st.floats(allow_nan=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        "vocab_size",
        "rope_theta",
        "eos_token_id",
        "block_size",
        "num_target_layers",
        "dflash_config",
        "architectures",
        "layer_types",
        "eagle_aux_hidden_state_layer_ids",
        "hidden_size",
        "num_hidden_layers",
        "rope_parameters",
        "target_layer_ids",
        "mask_token_id",
    ]
)


@given(st.dictionaries(FIELDS, VALUES, max_size=10), st.dictionaries(FIELDS, VALUES, max_size=10))
def test_no_drafter_config_makes_a_traceback(outer: dict[str, Any], inner: dict[str, Any]) -> None:
    config = {**outer, "dflash_config": inner}
    seen = Observation(
        after=GOOD, drafter_config=config, target_config=outer, drafter_tensors={"fc.weight": inner}
    )
    report(seen, with_diagnosis=True)


KEYS = st.sampled_from(
    [
        "before",
        "after",
        "log",
        "config",
        "drafter_config",
        "drafter_tensors",
        "target_config",
        "window",
        "passive",
    ]
)
PARTS = st.dictionaries(
    st.sampled_from(
        [
            "proc",
            "server_info",
            "version",
            "engine",
            "tok_s",
            "output",
            "speculation",
            "requests",
            "thinking",
            "kinds",
            "internal_states",
            "vllm_config",
            "cmdline",
            "environ",
            "1",
            "faults",
            "histogram",
            "verify_calls",
            "tokens",
        ]
    ),
    VALUES,
    max_size=5,
)


@given(
    st.dictionaries(
        KEYS,
        VALUES
        | PARTS
        | st.dictionaries(st.sampled_from(["proc", "server_info", "output"]), PARTS, max_size=2),
        max_size=5,
    )
)
def test_no_record_makes_a_traceback(tmp_path_factory: pytest.TempPathFactory, serve: dict[str, Any]) -> None:
    path = tmp_path_factory.mktemp("r") / "record.json"
    path.write_text(
        json.dumps(
            {
                "schema": "provcheck-record/1",
                "taken": None,
                "host": None,
                "sections": [],
                "nvml": None,
                "serve": serve,
            }
        )
    )
    assert main(["serve", "--replay", str(path), "--diagnose", "--output", "/dev/null"]) in (0, 1, 2, 3)


@given(st.dictionaries(st.sampled_from(list(baseline.Baseline.__dataclass_fields__)), VALUES, max_size=8))
def test_no_baseline_makes_a_traceback(data: dict[str, Any]) -> None:
    try:
        base = baseline.from_json(data, "x")
    except BadInput:
        return
    report(Observation(after=GOOD), (base,), with_diagnosis=True)


@given(st.text(max_size=300))
def test_no_page_makes_a_traceback(text: str) -> None:
    try:
        counters.of_page(metrics.parse(GOOD + text))
    except BadInput:
        return
