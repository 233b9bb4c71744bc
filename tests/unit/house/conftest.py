"""The files of this checkout, as git has them; in an unpacked archive all that is not built here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

_BUILT = {".git", ".venv", ".cache", "__pycache__", ".hypothesis", "dist", "build"}


def git(root: Path, *arguments: str) -> str | None:
    """Output of git, or None where there is no git or no repository; also as root in a user's checkout."""
    try:
        done = subprocess.run(
            ["git", "-c", f"safe.directory={root}", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout


@pytest.fixture(scope="session")
def files(repo_root: Path) -> list[Path]:
    """Every file of the project that exists, relative to its top."""
    listed = git(repo_root, "ls-files", "-z")
    if listed is not None and git(repo_root, "rev-parse", "--show-prefix") == "\n":
        names = [Path(name) for name in listed.split("\0") if name]
    else:
        found = (path.relative_to(repo_root) for path in sorted(repo_root.rglob("*")))
        names = [path for path in found if not any(p in _BUILT or p.endswith("_cache") for p in path.parts)]
    return [name for name in names if (repo_root / name).is_file()]


@pytest.fixture(scope="session")
def texts(repo_root: Path, files: list[Path]) -> dict[Path, str]:
    """The text of every file that is text."""
    found: dict[Path, str] = {}
    for name in files:
        try:
            found[name] = (repo_root / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
    return found


@pytest.fixture(scope="session")
def messages(repo_root: Path) -> str:
    """All commit messages, empty without git."""
    return git(repo_root, "log", "--format=%an <%ae>%n%B") or ""
