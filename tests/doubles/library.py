"""Shared libraries with a name and nothing in them, for the linker to find."""

from __future__ import annotations

import subprocess
import tempfile
from functools import cache
from pathlib import Path


@cache
def library(soname: str) -> bytes:
    """An ELF file of that SONAME. Needs a C compiler."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / soname
        command = [
            "cc",
            "-shared",
            "-nostdlib",
            "-x",
            "c",
            "/dev/null",
            f"-Wl,-soname,{soname}",
            "-o",
            str(made),
        ]
        subprocess.run([*command, "-s"], check=True, capture_output=True)
        return made.read_bytes()
