"""What the tokenizer files say about single ids, without loading a tokenizer.

``tokenizer.json`` is ten megabytes of vocabulary: it is searched for one number, not parsed.
"""

from __future__ import annotations

import mmap
import re
from pathlib import Path

from checks.bounded_json import read_object
from checks.drafter.folder import Tokens

MAX_BYTES = 8 * 2**20
_MAX_VOCABULARY_BYTES = 256 * 2**20


def read_tokens(folder: Path) -> Tokens | None:
    """Reads ``tokenizer_config.json`` and notes where ``tokenizer.json`` is. Raises BadJson or OSError."""
    settings, vocabulary = folder / "tokenizer_config.json", folder / "tokenizer.json"
    added: dict[int, str] = {}
    if settings.is_file():
        table = read_object(settings, MAX_BYTES).get("added_tokens_decoder")
        for key, value in table.items() if isinstance(table, dict) else ():
            content = value.get("content") if isinstance(value, dict) else None
            if key.isdecimal() and len(key) < 12 and isinstance(content, str):
                added[int(key)] = content
    if not added and not vocabulary.is_file():
        return None
    return Tokens(added, str(vocabulary) if vocabulary.is_file() else None)


def is_ordinary(tokens: Tokens, token_id: int) -> bool | None:
    """Whether the vocabulary itself (not the added tokens) contains this id; None when that cannot be told.

    Byte-pair vocabularies write ``"token": id``, so the id stands behind a colon. Raises OSError.
    """
    if token_id in tokens.added:
        return False
    if tokens.vocabulary is None:
        return None
    path = Path(tokens.vocabulary)
    with path.open("rb") as stream:
        if not 0 < path.stat().st_size <= _MAX_VOCABULARY_BYTES:
            return None
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as text:
            if re.search(rb'"vocab"\s*:\s*\{', text) is None:
                return None
            return re.search(rb'(?<!"id)":\s*%d\s*[,}]' % token_id, text) is not None
