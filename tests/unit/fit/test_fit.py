"""``provcheck fit`` from folders: what fits, what does not, what cannot be said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checks.cli import main
from checks.fit.files import read_folder
from checks.fit.gpus import parse_gpus
from checks.fit.shape import read_shape
from checks.fit.weights import weights

from .conftest import DFLASH_27B, QWEN3_8B, QWEN36_27B, Folder, write_safetensors

TOTAL_27B = 55_561_000_000
"""BF16 bytes of the published 27B, vision tower and MTP head included."""


@pytest.fixture
def fit(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, dict[str, Any]]]:
    """Runs the command and returns its exit code and its JSON report (empty on bad input)."""

    def run(path: Path, *args: str, engine: str = "vllm==0.20.1") -> tuple[int, dict[str, Any]]:
        code = main(["fit", str(path), "--engine", engine, "--json", *args])
        out = capsys.readouterr().out
        return code, json.loads(out) if out else {}

    return run


Fit = Callable[..., tuple[int, dict[str, Any]]]


def found(report: dict[str, Any], identity: str, subject: str | None = None) -> dict[str, Any]:
    return next(f for f in report["findings"] if f["id"] == identity and subject in (None, f["subject"]))


def test_the_27b_fits_two_a6000_from_config_and_index_alone(folder: Folder, fit: Fit) -> None:
    model = folder("q", QWEN36_27B, total=TOTAL_27B)
    code, report = fit(model, "--gpus", "2xA6000", "--context", "131072")
    assert (code, report["verdict"]) == (0, "pass")
    assert found(report, "fit.weights")["value"] == pytest.approx(25.87, abs=0.01)


def test_the_same_model_does_not_fit_two_3090_and_the_way_out_is_named(folder: Folder, fit: Fit) -> None:
    model = folder("q", QWEN36_27B, total=TOTAL_27B)
    code, report = fit(model, "--gpus", "2x3090", "--context", "32768")
    memory = found(report, "fit.memory")
    assert (code, memory["status"]) == (1, "fail")
    assert memory["cause"] == "the weights alone are larger than the engine's share of a GPU"
    assert memory["fix"] == "use 4 such GPUs"
    assert fit(model, "--gpus", "4x3090", "--context", "32768")[0] == 0


def test_the_context_it_offers_fits_and_one_block_more_does_not_surely(folder: Folder, fit: Fit) -> None:
    model = folder("q", QWEN3_8B, total=16_381_516_800)
    code, report = fit(model, "--gpus", "1x3090", "--context", "40960")
    memory = found(report, "fit.memory")
    assert memory["status"] in ("warn", "fail")
    offered = int(memory["fix"].split("--max-model-len to ")[1].split(";")[0])
    assert code == (1 if memory["status"] == "fail" else 0)
    assert (
        found(fit(model, "--gpus", "1x3090", "--context", str(offered))[1], "fit.memory")["status"] == "pass"
    )
    assert (
        found(fit(model, "--gpus", "1x3090", "--context", str(offered + 512))[1], "fit.memory")["status"]
        != "pass"
    )


def test_every_single_change_it_offers_is_enough(folder: Folder, fit: Fit) -> None:
    model = folder("q", QWEN36_27B, total=TOTAL_27B)
    asked = ["--gpus", "2xA6000", "--context", "262144"]
    fix = found(fit(model, *asked, "--memory-fraction", "0.75")[1], "fit.memory")["fix"]
    assert "--kv-cache-dtype fp8" in fix
    assert "--gpu-memory-utilization 0.94" in fix
    for change in (["--memory-fraction", "0.94"], ["--memory-fraction", "0.75", "--kv-cache-dtype", "fp8"]):
        assert found(fit(model, *asked, *change)[1], "fit.memory")["status"] == "pass"


def test_sglang_needs_states_for_verified_drafts_and_the_pair_it_offers_is_enough(
    folder: Folder, fit: Fit
) -> None:
    model = folder("q", QWEN36_27B, total=TOTAL_27B)
    asked = ["--gpus", "2xA6000", "--context", "131072", "--mtp", "-k", "4"]
    code, report = fit(model, *asked, engine="sglang==0.5.11")
    memory = found(report, "fit.memory")
    assert (code, memory["status"]) == (1, "fail")
    assert "--mem-fraction-static 0.80" in memory["fix"]
    assert "lower --max-running-requests to 8" in memory["fix"]
    pair = ["--memory-fraction", "0.8", "--max-requests", "8"]
    assert fit(model, *asked, *pair, engine="sglang==0.5.11")[0] == 0


def test_a_drafter_adds_its_weights_and_its_cache(folder: Folder, fit: Fit) -> None:
    model, drafter = folder("q", QWEN36_27B, total=TOTAL_27B), folder("d", DFLASH_27B, total=3_460_000_000)
    asked = ["--gpus", "2xA6000", "--context", "131072"]
    plain = fit(model, *asked)[1]["facts"]
    drafted = fit(model, *asked, "--drafter", str(drafter), "-k", "15")[1]["facts"]
    assert drafted["weights_gib"] - plain["weights_gib"] == pytest.approx(1.61, abs=0.02)
    assert drafted["request_gib"] > plain["request_gib"]


def test_a_drafters_windows_save_cache_only_where_the_engine_honours_them(folder: Folder, fit: Fit) -> None:
    model, drafter = folder("q", QWEN3_8B, total=10**9), folder("d", DFLASH_27B, total=10**9)
    asked = ["--gpus", "1xA6000", "--context", "40960", "--drafter", str(drafter), "-k", "15"]
    old, new = (
        fit(model, *asked, engine=f"vllm=={v}")[1]["facts"]["request_gib"] for v in ("0.24.0", "0.25.0")
    )
    assert new < old


MIB = 1 << 20


@pytest.mark.parametrize(
    ("tp", "size"),
    [(1, 16 * MIB + 8192), (2, 8 * MIB + 8192), (8, 2 * MIB + 8192), (16, MIB // 2 + MIB + 8192)],
)
def test_weights_from_headers_know_what_is_sharded_replicated_and_not_loaded(
    folder: Folder, tp: int, size: int
) -> None:
    """8 MiB embedding, 8 MiB keys of 8 heads stored in 32 bits, a norm that every rank holds, an MTP head."""
    tensors = {
        "model.embed_tokens.weight": ("BF16", [1024, 4096]),
        "model.layers.0.self_attn.k_proj.weight": ("F32", [1024, 4096]),
        "model.layers.0.input_layernorm.weight": ("BF16", [4096]),
        "mtp.fc.weight": ("BF16", [4096, 8192]),
        "model.visual.patch.weight": ("BF16", [512, 1024]),
    }
    model = read_folder(folder("q", QWEN3_8B, tensors=tensors))
    shape = read_shape(model.config)
    known = weights(model, shape, tp, mtp=False, text_only=True)
    assert known is not None
    assert known.per_gpu == size
    assert sorted(known.left_out.values()) == [MIB, 64 * MIB]
    everything = weights(model, shape, tp, mtp=True, text_only=False)
    assert everything is not None
    assert everything.whole == (16 + 64 + 1) * MIB + 8192


def test_without_any_size_the_answer_is_unknown_and_not_green(folder: Folder, fit: Fit) -> None:
    code, report = fit(folder("q", QWEN3_8B), "--gpus", "2xA6000", "--context", "4096")
    assert (code, report["verdict"]) == (3, "unknown")
    assert "model.safetensors.index.json" in found(report, "fit.weights")["fix"]


@pytest.mark.parametrize(
    "change",
    [
        {"layer_types": ["mamba"] * 36},
        {"layer_types": ["conv"] * 36},
        {"hybrid_override_pattern": "M-M*"},
        {"layer_types": ["sliding_attention"] * 36},
    ],
)
def test_a_layer_kind_that_is_not_understood_is_said_and_not_guessed(
    folder: Folder, fit: Fit, change: dict[str, Any]
) -> None:
    code, report = fit(folder("q", QWEN3_8B | change, total=10**9), "--gpus", "2xA6000", "--context", "4096")
    assert (code, found(report, "fit.cache")["status"]) == (3, "unknown")
    assert fit(folder("ok", QWEN3_8B, total=10**9), "--gpus", "2xA6000", "--context", "4096")[0] == 0


def test_heads_that_do_not_divide_and_ranks_without_a_gpu_are_refused(folder: Folder, fit: Fit) -> None:
    model = folder("q", QWEN36_27B, total=TOTAL_27B)
    three = found(fit(model, "--gpus", "3xA6000", "--context", "4096")[1], "fit.ranks")
    assert (three["status"], three["fix"]) == ("fail", "use --tp 2")
    assert (
        found(fit(model, "--gpus", "2xA6000", "--tp", "4", "--context", "4096")[1], "fit.ranks")["status"]
        == "fail"
    )
    assert found(fit(model, "--gpus", "2xA6000", "--context", "4096")[1], "fit.ranks")["status"] == "pass"


def test_a_context_beyond_the_models_positions_is_refused(folder: Folder, fit: Fit) -> None:
    model = folder("q", QWEN3_8B, total=10**9)
    assert found(fit(model, "--gpus", "1xH200", "--context", "40961")[1], "fit.positions")["status"] == "fail"
    assert found(fit(model, "--gpus", "1xH200", "--context", "40960")[1], "fit.positions")["status"] == "pass"


def test_gpus_are_read_from_a_recorded_dump_and_the_smallest_decides(
    folder: Folder, fit: Fit, tmp_path: Path
) -> None:
    memory = {"total": 150754820096, "reserved": 644939776, "free": 1, "used": 1}
    small = {"total": 25757220864, "reserved": 0, "free": 1, "used": 1}
    for name, second in (("even", memory), ("uneven", small)):
        dump = {"nvmlInit": 0, "devices": [{"memv2": memory}, {"memv2": second}]}
        (tmp_path / f"{name}.json").write_text(json.dumps(dump))
    model = folder("q", QWEN36_27B, total=TOTAL_27B)
    code, report = fit(model, "--gpus", str(tmp_path / "even.json"), "--context", "262144")
    assert (code, report["facts"]["usable_gib"]) == (0, 139.8)
    assert fit(model, "--gpus", str(tmp_path / "uneven.json"), "--context", "262144")[0] == 1


@pytest.mark.parametrize("gpus", ["", "0xA6000", "2xVoodoo", "99999xA6000", "2x", "x" * 5000])
def test_gpus_that_nobody_knows_are_bad_input(folder: Folder, fit: Fit, gpus: str) -> None:
    assert fit(folder("q", QWEN3_8B, total=10**9), "--gpus", gpus, "--context", "4096")[0] == 2


HOSTILE: dict[str, bytes] = {
    "not json": b"{",
    "nested": b'{"a":' * 200_000 + b"1" + b"}" * 200_000,
    "huge number": b'{"num_hidden_layers": 1' + b"0" * 5000 + b"}",
    "negative": json.dumps(QWEN3_8B | {"num_hidden_layers": -1}).encode(),
    "many layers": json.dumps(QWEN3_8B | {"num_hidden_layers": 10**9}).encode(),
    "text": json.dumps(QWEN3_8B | {"hidden_size": "4096"}).encode(),
    "NaN": b'{"hidden_size": NaN}',
    "list": b"[]",
    "empty": b"",
    "other": b"{}",
    "wrong count": json.dumps(QWEN3_8B | {"layer_types": ["full_attention"]}).encode(),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_config_is_bad_input_in_one_line(
    folder: Folder, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    model = folder("q", QWEN3_8B, total=10**9)
    (model / "config.json").write_bytes(content)
    code = main(["fit", str(model), "--engine", "vllm==0.20.1", "--gpus", "2xA6000", "--context", "4096"])
    captured = capsys.readouterr()
    assert (code, captured.out, captured.err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(
    "index",
    [
        b'{"metadata":{"total_size":-1}}',
        b'{"metadata":{"total_size":"big"}}',
        b'{"metadata":{"total_size":1e300}}',
        b"{",
    ],
)
def test_a_hostile_index_is_bad_input(folder: Folder, fit: Fit, index: bytes) -> None:
    model = folder("q", QWEN3_8B)
    (model / "model.safetensors.index.json").write_bytes(index)
    assert fit(model, "--gpus", "2xA6000", "--context", "4096")[0] == 2


def test_a_lying_safetensors_header_is_bad_input(folder: Folder, fit: Fit) -> None:
    model = folder("q", QWEN3_8B)
    (model / "model.safetensors").write_bytes((1 << 30).to_bytes(8, "little") + b"{}")
    assert fit(model, "--gpus", "2xA6000", "--context", "4096")[0] == 2
    write_safetensors(model / "model.safetensors", {"a.weight": ("BF16", [16, 16])})
    assert fit(model, "--gpus", "2xA6000", "--context", "4096")[0] == 0


def test_a_folder_of_more_tensors_than_any_model_is_bad_input(
    folder: Folder, fit: Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = folder("q", QWEN3_8B, tensors={f"t{i}.weight": ("BF16", [2, 2]) for i in range(20)})
    assert fit(model, "--gpus", "2xA6000", "--context", "4096")[0] == 0
    monkeypatch.setattr("checks.fit.files.MAX_TENSORS", 19)
    assert fit(model, "--gpus", "2xA6000", "--context", "4096")[0] == 2


def test_a_missing_shard_falls_back_to_the_index(folder: Folder, fit: Fit) -> None:
    model = folder("q", QWEN3_8B)
    index = {"metadata": {"total_size": 10**9}, "weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    for name, source in (("1", "index"), ("other", "index"), ("2", "headers")):
        write_safetensors(model / f"{name}.safetensors", {f"{name}.weight": ("BF16", [16, 16])})
        _, report = fit(model, "--gpus", "2xA6000", "--context", "4096")
        assert f"from the {source}" in found(report, "fit.weights")["message"]


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("2xA6000", 47.53),
        ("NVIDIA RTX A6000", 47.53),
        ("H100 80GB HBM3", 79.14),
        ("A100-SXM4-40GB", 39.25),
        ("4 x RTX 3090", 23.55),
        ("1x48G", 47.04),
        ("H200", 139.8),
        ("NVIDIA B200", 178.35),
        ("l40s", 44.34),
    ],
)
def test_gpus_have_what_programs_see_of_them_and_not_what_the_label_says(name: str, gib: float) -> None:
    assert parse_gpus(name).least / (1 << 30) == pytest.approx(gib, abs=0.01)
