"""A small tree: the layout of an installed package, made by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from provision.spec import Engine
from provision.stack.engine.desired import DesiredEngine, desired_engine


def lay(folder: Path, version: str = "0.20.1", name: str = "vllm") -> Path:
    """A package as pip leaves it in a folder."""
    package, info = folder / name, folder / f"{name}-{version}.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    (package / "__init__.py").write_text(f'__version__ = "{version}"\n')
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nText\nVersion: 9\n"
    )
    (info / "RECORD").write_text(f"{name}/__init__.py,sha256=abc,24\n{info.name}/RECORD,,\n")
    return folder


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return lay(tmp_path / "site")


@pytest.fixture
def engine(site: Path, tmp_path: Path) -> DesiredEngine:
    other = tmp_path / "other"
    other.mkdir()
    return desired_engine(
        Engine(
            kind="vllm",
            version="0.20.1",
            source="tree",
            python="{}.{}".format(*sys.version_info),
            interpreter=sys.executable,
            folders=(str(site), str(other)),
        )
    )
