"""Small wheels and a repository that builds one, made on the spot: no index and no build tool is asked."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ENGINE = """\
NAME = "standin"


def answer():
    first = 1
    second = 2
    return first + second
"""
"""The module of an engine that can be patched."""

_BACKEND = '''\
"""A build backend without dependencies."""

import os
import sys

FIXED = ""
sys.path.insert(0, os.path.dirname(__file__))
from wheels import wheel


def build_wheel(directory, config_settings=None, metadata_directory=None):
    import pathlib

    sources = {str(p): p.read_text() for p in pathlib.Path("kpro_standin").rglob("*.py")}
    version = FIXED or os.environ["SETUPTOOLS_SCM_PRETEND_VERSION"]
    sources["kpro_standin/jobs.txt"] = os.environ.get("MAX_JOBS", "none")
    return wheel(pathlib.Path(directory), "kpro_standin", version, sources, ("kpro_dep",)).name
'''


def wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, str],
    requires: Sequence[str] = (),
    tag: str = "",
) -> Path:
    """A wheel with these files and dependencies; ``tag`` by default py3-none-any."""
    info = f"{name}-{version}.dist-info"
    tag = tag or "py3-none-any"
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    whole = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    rows = [f"{path},{digest(text.encode())},{len(text.encode())}" for path, text in whole.items()]
    whole[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""])
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(made, "w") as archive:
        for path, text in whole.items():
            archive.writestr(path, text)
    return made


def digest(data: bytes) -> str:
    """As RECORD writes it."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def engine_wheels(folder: Path, module: str = ENGINE, version: str = "1.0.0") -> Path:
    """The stand-in engine and what it needs."""
    wheel(
        folder,
        "kpro_standin",
        version,
        {"kpro_standin/__init__.py": "", "kpro_standin/core.py": module},
        ["kpro-dep"],
    )
    wheel(folder, "kpro_dep", "1.0", {"kpro_dep.py": "VERSION = '1.0'\n"})
    return folder


def repository(folder: Path, module: str = ENGINE, version: str = "") -> str:
    """A git repository of the engine; returns its commit. ``version``: what it says itself to be, whatever is asked."""
    (folder / "kpro_standin").mkdir(parents=True)
    (folder / "kpro_standin/__init__.py").write_text("")
    (folder / "kpro_standin/core.py").write_text(module)
    (folder / "backend").mkdir()
    (folder / "backend/backend.py").write_text(_BACKEND.replace('FIXED = ""', f"FIXED = {version!r}"))
    (folder / "backend/wheels.py").write_text(Path(__file__).read_text())
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["backend"]\n'
        '[project]\nname = "kpro-standin"\ndynamic = ["version"]\n'
    )
    for words in (
        ["init", "--quiet"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "-m", "engine"],
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True
    )
    return head.stdout.strip()


def patch(
    old: str = "    second = 2\n", new: str = "    second = 3\n", path: str = "kpro_standin/core.py"
) -> str:
    """A unified diff of the engine's module."""
    import difflib

    lines = difflib.unified_diff(
        ENGINE.splitlines(keepends=True),
        ENGINE.replace(old, new).splitlines(keepends=True),
        f"a/{path}",
        f"b/{path}",
    )
    return "".join(lines)
