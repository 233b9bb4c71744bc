"""requirements.lock: one file for every supported Python, by hash, without addresses, current."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


@pytest.fixture(scope="module")
def toml(repo_root: Path) -> dict[str, Any]:
    return tomllib.loads((repo_root / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def entries(repo_root: Path) -> list[str]:
    """Requirements of the lock, continued lines joined."""
    text = (repo_root / "requirements.lock").read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_every_locked_package_is_pinned_and_has_hashes(entries: list[str]) -> None:
    assert len(entries) > 30
    for entry in entries:
        pinned = r"[a-z0-9.-]+==\S+( ; [^#]+?)?( +--hash=sha256:[0-9a-f]{64})+"
        assert re.fullmatch(pinned, entry.strip()), entry


def test_the_lock_names_no_address_and_no_path(repo_root: Path) -> None:
    assert not re.search(r"://|^-|file:| @ |/", (repo_root / "requirements.lock").read_text(), re.MULTILINE)


def test_every_dependency_is_locked_at_a_version_that_pyproject_allows(
    entries: list[str], toml: dict[str, Any]
) -> None:
    locked = {
        canonicalize_name(name): version for name, version in (e.split()[0].split("==") for e in entries)
    }
    wanted = (
        toml["project"]["dependencies"] + toml["dependency-groups"]["dev"] + toml["build-system"]["requires"]
    )
    for text in wanted:
        requirement = Requirement(text)
        version = locked.get(canonicalize_name(requirement.name))
        assert version is not None, f"{text} is not locked"
        assert version in requirement.specifier, f"{text}: {version} is locked"


def _copy(repo_root: Path, folder: Path) -> Path:
    (folder / "scripts").mkdir()
    (folder / ".venv" / "bin").mkdir(parents=True)
    for name in ("scripts/lock", "pyproject.toml", "requirements.lock"):
        shutil.copy(repo_root / name, folder / name)
    for tool in ("python", "uv"):
        (folder / ".venv" / "bin" / tool).symlink_to(shutil.which("python3") or "/usr/bin/python3")
    return folder


def _check(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([folder / "scripts/lock", "--check"], capture_output=True, text=True, check=False)


def test_the_lock_was_made_for_this_pyproject(repo_root: Path, tmp_path: Path) -> None:
    done = _check(_copy(repo_root, tmp_path))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_dependency_added_without_locking_is_noticed(repo_root: Path, tmp_path: Path) -> None:
    copy = _copy(repo_root, tmp_path)
    toml = (copy / "pyproject.toml").read_text()
    (copy / "pyproject.toml").write_text(toml.replace('"rich>=13"', '"rich>=14"'))
    done = _check(copy)
    assert done.returncode == 1
    assert "run scripts/lock" in done.stderr
