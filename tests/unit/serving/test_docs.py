"""The operators' page speaks of commands and options that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from checks.cli import COMMANDS
from checks.data.catalogue import CATALOGUE
from checks.group import LazyGroup

PAGE = Path(__file__).resolve().parents[3] / "docs" / "provcheck.md"
LINES = [
    line
    for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.S)
    for line in block.splitlines()
    if line.startswith("provcheck ")
]


def test_the_page_shows_every_command_it_lists() -> None:
    listed = set(re.findall(r"^\| `provcheck (\w+)` ", PAGE.read_text(), re.M))
    assert listed == {name for name, row in COMMANDS.items() if not row.hidden} - {"completion"}
    assert listed - {"explain"} <= {line.split()[1] for line in LINES}


@pytest.mark.parametrize("line", LINES)
def test_a_command_line_of_the_page_is_one_that_provcheck_takes(line: str) -> None:
    words = shlex.split(line.partition(" | ")[0])
    group = LazyGroup(name="provcheck", table=COMMANDS)
    command = group.get_command(click.Context(group), words[1])
    assert command is not None
    known = {name for option in command.params if isinstance(option, click.Option) for name in option.opts}
    own = words[2 : words.index("--")] if "--" in words else words[2:]
    assert {word for word in own if word.startswith("-")} <= known


def test_every_finding_that_the_page_names_can_be_explained() -> None:
    named = set(re.findall(r"\b(?:serve|drafter|flags|fit)\.[a-z_]+\b", PAGE.read_text()))
    assert named <= CATALOGUE.keys()
    assert len(named) > 8
