"""The two hashes that the hub knows files by: SHA-256 of large ones, git's blob SHA-1 of small ones."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from provision.hub.select import HubFile

CHUNK = 1 << 20


@dataclass(frozen=True)
class Hashes:
    """In hexadecimal digits."""

    sha256: str
    blob: str

    def agrees(self, file: HubFile) -> bool:
        """Is it the file that the hub lists? One that is listed without any hash never is."""
        if file.sha256:
            return self.sha256 == file.sha256
        return bool(file.blob) and self.blob == file.blob

    def of(self, file: HubFile) -> str:
        """The one that the hub compares."""
        return self.sha256 if file.sha256 else self.blob


def hashed(path: Path) -> Hashes:
    """Reads the whole file once."""
    sha256 = hashlib.sha256()
    # git's name of a blob is SHA-1 by its definition; nothing secret rests on it here, sizes are compared too.
    blob = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as stream:
        while block := stream.read(CHUNK):
            sha256.update(block)
            blob.update(block)
    return Hashes(sha256.hexdigest(), blob.hexdigest())
