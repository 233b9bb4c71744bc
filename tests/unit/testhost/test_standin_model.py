"""A model folder is read as an engine reads it; a broken one is refused with every reason."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from provision.testhost.model import VOCAB, safetensors
from provision.testhost.standin.kpro_standin.model import Model, ModelError, read_model


@pytest.fixture
def copy(model_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model_folder, tmp_path / "copy"))


def edit(**changes: Any) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, **changes}))

    return apply


def cut(name: str, size: int) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:size])


def put(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(content) and None


def test_a_whole_folder_is_read(model: Model) -> None:
    assert (model.architecture, len(model.tokens), model.max_len) == ("Qwen3ForCausalLM", VOCAB, 4096)
    assert model.eos not in model.words
    assert model.unk not in model.words
    assert model.encode("baba nowhere") == [model.ids["baba"], model.unk]


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda f: (f / "config.json").unlink(), "config.json is missing"),
        (lambda f: (f / "tokenizer.json").unlink(), "tokenizer.json is missing"),
        (lambda f: (f / "model.safetensors").unlink(), "no \\*.safetensors file"),
        (put("config.json", b"[]"), "config.json is not a JSON object"),
        (put("config.json", b"\xff"), "config.json is not JSON"),
        (cut("tokenizer.json", 500), "tokenizer.json is not JSON .cut off"),
        (put("tokenizer.json", b'{"model": {"vocab": {"a": "b"}}}'), "no model.vocab of words"),
        (put("tokenizer.json", b'{"model": {"vocab": {"a": 0, "b": 0}}}'), "one id to two words"),
        (put("tokenizer.json", b'{"model": {"vocab": {"a": 0}}}'), "fewer than two ordinary tokens"),
        (edit(architectures=[]), "names no architectures"),
        (edit(vocab_size=None), "vocab_size of config.json is None"),
        (edit(vocab_size=511), "tokenizer.json has id 511, config.json says vocab_size 511"),
        (edit(vocab_size=600), "has shape .512, 32., config.json asks for .600, 32."),
        (edit(hidden_size=64), "has shape .512, 32., config.json asks for .512, 64."),
        (edit(eos_token_id=99999), "eos_token_id 99999"),
        (edit(max_position_embeddings=True), "max_position_embeddings"),
        (cut("model.safetensors", 5), "no header"),
        (cut("model.safetensors", 70_000), "not copied to the end"),
        (put("model.safetensors", b"version https://git-lfs.github.com/spec/v1"), "a pointer file"),
        (put("model.safetensors", (2).to_bytes(8, "little") + b"[]"), "model.safetensors is broken"),
        (put("model.safetensors", safetensors({})), "model.embed_tokens.weight has shape None"),
        (put("model.safetensors", safetensors({"a": ([2], b"123")})), "a has 3 bytes"),
    ],
)
def test_a_broken_folder_is_refused_with_its_reason(
    copy: Path, spoil: Callable[[Path], None], reason: str
) -> None:
    read_model(copy)
    spoil(copy)
    with pytest.raises(ModelError, match=reason):
        read_model(copy)


def test_a_gap_between_tensors_is_refused(copy: Path) -> None:
    entry = {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}
    header = json.dumps({"a": entry}).encode()
    (copy / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"xx")
    with pytest.raises(ModelError, match="a gap or an overlap at byte 0"):
        read_model(copy)


def test_all_reasons_are_said_at_once(copy: Path) -> None:
    edit(architectures=None, hidden_size=0)(copy)
    (copy / "model.safetensors").unlink()
    with pytest.raises(ModelError) as refused:
        read_model(copy)
    assert len(refused.value.reasons) == 3


def test_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such folder"):
        read_model(tmp_path / "nowhere")
