"""Compiles the C doubles of NVIDIA's libraries: once per machine and content, shared by all test workers.

    library("cuda")                                  a folder that holds libcuda.so.1
    library("cuda", hidden=("cuMemcpyPeerAsync",))   the same without that symbol

A double is a folder beside this file with C sources and, in ``SONAME``, the name it is loaded under. The folder
returned is for LD_LIBRARY_PATH. What is compiled is kept under the digest of sources and flags.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
FLAGS = ("-std=gnu11", "-O2", "-g", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror")
LIBRARIES = ("-lpthread", "-lm")


def library(name: str, *, hidden: tuple[str, ...] = (), soname: str | None = None) -> Path:
    """The folder of the compiled double ``name``, without the symbols ``hidden``.

    ``soname`` is for a double that stands under another name than its own. Raises FileNotFoundError for an
    unknown double, CalledProcessError when gcc refuses.
    """
    folder = HERE / name
    sources = sorted(folder.glob("*.c"))
    if not sources:
        raise FileNotFoundError(f"no double named {name}: {folder} holds no C source")
    soname = soname or (folder / "SONAME").read_text().strip()
    digest = hashlib.sha256(repr((FLAGS, LIBRARIES, hidden, soname)).encode())
    for file in (*sources, *sorted(folder.glob("*.h")), *sorted(HERE.glob("*.h"))):
        digest.update(f"{file.name}\0".encode() + file.read_bytes())
    place = _cache() / f"{name}-{digest.hexdigest()[:20]}"
    if not (place / soname).is_file():
        _compile(sources, place, soname, hidden)
    return place


def _cache() -> Path:
    """One folder per user; not that of a test's own home, which every test has anew."""
    cache = Path(tempfile.gettempdir()) / f"kpro-doubles-{os.getuid()}"
    cache.mkdir(mode=0o700, exist_ok=True)
    if cache.stat().st_uid != os.getuid():
        raise PermissionError(f"{cache} belongs to someone else")
    return cache


def _compile(sources: list[Path], place: Path, soname: str, hidden: tuple[str, ...]) -> None:
    """Beside the place and then renamed: a worker that looks meanwhile sees nothing or all of it."""
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".building-") as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        extra = [f"-Wl,-soname,{soname}"]
        if hidden:
            script = Path(scratch) / "hidden.map"
            script.write_text("{ local: " + " ".join(f"{symbol};" for symbol in hidden) + " };\n")
            extra.append(f"-Wl,--version-script={script}")
        argv = ["gcc", *FLAGS, *extra, f"-I{HERE}", "-o", str(made / soname), *map(str, sources), *LIBRARIES]
        subprocess.run(argv, check=True, capture_output=True, text=True, timeout=120)
        try:
            made.rename(place)
        except OSError:
            if not (place / soname).is_file():
                raise
