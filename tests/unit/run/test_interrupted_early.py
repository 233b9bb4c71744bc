"""Ctrl-C while a command is still being loaded, or before it has begun: what is open, and the command that goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from provision.migrate import run
from provision.run import ending

_RUN = """
import signal, sys, importlib
import provision.entry, provision.migrate.command as command
{before}
def load(name):
    signal.raise_signal(signal.SIGINT)
command.importlib = type("I", (), {{"import_module": staticmethod(load)}})
from provision.cli import main
sys.argv = ["provision", "migrate", "a b", "c", "--rollback"]
main(sys.argv[1:], prog_name="provision")
"""


def _run(before: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _RUN.format(before=before)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def test_an_interrupt_while_a_command_is_loaded_names_the_command_to_go_on() -> None:
    done = _run()
    assert done.returncode == 130
    assert "nothing was changed" in done.stderr
    assert done.stderr.rstrip().endswith("Next: provision migrate 'a b' c --rollback")
    assert "Aborted" not in done.stderr


def test_of_a_command_that_has_begun_it_does_not_say_that_nothing_was_changed() -> None:
    done = _run("import provision.run.ending as ending; ending.listened = True")
    assert done.returncode != 0
    assert "nothing was changed" not in done.stderr


@pytest.mark.parametrize(
    ("way", "words", "said"),
    [
        ("rollback", None, "a migration that is open stays open. Next: provision migrate a b --rollback"),
        ("resume", ending.NOTHING, "nothing was changed; a migration that is open stays open. Next: "),
        ("rollback", "", None),
        ("begin", ending.NOTHING, None),
    ],
)
def test_what_goes_on_with_an_open_migration_says_that_it_stays_open(
    monkeypatch: pytest.MonkeyPatch, way: str, words: str | None, said: str | None
) -> None:
    last = None if words is None else SimpleNamespace(words=words)
    monkeypatch.setattr(ending, "last", lambda: last)
    ask: Any = SimpleNamespace(way=way)
    with (
        pytest.raises(KeyboardInterrupt) as told,
        run._before_it_begins(ask, f"provision migrate a b --{way}"),
    ):
        raise KeyboardInterrupt
    assert getattr(told.value, "words", None) is None if said is None else said in told.value.words  # type: ignore[attr-defined]
