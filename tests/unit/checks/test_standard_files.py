"""Standard files closed, full or left by their reader, no home, nothing to write to: no traceback, the exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from checks import caches, pack

PROGRAMS = {"provcheck": "checks.cli", "provision": "provision.cli"}
COMMANDS = [
    # A command, its exit code, that of what it says not being written.
    ("provcheck explain --list", 0, 3),
    ("provcheck gpus --nonsense", 2, 2),
    ("provision runs --json", 0, 1),
    ("provision plan no-such-inventory", 2, 2),
]


def said(command: str, how: str, **environ: str | None) -> tuple[int, str]:
    """The exit code of the command by itself, and all that could be read."""
    program, *words = command.split()
    line = f'{sys.executable} -c "from {PROGRAMS[program]} import main; raise SystemExit(main())" {" ".join(words)}'
    env = {name: value for name, value in (dict(os.environ) | environ).items() if value is not None}
    done = subprocess.run(
        ["bash", "-c", f"{line} {how}; exit ${{PIPESTATUS[0]}}"],
        env=env,
        capture_output=True,
        timeout=120,
        check=False,
    )
    return done.returncode, (done.stdout + done.stderr).decode("utf-8", "replace")


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("NVML_LIBRARY", "/nowhere")


@pytest.mark.parametrize(("command", "code", "full"), COMMANDS)
def test_the_exit_code_is_that_of_the_command_and_only_a_full_stdout_is_an_error(
    command: str, code: int, full: int
) -> None:
    for how in (
        "",
        "| true",
        ">&-",
        "2>&-",
        "2>/dev/full",
        "2>&1 | true",
        "<&-",
        ">&- 2>&- <&-",
        ">/dev/full",
    ):
        ended, text = said(command, how)
        told = "Traceback" in text or "Exception ignored" in text
        assert (ended, told) == (full if how == ">/dev/full" else code, False), (how, text)


def test_what_could_not_be_written_is_told() -> None:
    assert "No space left" in said("provcheck --help", ">/dev/full")[1]
    assert "the output cannot be written: No space left" in said("provision runs --json", ">/dev/full")[1]


def test_no_file_gets_the_number_of_one_that_was_closed(tmp_path: Path) -> None:
    """A journal or a lock would be written over by the next print."""
    text = "from provision.entry import Entry; import os; r = os.open('/dev/null', 0); raise SystemExit(r)"
    made = (
        f"import click, sys; c = click.command()(lambda: exec({text!r})); from provision.entry import Entry; "
    )
    made += "g = Entry('x'); g.add_command(c, 'c'); g.main(['c'])"
    for how in ([], [">&-"], [">&-", "2>&-", "<&-"]):
        line = " ".join(["exec", sys.executable, "-c", '"$1"', *how])
        done = subprocess.run(
            ["bash", "-c", line, "bash", made], capture_output=True, timeout=60, check=False
        )
        assert done.returncode >= 3, how


@pytest.mark.parametrize(
    "environ",
    [
        {"HOME": None, "XDG_STATE_HOME": None},
        {"HOME": "/proc", "XDG_STATE_HOME": None},
        {"TERM": "dumb", "NO_COLOR": "1"},
        {"COLUMNS": "20"},
        {"COLUMNS": "wide"},
        {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"XDG_STATE_HOME": "/proc/x", "XDG_CACHE_HOME": "/proc/x"},
    ],
)
def test_surroundings_change_no_exit_code_and_raise_nothing(environ: dict[str, str | None]) -> None:
    for command, code in (
        ("provcheck explain gpu.row_remap", 0),
        ("provcheck fit /tmp/ü --zü x", 2),
        ("provision runs", 0),
        ("provision plan nö-ü --zü", 2),
    ):
        ended, text = said(command, "", **environ)
        assert (ended, "Traceback" in text) == (code, False), text
        assert not any("\x1b[" in line for line in text.splitlines())


def test_what_cannot_be_kept_is_made_for_this_process_and_gone_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/x")
    caches._of_this_process.cache_clear()
    first = pack.cached()
    assert first.is_file()
    assert pack.cached() == first
    caches._of_this_process.cache_clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert pack.cached().parent == tmp_path / "kpro"
    text = "from checks import pack; print(pack.cached())"
    env = {**os.environ, "XDG_CACHE_HOME": "/proc/x"}
    done = subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True, check=True)
    assert not Path(done.stdout.strip()).parent.exists()
