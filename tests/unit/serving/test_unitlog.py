"""The log of a unit is that of the start which is up: a dead predecessor of the same boot is not taken for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.errors import BadInput
from checks.serving import unitlog

NOW, ID = "this start is well\n", "0123456789abcdef0123456789abcdef"
SYSTEMCTL = """#!/bin/sh
[ "$*" = "show -p ActiveState -p InvocationID kpro-chat.service" ] || exit 99
echo ActiveState=$STATE; echo InvocationID=$ID
"""
JOURNALCTL = """#!/bin/sh
case "$*" in
  "_SYSTEMD_INVOCATION_ID=0123456789abcdef0123456789abcdef -b -o cat --no-pager")
    [ -n "$EMPTY" ] || echo this start is well ;;
  "-u kpro-chat.service -b -o cat --no-pager")
    echo RuntimeError: Engine core initialization failed; echo this start is well ;;
  *) exit 99 ;;
esac
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in (("systemctl", SYSTEMCTL), ("journalctl", JOURNALCTL)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name, value in (("STATE", "active"), ("ID", ID), ("EMPTY", "")):
        monkeypatch.setenv(name, value)
    return tmp_path


@pytest.mark.usefixtures("tools")
def test_of_a_unit_that_is_up_only_this_start_counts() -> None:
    assert unitlog.read("kpro-chat.service") == NOW


@pytest.mark.parametrize(
    ("variable", "value"), [("STATE", "failed"), ("STATE", "activating"), ("ID", ""), ("EMPTY", "yes")]
)
@pytest.mark.usefixtures("tools")
def test_else_all_of_this_boot_is_read(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    assert "initialization failed" in unitlog.read("kpro-chat.service")


@pytest.mark.usefixtures("tools")
def test_a_word_that_names_no_unit_is_refused() -> None:
    with pytest.raises(BadInput, match="no name of a unit"):
        unitlog.read("--help")


def test_without_a_journal_it_says_so(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tools / "journalctl").unlink()
    monkeypatch.setenv("PATH", str(tools))
    with pytest.raises(BadInput, match="journalctl"):
        unitlog.read("kpro-chat.service")
