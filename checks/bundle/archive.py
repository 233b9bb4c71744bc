"""The bundle itself: what was taken, what was left out and why, packed so that the same content is the same file."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field

ITEM_LIMIT = 4 << 20
TOTAL_LIMIT = 24 << 20
_CUT = "\n[cut here: the rest is beyond {limit} MiB]\n"


@dataclass
class Content:
    """Files by their name in the bundle; ``left_out`` says for each name why it is not there, or not whole."""

    files: dict[str, bytes] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, data: bytes, *, tail: bool = False) -> None:
        """Keeps the head of what is too long, or of a log its ``tail``. Beyond the total nothing is kept."""
        if len(data) > ITEM_LIMIT:
            cut = _CUT.format(limit=ITEM_LIMIT >> 20).encode()
            data = cut + data[-ITEM_LIMIT:] if tail else data[:ITEM_LIMIT] + cut
            self.left_out[name] = (
                f"cut at {ITEM_LIMIT >> 20} MiB, the {'end' if tail else 'beginning'} is kept"
            )
        if sum(map(len, self.files.values())) + len(data) > TOTAL_LIMIT:
            self.left_out[name] = f"the bundle holds {TOTAL_LIMIT >> 20} MiB already"
            return
        self.files[name] = data

    def manifest(self, made: str, removed: Mapping[str, int]) -> bytes:
        """MANIFEST.json: what is inside, what is not and why, and how much was taken out of the texts."""
        whole = {
            "schema": "provcheck-bundle/1",
            "made": made,
            "files": {name: len(data) for name, data in sorted(self.files.items())},
            "left_out": dict(sorted(self.left_out.items())),
            "removed": dict(sorted(removed.items())),
        }
        return (json.dumps(whole, indent=2) + "\n").encode()


def packed(files: Mapping[str, bytes], folder: str) -> bytes:
    """A .tar.gz of plain files, mode 0600, below one folder."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mode = len(data), 0o600
            archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(out.getvalue(), mtime=0)
