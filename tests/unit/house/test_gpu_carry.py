"""scripts/gpu-carry: with doubles of what fetches and builds, all that a session needs comes together."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

DOUBLES = {
    "python3": 'case "$2" in hatchling) touch "$7/kpro-0-py3-none-any.whl" ;; *) echo "echo $ROOT" ;; esac',
    "pip": "exit 0",
    "apt-get": 'touch "$3.deb"',
}


@pytest.fixture
def checkout(repo_root: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / "scripts").mkdir(parents=True)
    (folder / ".venv/bin").mkdir(parents=True)
    shutil.copy(repo_root / "scripts/gpu-carry", folder / "scripts")
    (folder / "requirements.lock").write_text("pyinfra==3.0 \\\n    --hash=sha256:0\nuv==1.0\n")
    for name, body in DOUBLES.items():
        program(folder / ".venv/bin" / name, body)
    program(folder / "scripts/engine-tree", 'mkdir -p "$1" && echo "$PWD $*" >"$1/asked"')
    root = tmp_path / "root"
    (root / "usr/share/doc/bash").mkdir(parents=True)
    (root / "usr/share/doc/bash/README").write_text("long")
    (root / "usr/bin").mkdir()
    (root / "usr/bin/true").write_text("")
    with tarfile.open(tmp_path / "root.tar", "w") as tar:
        tar.add(root, ".")
    return folder


def program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\nset -eu\n{body}\n")
    path.chmod(0o755)


def carry(checkout: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [checkout / "scripts/gpu-carry", *words],
        env={
            **os.environ,
            "PIP": "pip",
            "ROOT": str(checkout.parent / "root.tar"),
            "XDG_CACHE_HOME": str(checkout.parent / "cache"),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_engine_comes_after_all_else_from_the_same_checkout(checkout: Path, tmp_path: Path) -> None:
    out, there = tmp_path / "out", tmp_path / "there.txt"
    there.write_text("torch==2.11.0\n")
    done = carry(checkout, str(out), "--engine", "vllm==0.20.1", "--there", str(there))
    assert done.returncode == 0, done.stderr
    assert (out / "engine/asked").read_text().split() == [
        *(str(checkout), str(out / "engine"), "vllm==0.20.1", str(there), "--python", "3.12")
    ]
    assert sorted(path.name for path in out.iterdir()) == [
        *("debs", "engine", "root.tar.xz", "strace", "versions.txt", "whl")
    ]
    with tarfile.open(out / "root.tar.xz") as tar:
        names = tar.getnames()
    assert "./usr/bin/true" in names
    assert not [name for name in names if name.startswith("./usr/share/doc/")]
    assert (out / "versions.txt").read_text() == "pyinfra==3.0\n"


@pytest.mark.parametrize("words", [(), ("OUT", "--engine", "vllm==0.20.1"), ("OUT", "--there", "FILE")])
def test_without_all_of_its_words_it_does_nothing(checkout: Path, words: tuple[str, ...]) -> None:
    done = carry(checkout, *words)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: scripts/gpu-carry")
    assert not (checkout / "OUT").exists()
