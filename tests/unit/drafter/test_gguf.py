"""GGUF drafters: metadata is read, bounded; ids there count from 1, and an engine that cannot load the
file is told."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.cli import main
from checks.drafter.case import Case
from checks.drafter.engine import Engine
from checks.drafter.gguf import BadGguf, read_metadata
from checks.drafter.observe import observe
from tests.unit.drafter.makers import family_pair


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def pair(key: str, value: Any) -> bytes:
    if isinstance(value, str):
        return text(key) + struct.pack("<I", 8) + text(value)
    if isinstance(value, float):
        return text(key) + struct.pack("<If", 6, value)
    if isinstance(value, list) and value and isinstance(value[0], str):
        return text(key) + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    if isinstance(value, list):
        return text(key) + struct.pack(f"<IIQ{len(value)}I", 9, 4, len(value), *value)
    return text(key) + struct.pack("<II", 4, value)


META: dict[str, Any] = {
    "general.architecture": "dflash",
    "dflash.block_count": 5,
    "dflash.embedding_length": 4096,
    "dflash.feed_forward_length": 12288,
    "dflash.attention.head_count": 32,
    "dflash.attention.head_count_kv": 8,
    "dflash.attention.key_length": 128,
    "dflash.attention.layer_norm_rms_epsilon": 1e-6,
    "dflash.rope.freq_base": 1e6,
    "dflash.context_length": 262144,
    "dflash.block_size": 16,
    "dflash.vocab_size": 151936,
    "dflash.target_layers": [2, 10, 18, 26, 34],
    "tokenizer.ggml.tokens": ["a", "b"] * 50,
    "tokenizer.ggml.mask_token_id": 151669,
}


def gguf(meta: dict[str, Any]) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(meta)) + b"".join(pair(k, v) for k, v in meta.items())


def case_of(root: Path, engine: str, meta: dict[str, Any] = META) -> Case:
    from checks.data.drafter_families import FAMILIES

    family = family_pair(next(row for row in FAMILIES if row.name == "Qwen3-8B-DFlash-b16"))
    family.shapes, family.config = {}, None
    drafter, target = family.write(root)
    (drafter / "draft.gguf").write_bytes(gguf(meta))
    return observe(drafter, target, Engine.parse(engine))


def test_ids_of_a_gguf_file_count_from_one(tmp_path: Path) -> None:
    case = case_of(tmp_path, "llama.cpp")
    assert case.written_ids == ("dflash.target_layers", (2, 10, 18, 26, 34))
    assert case.captured_layers == case.meant_layers == (1, 9, 17, 25, 33)
    assert case.expected.families == ("Qwen3-8B-DFlash-b16",)


def test_an_engine_that_cannot_load_it_is_told_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = case_of(tmp_path, "vllm==0.33.0")
    call = ["drafter", case.drafter.path, "--target", case.target.path, "--engine", "vllm==0.33.0", "--json"]
    assert main(call) == 1
    findings = {item["id"]: item for item in json.loads(capsys.readouterr().out)["findings"]}
    assert "subtract 1" in findings["drafter.engine"]["fix"]
    assert findings["drafter.tensors"]["status"] == "unknown"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"GGML" + b"\0" * 40, "does not start with GGUF"),
        (b"GG", "cut off"),
        (gguf(META)[:200], "cut off"),
        (b"GGUF" + struct.pack("<IQQ", 9, 0, 0), "version 9"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**40), "claims"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**40), "claims a text"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("a") + struct.pack("<I", 99), "unknown type"),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("a") + struct.pack("<IIQ", 9, 8, 2**50),
            "claims lists",
        ),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("a") + struct.pack("<IIQ", 9, 9, 1), "unknown type"),
    ],
)
def test_a_damaged_or_hostile_file_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "x.gguf").write_bytes(content)
    with pytest.raises(BadGguf, match=said):
        read_metadata(tmp_path / "x.gguf")


@given(st.binary(max_size=300))
def test_no_bytes_end_in_anything_but_the_one_exception(tmp_path_factory: Any, content: bytes) -> None:
    path = tmp_path_factory.mktemp("gguf") / "x.gguf"
    path.write_bytes(b"GGUF\x03\0\0\0" + content)
    with suppress(BadGguf):
        read_metadata(path)


def test_another_model_in_gguf_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = case_of(tmp_path, "llama.cpp")
    (Path(case.drafter.path) / "draft.gguf").write_bytes(gguf({**META, "general.architecture": "llama"}))
    assert main(["drafter", case.drafter.path, "--target", case.target.path, "--engine", "llama.cpp"]) == 2
    assert "not a DFlash drafter" in capsys.readouterr().err
