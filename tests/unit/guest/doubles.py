"""Stand-ins for programs of a host: they answer what they were given and exit 99 on anything else."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Doubles:
    """A folder for the front of PATH."""

    folder: Path

    def answer(self, program: str, *lines: str) -> None:
        """``lines`` are cases of a shell ``case "$*" in``."""
        path = self.folder / program
        note = f'printf "%s\\n" "{program} $*" >> {shlex.quote(str(self.log))}'
        never = f'*) echo "{program}: not answered: $*" >&2; exit 99;;'
        path.write_text("\n".join(["#!/bin/sh", note, 'case "$*" in', *lines, never, "esac", ""]))
        path.chmod(0o755)

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def asked(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []
