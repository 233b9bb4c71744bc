"""Reads a model folder as an engine would: configuration, vocabulary, weights. Refuses a broken one."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DTYPES = {
    1: ("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2"),
    2: ("I16", "U16", "F16", "BF16"),
    4: ("I32", "U32", "F32"),
    8: ("I64", "U64", "F64"),
}
BYTES = {dtype: size for size, dtypes in DTYPES.items() for dtype in dtypes}
# The safetensors format itself caps the header at 100 MB.
HEADER_LIMIT = 100_000_000
# Bytes of each end of a file that tell it from another one.
ENDS = 1 << 20


class ModelError(ValueError):
    """The folder is no model that could be served; the text names every reason."""

    def __init__(self, folder: Path, reasons: list[str]) -> None:
        super().__init__(f"{folder} cannot be served: " + "; ".join(reasons))
        self.reasons = reasons


@dataclass(frozen=True)
class Model:
    """``tokens``: text by id, ``ids`` the reverse. ``words``: ids that answers use. ``max_len`` in tokens.
    ``weights``, ``template``, ``tokenizer``: digests of the files (their ends)."""

    architecture: str
    tokens: dict[int, str]
    ids: dict[str, int]
    words: tuple[int, ...]
    eos: int
    unk: int
    max_len: int
    tensors: int
    weights: bytes = b""
    template: bytes = b""
    tokenizer: bytes = b""

    def encode(self, text: str) -> list[int]:
        """One id per white-space separated word; what is not in the vocabulary becomes the unknown token."""
        return [self.ids.get(word, self.unk) for word in text.split()]

    def spell(self, text: str) -> list[int]:
        """As ``encode``, but a word outside the vocabulary becomes one of its ordinary words, the same each time: so
        that two texts have two spellings, as with a real tokenizer."""
        return [
            self.ids[word] if word in self.ids else self._some(self.tokenizer + word.encode())
            for word in text.split()
        ]

    def render(self, messages: list[list[str]]) -> list[int]:
        """The ids of a chat: one that stands for the role, by the model's template, before each text."""
        found: list[int] = []
        for role, text in messages:
            found += [self._some(b"role:" + self.template + role.encode()), *self.spell(text)]
        return found

    def _some(self, word: bytes) -> int:
        return self.words[int.from_bytes(hashlib.sha256(word).digest()[:6], "big") % len(self.words)]

    def piece(self, token: int, first: bool) -> str:
        """The text that ``token`` adds to an answer. Special tokens add none."""
        if token not in self.tokens or token in (self.eos, self.unk):
            return ""
        return self.tokens[token] if first else " " + self.tokens[token]


def read_model(folder: Path) -> Model:
    """The model in ``folder``. Raises ``ModelError`` with all reasons when it cannot be served."""
    if not folder.is_dir():
        raise ModelError(folder, ["there is no such folder: give --model the folder that holds config.json"])
    reasons: list[str] = []
    config = _json(folder / "config.json", reasons)
    tokenizer = _json(folder / "tokenizer.json", reasons)
    architecture = _architecture(config, reasons) if config is not None else ""
    vocab_size = _positive(config, "vocab_size", reasons)
    max_len = _positive(config, "max_position_embeddings", reasons)
    hidden = _positive(config, "hidden_size", reasons)
    vocab, special = _vocabulary(tokenizer, reasons) if tokenizer is not None else ({}, set())
    if vocab_size and vocab and max(vocab.values()) >= vocab_size:
        reasons.append(
            f"tokenizer.json has id {max(vocab.values())}, config.json says vocab_size {vocab_size}: "
            "tokenizer and weights are of two models"
        )
    eos = config.get("eos_token_id") if config else None
    if config is not None and (not isinstance(eos, int) or (vocab and eos not in vocab.values())):
        reasons.append(
            f"eos_token_id {eos!r} of config.json is not in the vocabulary: an answer could not end"
        )
    weights_reasons: list[str] = []
    shapes = _weights(folder, weights_reasons)
    reasons += weights_reasons
    embedding = shapes.get("model.embed_tokens.weight")
    if not weights_reasons and embedding != [vocab_size, hidden]:
        reasons.append(
            f"model.embed_tokens.weight has shape {embedding}, config.json asks for {[vocab_size, hidden]}"
        )
    if reasons:
        raise ModelError(folder, reasons)
    assert isinstance(eos, int)
    assert tokenizer is not None
    tokens = {index: token for token, index in vocab.items()}
    unk = vocab.get(str(tokenizer["model"].get("unk_token")), eos)
    words = tuple(sorted(set(tokens) - special - {eos, unk}))
    if len(words) < 2:
        raise ModelError(folder, ["the vocabulary holds fewer than two ordinary tokens"])
    known = _digest(sorted(folder.glob("*.safetensors")))
    template = _digest([folder / name for name in ("tokenizer_config.json", "chat_template.jinja")])
    told = _digest([folder / "tokenizer.json"])
    return Model(architecture, tokens, vocab, words, eos, unk, max_len, len(shapes), known, template, told)


def _digest(files: list[Path]) -> bytes:
    """A digest of the ends of files, which is enough to tell models apart; those that are not there count as empty."""
    found = hashlib.sha256()
    for file in files:
        if file.is_file():
            with file.open("rb") as stream:
                found.update(stream.read(ENDS))
                stream.seek(max(ENDS, file.stat().st_size - ENDS))
                found.update(stream.read(ENDS))
        found.update(b"/")
    return found.digest()


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in ``path``. Raises ``ValueError`` with one readable reason."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path.name} is missing") from None
    except OSError as error:
        raise ValueError(f"{path.name} cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise ValueError(f"{path.name} is not JSON (cut off while it was copied?)") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path.name} is not a JSON object")
    return value


def _json(path: Path, reasons: list[str]) -> dict[str, Any] | None:
    try:
        return read_json(path)
    except ValueError as error:
        reasons.append(str(error))
        return None


def _architecture(config: dict[str, Any], reasons: list[str]) -> str:
    names = config.get("architectures")
    if isinstance(names, list) and names and isinstance(names[0], str):
        return names[0]
    reasons.append("config.json names no architectures")
    return ""


def _positive(config: dict[str, Any] | None, key: str, reasons: list[str]) -> int:
    if config is None:
        return 0
    value = config.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    reasons.append(f"{key} of config.json is {value!r}, a positive number is needed")
    return 0


def _vocabulary(tokenizer: dict[str, Any], reasons: list[str]) -> tuple[dict[str, int], set[int]]:
    model = tokenizer.get("model")
    vocab = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(vocab, dict) or not vocab or not all(type(index) is int for index in vocab.values()):
        reasons.append("tokenizer.json holds no model.vocab of words and numbers")
        return {}, set()
    if len(set(vocab.values())) != len(vocab) or min(vocab.values()) < 0:
        reasons.append("tokenizer.json gives one id to two words, or a negative id")
    added = tokenizer.get("added_tokens")
    entries = [entry for entry in added if isinstance(entry, dict)] if isinstance(added, list) else []
    return vocab, {entry["id"] for entry in entries if type(entry.get("id")) is int and entry.get("special")}


def _weights(folder: Path, reasons: list[str]) -> dict[str, list[int]]:
    """Name -> shape of every tensor of every safetensors file; the layout of each file is verified."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        reasons.append("there is no *.safetensors file")
    shapes: dict[str, list[int]] = {}
    for file in files:
        try:
            shapes.update(_safetensors(file))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            reasons.append(f"{file.name} is broken ({error or type(error).__name__})")
    return shapes


def _safetensors(file: Path) -> dict[str, list[int]]:
    """Shapes by name. Layout: 8 bytes of header length (little endian), JSON header, data without gaps."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        prefix = stream.read(8)
        length = int.from_bytes(prefix, "little")
        if len(prefix) < 8 or length > min(HEADER_LIMIT, size - 8):
            raise ValueError("no header: cut off, or a pointer file instead of the weights")
        header = json.loads(stream.read(length))
    shapes: dict[str, list[int]] = {}
    spans: list[tuple[int, int]] = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        count = 1
        for dimension in entry["shape"]:
            count *= dimension
        if end - begin != count * BYTES[entry["dtype"]]:
            raise ValueError(f"{name} has {end - begin} bytes, its shape needs another number")
        spans.append((begin, end))
        shapes[name] = list(entry["shape"])
    position = 0
    for begin, end in sorted(spans):
        if begin != position:
            raise ValueError(f"a gap or an overlap at byte {position}")
        position = end
    if size != 8 + length + position:
        raise ValueError(f"{size} bytes, its header says {8 + length + position}: not copied to the end?")
    return shapes
