"""What the machine is told to fetch. It goes over standard input, for it may hold a token."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

DEFAULT_ENDPOINT = "https://huggingface.co"
RESERVE = 1 << 30
"""Bytes that stay free on the disk of the models."""


@dataclass(frozen=True)
class Order:
    """``directory`` is where the files are to lie; ``path`` a folder of the machine to copy them from instead of the
    hub; ``progress`` a file that holds the last line of progress."""

    repo: str
    revision: str
    directory: str
    role: str = "model"
    files: tuple[str, ...] | None = None
    endpoint: str = DEFAULT_ENDPOINT
    token: str | None = field(default=None, repr=False)
    path: str | None = None
    reserve: int = RESERVE
    tries: int = 5
    progress: str = "/run/kpro/progress"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Order:
        """Raises ValueError or TypeError when the text is no order."""
        given = json.loads(text)
        files = given.pop("files")
        return cls(files=None if files is None else tuple(files), **given)

    @property
    def staging(self) -> str:
        """Where the files lie until all of them are there and verified; the same for every try."""
        parent, name = self.directory.rsplit("/", 1)
        return f"{parent}/.incoming/{name}"
