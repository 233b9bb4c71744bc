"""A running service's drafter is judged by the drafter doctor, from whatever of its files was recorded."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from checks.cli import main
from checks.errors import BadInput
from checks.serving import files, live, record
from checks.serving.observation import Observation
from checks.serving.report import report

CONFIG: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    "vocab_size": 4096,
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "intermediate_size": 128,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "num_target_layers": 12,
    "rope_theta": 1000000,
    "block_size": 8,
    "dflash_config": {"mask_token_id": 4090, "target_layer_ids": [1, 5, 9]},
    "eagle_aux_hidden_state_layer_ids": [2, 6, 10],
}
TARGET: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "vocab_size": 4096,
    "hidden_size": 64,
    "num_hidden_layers": 12,
    "rope_theta": 1000000,
    "eos_token_id": 0,
}
LAYER = ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")
SHAPES: dict[str, list[int]] = {
    "fc.weight": [64, 192],
    "hidden_norm.weight": [64],
    "norm.weight": [64],
    "layers.0.input_layernorm.weight": [64],
    "layers.0.post_attention_layernorm.weight": [64],
    **{f"layers.0.self_attn.{part}.weight": [64, 64] for part in LAYER[:4]},
    **{f"layers.0.self_attn.{part}.weight": [32] for part in LAYER[4:]},
    "layers.0.mlp.gate_proj.weight": [128, 64],
    "layers.0.mlp.up_proj.weight": [128, 64],
    "layers.0.mlp.down_proj.weight": [64, 128],
}


def _model(folder: Path, config: dict[str, Any], shapes: dict[str, list[int]] | None = None) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    if shapes is not None:
        header: dict[str, Any] = {}
        end = 0
        for name, shape in shapes.items():
            size = 2
            for side in shape:
                size *= side
            header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
            end += size
        raw = json.dumps(header).encode()
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(raw)) + raw + bytes(end))
    return folder


def _seen(drafter: Path, target: Path | None) -> Observation:
    log = (
        "INFO non-default args: {'model': 'm', 'speculative_config': {'method': 'dflash', 'model': 'd',"
        " 'num_speculative_tokens': 7}}\n"
        "INFO Initializing a V1 LLM engine (v0.20.1) with config: model='m', tensor_parallel_size=1\n"
        "INFO Using auxiliary layers from speculative config: (2, 6, 10)\n"
    )
    return live.with_files(Observation(log=log), drafter, target)


def _told(seen: Observation) -> dict[str, tuple[str, str]]:
    return {finding.id: (finding.status.value, finding.message) for finding in report(seen).findings}


def test_a_drafter_that_fits_its_target_is_compared_with_it(tmp_path: Path) -> None:
    told = _told(_seen(_model(tmp_path / "d", CONFIG, SHAPES), _model(tmp_path / "t", TARGET)))
    assert told["serve.drafter_config"] == ("pass", "nothing in the drafter's config contradicts itself")
    assert told["serve.tensors"][0] == "pass"
    assert told["serve.layers"][0] == "pass"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"rope_theta": 10000}, "rope_theta 10000 is 100 times too low"),
        ({"vocab_size": 3000}, "vocab_size 3000 is smaller than the target's 4096"),
        ({"num_target_layers": 36}, "num_target_layers is 36, the target has 12"),
        ({"dflash_config": {"mask_token_id": 0, "target_layer_ids": [1, 5, 9]}}, "end-of-text"),
        ({"dflash_config": {"mask_token_id": 5000, "target_layer_ids": [1, 5, 9]}}, "beyond the target's"),
        ({"num_attention_heads": 7}, "num_attention_heads 7, weights 2"),
        ({"eagle_aux_hidden_state_layer_ids": [2, 6]}, "2 ids, but fc.weight is 192 wide"),
    ],
)
def test_a_field_that_contradicts_target_or_weights_fails(
    tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    drafter = _model(tmp_path / "d", {**CONFIG, **changes}, SHAPES)
    told = _told(_seen(drafter, _model(tmp_path / "t", TARGET)))
    assert told["serve.drafter_config"][0] == "fail"
    assert says in told["serve.drafter_config"][1]


def test_a_missing_tensor_is_read_from_the_header_though_every_number_is_healthy(tmp_path: Path) -> None:
    shapes = {name: shape for name, shape in SHAPES.items() if name != "hidden_norm.weight"}
    told = _told(_seen(_model(tmp_path / "d", CONFIG, shapes), _model(tmp_path / "t", TARGET)))
    assert told["serve.tensors"] == ("fail", "1 tensors are missing: hidden_norm.weight")


def test_a_mask_token_that_the_tokenizer_emits_fails_and_survives_the_record(tmp_path: Path) -> None:
    target = _model(tmp_path / "t", TARGET)
    (target / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"a": 1, "b": 4090}}}))
    seen = _seen(_model(tmp_path / "d", CONFIG, SHAPES), target)
    path = tmp_path / "record.json"
    path.write_bytes(record.to_record(seen).dump())
    for one in (seen, record.load(str(path))):
        status, told = _told(one)["serve.drafter_config"]
        assert (status, "is an ordinary token" in told) == ("fail", True)
    (target / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"a": 1, "b": 2}}}))
    assert _told(_seen(tmp_path / "d", target))["serve.drafter_config"][0] == "pass"


def test_a_published_relative_names_the_right_values_without_target_or_weights() -> None:
    guess = {
        "architectures": ["DFlashDraftModel"],
        "vocab_size": 248320,
        "hidden_size": 5120,
        "num_hidden_layers": 5,
        "num_target_layers": 64,
        "block_size": 16,
        "dflash_config": {"mask_token_id": 248077, "target_layer_ids": [1, 17, 33, 49, 63]},
    }
    told = _told(Observation(log=_seen_log((1, 17, 33, 49, 63)), drafter_config=guess))
    status, message = told["serve.drafter_config"]
    assert status == "fail"
    for part in ("248077 where 248070", "4 of 5 ids are off", "becomes 10000: 1000 times too low"):
        assert part in message
    assert told["serve.layers"][0] == "fail"
    assert "one layer early" not in told["serve.layers"][1]


def _seen_log(layers: tuple[int, ...]) -> str:
    return (
        "INFO non-default args: {'model': 'm', 'speculative_config': {'method': 'dflash', 'model': 'd',"
        " 'num_speculative_tokens': 15}}\n"
        "INFO Initializing a V1 LLM engine (v0.20.1) with config: model='m', tensor_parallel_size=2\n"
        f"INFO Using auxiliary layers from speculative config: {layers}\n"
    )


def test_a_cut_off_header_is_bad_input_and_no_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drafter = _model(tmp_path / "d", CONFIG, SHAPES)
    (drafter / "model.safetensors").write_bytes(struct.pack("<Q", 1 << 30) + b"{}")
    with pytest.raises(BadInput):
        files.add(Observation(), drafter, None)
    (tmp_path / "case.log.txt").write_text("INFO x\n")
    code = main(["serve", "--replay", str(tmp_path / "case"), "--drafter", str(drafter)])
    assert code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_folder_that_is_not_ours_to_read_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _model(tmp_path / "d", CONFIG, SHAPES)
    log = f"INFO Initializing a V1 LLM engine (v0.20.1) with config: model='{folder}', x=1\n"
    assert live.with_files(Observation(log=log), None, None).target_config is not None
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert live.with_files(Observation(log=log), None, None).target_config is None


RELATIVE: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"],
    "vocab_size": 248320,
    "hidden_size": 5120,
    "num_hidden_layers": 5,
    "num_target_layers": 64,
    "block_size": 16,
    "rope_theta": 10000000,
    "dflash_config": {"mask_token_id": 248070, "target_layer_ids": [1, 16, 31, 46, 61]},
}


def _measured(config: dict[str, Any], layers: tuple[int, ...], share: float) -> dict[str, tuple[str, str]]:
    lines = [
        "vllm:spec_decode_num_drafts_total 1000",
        "vllm:spec_decode_num_draft_tokens_total 15000",
        f"vllm:spec_decode_num_accepted_tokens_total {sum(round(1000 * share**n) for n in range(1, 16))}",
        *(
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{n - 1}"}} {round(1000 * share**n)}'
            for n in range(1, 16)
        ),
    ]
    log = _seen_log(layers).replace("v0.20.1", "v0.33.0")
    return _told(Observation(after="\n".join(lines) + "\n", log=log, drafter_config=config))


@pytest.mark.parametrize(
    ("inner", "layers", "status"),
    [
        ({}, (2, 17, 32, 47, 62), "pass"),
        ({"mask_token_id": 248060}, (2, 17, 32, 47, 62), "pass"),
        ({"target_layer_ids": [3, 18, 33, 48, 63]}, (4, 19, 34, 49, 64), "warn"),
    ],
)
def test_healthy_numbers_refute_what_only_a_published_relative_would_have_otherwise(
    inner: dict[str, Any], layers: tuple[int, ...], status: str
) -> None:
    config = {**RELATIVE, "dflash_config": {**RELATIVE["dflash_config"], **inner}}
    well = _measured(config, layers, 0.8)
    assert well["serve.drafter_config"][0] == status
    assert well["serve.layers"][0] == status
    if inner:
        assert _measured(config, layers, 0.1)["serve.drafter_config"][0] == "fail"


def test_a_mix_of_windows_that_a_running_engine_did_not_refuse_is_no_failure() -> None:
    mixed = {
        **RELATIVE,
        "layer_types": ["sliding_attention"] * 4 + ["full_attention"],
        "sliding_window": 2048,
        "use_sliding_window": True,
    }
    assert _measured(mixed, (2, 17, 32, 47, 62), 0.8)["serve.drafter_config"][0] == "pass"
