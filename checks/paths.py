"""Files on the command line: an empty name is none, and ``-`` is the standard input where a file is read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click


class File(click.Path):
    """As ``click.Path`` for a file, given as a Path; ``read``: ``-`` means the standard input."""

    def __init__(self, *, read: bool = False) -> None:
        super().__init__(dir_okay=False, path_type=Path)
        self.read = read

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        if not os.fspath(value):
            self.fail("an empty text names no file.", param, ctx)
        if self.read and value == "-":
            return Path("/dev/stdin")
        return super().convert(value, param, ctx)


WRITTEN, READ = File(), File(read=True)
