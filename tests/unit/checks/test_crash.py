"""A crash of the interpreter leaves the place where it was; a command that ends as it should leaves no word of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

READ_AT_0 = "lambda *_, **__: ctypes.string_at(0)"
PROVISION = "import click; from provision import cli; click.Group.main = {}; cli.main()"
PROVCHECK = "from checks import cli; cli._run = {}; raise SystemExit(cli.main([]))"


def run(text: str, body: str, folder: Path, before: str = "") -> subprocess.CompletedProcess[str]:
    no_core = "import ctypes, os, resource, sys; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))"
    code = f"{no_core}; sys.path.insert(0, {str(ROOT)!r}); {before}\n{text.format(body)}"
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONFAULTHANDLER"}
    words = [sys.executable, "-c", code]
    return subprocess.run(
        words, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize(("text", "place"), [(PROVISION, "entry.py"), (PROVCHECK, "checks/cli.py")])
def test_a_crash_of_the_interpreter_says_where_it_was(text: str, place: str, tmp_path: Path) -> None:
    done = run(text, READ_AT_0, tmp_path)
    assert done.returncode == -signal.SIGSEGV
    assert done.stderr.startswith("Fatal Python error: Segmentation fault")
    assert place in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", [PROVISION, PROVCHECK])
def test_one_that_does_not_crash_says_nothing_of_it(text: str, tmp_path: Path) -> None:
    done = run(text, "lambda *_, **__: 0", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_other_file_gets_it_where_stderr_was_closed(tmp_path: Path) -> None:
    closed = f"os.close(2); import provision.cli; there = {str(tmp_path / 'journal')!r}"
    opens = "lambda *_, **__: (os.open(there, os.O_CREAT | os.O_WRONLY), ctypes.string_at(0))"
    done = run(PROVISION, opens, tmp_path, closed)
    assert done.returncode == -signal.SIGSEGV
    assert (tmp_path / "journal").read_text() == ""
