"""What a machine's files hold reaches a terminal as text; an output that cannot be written ends in one line."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from provision.cli import main
from provision.host.tree import observe_tree
from provision.inspect.examine import examine
from provision.inspect.requests import requests
from provision.inspect.show import show
from provision.plan import Plan, Refusal
from provision.printable import printable
from provision.run import present
from tests.unit.inspect.test_conclusions import A6000
from tests.unit.inspect.test_texts import tree

EVIL = "\x1b[2J\x1b]0;title\x07[bold]x[/]\x9b1m\u202e"
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31m", "\\x1b[31m"),
        ("a\x07\x00\x7f\x9b\r", "a\\x07\\x00\\x7f\\x9b\\x0d"),
        ("\u202eabc", "\\u202eabc"),
        ("plain é 統\tx\n", "plain é 統\tx\n"),
    ],
)
def test_control_characters_are_escaped_and_nothing_else(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize("terminal", [True, False])
def test_an_inspection_shows_control_characters_as_escapes(terminal: bool, tmp_path: Path) -> None:
    tree(
        tmp_path,
        **{"etc__modprobe.d__e.conf": f"options vfio-pci ids=10de:2230 {EVIL}\n", "cmd__lspci-Dnnk": A6000},
    )
    out = io.StringIO()
    report = examine(observe_tree(tmp_path, requests(recorded=True)), recorded=True)
    show([report], Console(file=out, width=200, force_terminal=terminal, color_system=None))
    assert "\\x1b[2J" in out.getvalue()
    assert "[bold]x[/]" in out.getvalue()
    assert not set("\x07\x9b\u202e") & set(out.getvalue())
    assert "\x1b[2J" not in out.getvalue()
    done = CliRunner().invoke(main, ["inspect", "--sysroot", str(tmp_path), "--json"])
    (machine,) = json.loads(done.stdout)["machines"]
    assert EVIL.strip() in machine["holders"][0]["text"]


def test_a_plan_and_its_refusals_show_control_characters_as_escapes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    refused = Plan("m", (), (Refusal(EVIL, EVIL, EVIL, EVIL),), notes=(EVIL,))
    present.plans([refused])
    present.usage([EVIL])
    said = capsys.readouterr().err
    assert "\x1b]0" not in said
    assert "\x07" not in said
    assert said.count("\\x1b[2J") == 6


def test_a_container_s_file_that_is_no_text_gives_one_line(tmp_path: Path) -> None:
    conf = tmp_path / "etc/pve/lxc/120.conf"
    conf.parent.mkdir(parents=True)
    conf.write_bytes(bytes(range(256)) * 20)
    told = tree(tmp_path)
    assert [one["id"] for one in told["findings"]] == ["container.no-text"]
    assert told["host"]["containers"][0]["unprivileged"] == "unknown"
    conf.write_bytes(b"arch: amd64\n#caf\xe9\n")
    assert "container.no-text" not in {one["id"] for one in tree(tmp_path)["findings"]}


@pytest.mark.parametrize(
    "words",
    [
        ["inspect", "--sysroot", "TREE"],
        ["inspect", "--sysroot", "TREE", "--json"],
        ["plan", "INVENTORY", "--sysroot", "TREE", "--json"],
        ["--help"],
    ],
)
def test_an_output_that_cannot_be_written_is_one_line_and_exit_code_1(words: list[str]) -> None:
    named = {
        "TREE": str(ROOT / "tests/replay/machines/kpro5"),
        "INVENTORY": str(ROOT / "inventories/kpro5.py"),
    }
    code = "from provision.cli import main; main()"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code, *(named.get(word, word) for word in words)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=ROOT,
        )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: the output cannot be written: No space left")
