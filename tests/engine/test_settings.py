"""What the engine really runs with is read from its own log and process, and held against what was wanted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.engine.rig import Engine, K, provcheck

IN_EFFECT: dict[str, dict[str, Any]] = {
    "plain": {"dtype": "float32", "tp": 1, "cuda_graphs": False},
    "ngram": {"method": "ngram", "k": K, "dtype": "bfloat16", "max_len": 1024},
    "good": {"method": "draft_model", "k": K, "dtype": "bfloat16", "max_seqs": 4},
}
WRONG: list[tuple[str, str, Any, str]] = [
    ("plain", "dtype", "bfloat16", "dtype is float32, wanted bfloat16"),
    ("plain", "method", "draft_model", "method is None, wanted draft_model"),
    ("good", "cuda_graphs", True, "cuda_graphs is False, wanted True"),
    ("good", "k", 5, "k is 4, wanted 5"),
    ("good", "method", "dflash", "method is draft_model, wanted dflash"),
    # These two stand on no command line: nothing but the log tells them.
    ("good", "dtype", "float32", "dtype is bfloat16, wanted float32"),
    ("bad", "kv_cache_dtype", "fp8", "kv_cache_dtype is auto, wanted fp8"),
    ("ngram", "max_len", 4096, "max_len is 1024, wanted 4096"),
]


def wanted(folder: Path, settings: dict[str, Any]) -> Path:
    file = folder / "wanted.json"
    file.write_text(json.dumps(settings))
    return file


@pytest.mark.parametrize("name", list(IN_EFFECT))
def test_settings_that_are_in_effect_pass(engines: dict[str, Engine], name: str, tmp_path: Path) -> None:
    engine = engines[name]
    file = wanted(tmp_path, IN_EFFECT[name])
    ran = provcheck("serve", *engine.seen, "--passive", "--wanted", file)
    assert ran.status("serve.settings") == "pass", ran.finding("serve.settings")


@pytest.mark.parametrize(("name", "key", "value", "told"), WRONG)
def test_a_wrong_setting_is_named_from_the_engines_own_log(
    engines: dict[str, Engine], name: str, key: str, value: Any, told: str, tmp_path: Path
) -> None:
    engine = engines[name]
    file = wanted(tmp_path, {key: value})
    ran = provcheck("serve", *engine.seen, "--passive", "--wanted", file)
    assert ran.code == 1
    found = ran.finding("serve.settings")
    assert (found["status"], found["cause"]) == ("fail", "settings")
    assert told in found["message"]


@pytest.mark.parametrize(("key", "value", "told"), [("k", 5, "k is 4, wanted 5"), ("max_len", 8, "wanted 8")])
def test_without_a_log_a_wrong_setting_is_named_from_the_process(
    engines: dict[str, Engine], key: str, value: Any, told: str, tmp_path: Path
) -> None:
    ran = provcheck("serve", engines["good"].url, "--passive", "--wanted", wanted(tmp_path, {key: value}))
    assert ran.code == 1
    assert told in ran.finding("serve.settings")["message"]


def test_a_setting_that_nothing_states_is_unknown_and_the_log_is_asked_for(
    engines: dict[str, Engine], measured: object, tmp_path: Path
) -> None:
    file = wanted(tmp_path, {"dtype": "bfloat16"})
    ran = provcheck("serve", engines["good"].url, "--passive", "--wanted", file)
    assert ran.code == 3
    found = ran.finding("serve.settings")
    assert (found["status"], "dtype" in found["message"]) == ("unknown", True)
    assert "log" in found["fix"]


@pytest.mark.parametrize("with_log", [True, False])
def test_an_engine_on_cpus_is_not_blamed_for_graphs_that_it_cannot_have(
    engines: dict[str, Engine], measured: object, with_log: bool
) -> None:
    engine = engines["good"]
    log = ("--log", engine.log) if with_log else ()
    ran = provcheck("serve", engine.url, "--passive", *log)
    assert (ran.code, ran.verdict, ran.status("serve.graphs")) == (0, "pass", "skip")


def test_version_drafter_and_target_are_the_engines_own(engines: dict[str, Engine]) -> None:
    engine = engines["bad"]
    facts = provcheck(
        "serve",
        *engine.seen,
        "--passive",
    ).facts
    assert (facts["engine"], facts["version"]) == ("vllm", "0.32.0")
    settings = facts["settings"]
    assert [Path(settings[key]).name for key in ("model", "drafter")] == ["target", "bad"]


def test_server_info_names_a_wrong_setting_without_a_log(engines: dict[str, Engine], tmp_path: Path) -> None:
    engine = engines["ngram"]
    right = provcheck("serve", engine.url, "--passive", "--wanted", wanted(tmp_path, {"dtype": "bfloat16"}))
    assert right.status("serve.settings") == "pass", right.finding("serve.settings")
    wrong = provcheck("serve", engine.url, "--passive", "--wanted", wanted(tmp_path, {"dtype": "float16"}))
    assert "dtype is bfloat16, wanted float16" in wrong.finding("serve.settings")["message"]
