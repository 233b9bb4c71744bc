"""Reads the metadata of a GGUF drafter, bounded, and brings it into the form of a config.json.

Layout: magic, version, number of tensors, number of pairs, then pairs of key, type, value (ggml-org/ggml,
docs/gguf.md). Layer ids there are counted from 1 (ggml-org/llama.cpp#25792); they stay in their own field so
that nobody forgets.
"""

from __future__ import annotations

import os
import stat
import struct
from pathlib import Path
from typing import Any, BinaryIO

MAX_PAIRS = 4096
MAX_ITEMS = 2**20
MAX_TEXT = 2**20
MAX_KEPT = 4096
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_FORMS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9


class BadGguf(ValueError):
    """The file is no GGUF file that can be trusted; the message says why."""


def read_metadata(path: Path) -> dict[str, Any]:
    """All scalars, and lists of numbers of at most MAX_KEPT items; longer ones are skipped.

    Raises BadGguf, OSError.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise BadGguf(f"{path.name} is not a regular file")
    with path.open("rb") as stream:
        reader = _Reader(stream, path.name, path.stat().st_size)
        if reader.take(4) != b"GGUF":
            raise BadGguf(f"{path.name} does not start with GGUF: another format, or damaged")
        version = reader.number(4)
        if version not in (2, 3):
            raise BadGguf(f"{path.name} has GGUF version {version}; 2 and 3 are known")
        reader.number(10)
        pairs = reader.number(10)
        if pairs > MAX_PAIRS:
            raise BadGguf(f"{path.name} claims {pairs} metadata pairs, far beyond any real file")
        found: dict[str, Any] = {}
        for _ in range(pairs):
            key = reader.text()
            value = reader.value(reader.number(4))
            if value is not None:
                found[key] = value
        return found


class _Reader:
    """Takes values off the stream; every length is checked against what is left of the file."""

    def __init__(self, stream: BinaryIO, name: str, size: int) -> None:
        self._stream, self._name, self._left = stream, name, size
        self._items = 0

    def take(self, count: int) -> bytes:
        if count > self._left:
            raise BadGguf(f"{self._name} is cut off, or a length in it lies; download it again")
        self._left -= count
        return self._stream.read(count)

    def skip(self, count: int) -> None:
        if count > self._left:
            raise BadGguf(f"{self._name} is cut off, or a length in it lies; download it again")
        self._left -= count
        self._stream.seek(count, os.SEEK_CUR)

    def number(self, kind: int) -> Any:
        form = _FORMS.get(kind)
        if form is None:
            raise BadGguf(f"{self._name} has a value of unknown type {kind}")
        return struct.unpack("<" + form, self.take(_SIZES[kind]))[0]

    def text(self) -> str:
        length = self.number(10)
        if length > MAX_TEXT:
            raise BadGguf(f"{self._name} claims a text of {length} bytes")
        return self.take(length).decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        if kind == _TEXT:
            return self.text()
        return self._list() if kind == _LIST else self.number(kind)

    def _list(self) -> list[Any] | None:
        kind, count = self.number(4), self.number(10)
        self._items += count
        if self._items > MAX_ITEMS * 2:
            raise BadGguf(f"{self._name} claims lists of {self._items} items")
        if kind == _TEXT:
            for _ in range(count):
                self.skip(self.number(10))
            return None
        if kind not in _SIZES:
            raise BadGguf(f"{self._name} has a list of unknown type {kind}")
        if count > MAX_KEPT:
            self.skip(count * _SIZES[kind])
            return None
        return [self.number(kind) for _ in range(count)]


_NAMES = {
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "rope_theta": "rope.freq_base",
    "max_position_embeddings": "context_length",
    "block_size": "block_size",
    "vocab_size": "vocab_size",
    "sliding_window": "attention.sliding_window",
}


def to_config(metadata: dict[str, Any]) -> dict[str, Any]:
    """Metadata as the fields of a config.json. Raises BadGguf when it is no DFlash drafter."""
    kind = metadata.get("general.architecture")
    if kind != "dflash":
        raise BadGguf(f"the GGUF file holds a {str(kind)[:40]!r} model, not a DFlash drafter")
    config: dict[str, Any] = {
        name: value for name, key in _NAMES.items() if (value := metadata.get(f"dflash.{key}")) is not None
    }
    config["architectures"] = ["DFlashDraftModel"]
    config["dflash.target_layers"] = metadata.get("dflash.target_layers")
    config["mask_token_id"] = metadata.get("tokenizer.ggml.mask_token_id")
    pattern = metadata.get("dflash.attention.sliding_window_pattern")
    if isinstance(pattern, list):
        config["layer_types"] = ["sliding_attention" if slides else "full_attention" for slides in pattern]
        config["use_sliding_window"] = any(pattern)
    return config
