"""The one line of a log that says why an engine ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.cli import main
from checks.serving.lasterror import LONGEST, last_error


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (
            "(EngineCore_DP0 pid=12) ERROR 11-29 10:00:00 [core.py:12] ValueError: no such mask\n"
            "RuntimeError: Engine core initialization failed. See root cause above.\n",
            "ValueError: no such mask",
        ),
        ("INFO one\nOSError: [Errno 98] Address in use\nINFO: shutting down\n", "OSError: [Errno 98] Address in use"),
        (
            "For parallel drafting, the draft model config must have a mask\nsomething failed: Error 3\n",
            "For parallel drafting, the draft model config must have a mask",
        ),
        ("starting\nkpro-standin: told to crash\n\n", "kpro-standin: told to crash"),
        ("Terror of the seas\nlast words\n", "last words"),
        ("x\nRuntimeError: failed. See root cause above.\nbye\n", "RuntimeError: failed. See root cause above."),
        ("", None),
        (" \n\n", None),
        ("ValueError: " + "x" * 999, "ValueError: " + "x" * (LONGEST - 12)),
    ],
)  # fmt: skip
def test_the_root_is_named_and_not_its_echo(log: str, said: str | None) -> None:
    assert last_error(log) == said


def test_a_key_among_the_words_of_an_error_is_not_repeated() -> None:
    told = last_error(
        "error: unrecognized arguments: --api-key must-not-be-seen api_key='must-not-be-seen'\n"
    )
    assert told is not None
    assert told.startswith("error: unrecognized arguments")
    assert "must-not-be-seen" not in told


def test_the_command_prints_it_and_nothing_where_there_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    log.write_text("boom\nRuntimeError: x\n")
    assert main(["_lasterror", str(log)]) == 0
    assert capsys.readouterr().out == "RuntimeError: x\n"
    assert main(["_lasterror", str(tmp_path / "none")]) == 0
    assert capsys.readouterr().out == ""


def test_a_stamp_with_milliseconds_is_no_part_of_what_it_said() -> None:
    line = "ERROR 2026-11-30 08:42:16,340 [kpro-standin] RuntimeError: Engine core initialization failed\n"
    assert last_error(line) == "RuntimeError: Engine core initialization failed"
