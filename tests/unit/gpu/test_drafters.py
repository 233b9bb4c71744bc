"""The faulty drafters of a session have one fault each, and files show those that files can show."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from checks.cli import main
from tests.gpu import drafters

SHAPES = {
    "fc.weight": [8, 24],
    "hidden_norm.weight": [8],
    "norm.weight": [8],
    **{f"layers.{at}.mlp.up_proj.weight": [16, 8] for at in range(3)},
}
CONFIG = {
    "architectures": ["DFlashDraftModel"],
    "vocab_size": 64,
    "hidden_size": 8,
    "num_hidden_layers": 3,
    "rope_theta": 1000000,
    "block_size": 8,
    "dflash_config": {"mask_token_id": 60, "target_layer_ids": [1, 5, 9]},
}


@pytest.fixture
def made(tmp_path: Path) -> Path:
    for name, byte in (("drafter", 1), ("untrained", 0)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(CONFIG))
        tensors = {}
        for at, (tensor, shape) in enumerate(SHAPES.items()):
            size = 2
            for length in shape:
                size *= length
            tensors[tensor] = ({"dtype": "BF16", "shape": shape}, bytes([byte + at]) * size)
        drafters.write(folder / "model.safetensors", tensors)
    drafters.make(tmp_path / "drafter", tmp_path / "untrained", tmp_path / "made")
    return tmp_path / "made"


def config(made: Path, name: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((made / name / "config.json").read_text())
    return found


def test_the_good_one_says_its_layers_as_the_engine_counts_them(made: Path) -> None:
    assert config(made, "good") == {**CONFIG, drafters.TAPS: [2, 6, 10]}
    assert drafters.read(made / "good/model.safetensors") == drafters.read(
        made.parent / "drafter/model.safetensors"
    )


def test_a_faulty_config_has_one_fault_and_the_good_weights(made: Path) -> None:
    good = config(made, "good")
    differ = {
        name: {key for key in {**good, **config(made, name)} if good.get(key) != config(made, name).get(key)}
        for name in drafters.CONFIGS
    }
    assert differ == {
        "good": set(),
        "mask": {"dflash_config"},
        "theta": {"rope_theta"},
        "early": {drafters.TAPS},
        "unshifted": {drafters.TAPS},
    }
    for name in drafters.CONFIGS:
        assert (made / name / "model.safetensors").read_bytes() == (
            made / "good/model.safetensors"
        ).read_bytes()


def test_faulty_weights_come_with_the_good_config(made: Path) -> None:
    good = drafters.read(made / "good/model.safetensors")
    for name in (*drafters.WEIGHTS, "untrained"):
        assert config(made, name) == config(made, "good")
    assert set(good) - set(drafters.read(made / "fc/model.safetensors")) == {"fc.weight"}
    swapped = drafters.read(made / "swapped/model.safetensors")
    assert swapped["layers.0.mlp.up_proj.weight"][1] == good["layers.2.mlp.up_proj.weight"][1]
    assert swapped["layers.1.mlp.up_proj.weight"] == good["layers.1.mlp.up_proj.weight"]
    assert {name: entry[1] for name, entry in swapped.items()} != {
        name: entry[1] for name, entry in good.items()
    }


def test_what_is_written_is_a_safetensors_file(made: Path) -> None:
    data = (made / "good/model.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    assert (8 + size) % 8 == 0
    header = json.loads(data[8 : 8 + size])
    assert max(entry["data_offsets"][1] for name, entry in header.items() if name[0] != "_") == len(data) - (
        8 + size
    )


@pytest.mark.parametrize(("name", "id"), [("theta", "drafter.rope"), ("fc", "drafter.tensors")])
def test_files_show_a_missing_theta_and_a_missing_tensor(
    made: Path, name: str, id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target = made.parent / "target"
    target.mkdir()
    (target / "config.json").write_text(
        json.dumps(
            {
                "architectures": ["Qwen3ForCausalLM"],
                "hidden_size": 8,
                "num_hidden_layers": 12,
                "rope_theta": 1000000,
                "vocab_size": 64,
            }
        )
    )
    failing = {}
    for which in ("good", name):
        main(
            [
                "drafter",
                str(made / which),
                "--target",
                str(target),
                "--engine",
                "vllm==0.20.1",
                "--json",
            ]
        )
        report = json.loads(capsys.readouterr().out)
        failing[which] = {
            (f["id"], f["message"]) for f in report["findings"] if f["status"] in ("fail", "unknown")
        }
    assert id in {found for found, _ in failing[name] - failing["good"]}
