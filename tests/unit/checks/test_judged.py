"""Every mistake of a command line is told at once, a line each, and what is right is read once."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from checks.asking import all_of
from checks.cli import COMMANDS
from checks.errors import BadInput
from checks.judged import AllAtOnce, Several, judged
from provision.cli import main as provision


def commands(group: click.Command, name: str) -> list[tuple[str, click.Command]]:
    if isinstance(group, click.Group):
        return [row for word, one in group.commands.items() for row in commands(one, f"{name} {word}")]
    return [(name, group)]


def all_commands() -> list[tuple[str, click.Command]]:
    found = commands(provision, "provision")
    for word, row in COMMANDS.items():
        module, _, attribute = row.target.partition(":")
        found += commands(getattr(importlib.import_module(module), attribute), f"provcheck {word}")
    return found


def test_every_command_of_both_programs_judges_all_its_arguments() -> None:
    found = all_commands()
    assert len(found) > 25
    assert [name for name, command in found if not isinstance(command, AllAtOnce)] == []


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            ("fit", "no/model", "--engine", "vlm==0.20.1", "--gpus", "zwei", "--context", "4096"),
            ("no/model is no folder", "'vlm==0.20.1' is no engine", "'zwei' is no GPU"),
        ),
        (
            ("fit", "no/model", "--engine", "vllm==1", "--gpus", "2x48G", "--context", "abc", "--tp", "z"),
            ("no/model is no folder", "'abc' is no number of tokens", "'z' is not a valid integer"),
        ),
        (("fit", "--context", "abc"), ("'abc' is no", "'MODEL_DIR'", "'--engine'", "'--gpus'")),
        (("compare", "no1", "no2"), ("no record at no1", "no record at no2")),
        (("compare", "http://127.0.0.1:1", "no2"), ("no record at no2",)),
        (
            ("gpus", "--expect", "x", "--host", "-o", "--silences", "/no/file", "--record", "/no/such/file"),
            ("'--expect'", "--host", "/no/file", "/no/such is not there"),
        ),
        (
            (
                "gpus",
                "--leave-out",
                "gpu.nonsense",
                "--since",
                "/no/file",
                "--mask",
                "--pid",
                "1",
                "--unit",
                "u",
            ),
            ("no such check", "/no/file", "--mask", "one of them"),
        ),
        (
            ("serve", "--baseline", "no1", "--baseline", "no2", "--limit", "a=b", "--concurrency", "x"),
            ("give either", "no1", "no2", "no such limit", "--concurrency"),
        ),
        (("load", "--replay", "no", "--seconds", "x"), ("no", "'x'")),
        (("nccl", "--gpus", "a", "--size", "b", "--rdzv", "c"), ("--gpus 'a'", "--size 'b'", "'c'")),
        (("all", "nowhere", "--env", "e", "--unit", "u"), ("is no address", "each name the engine")),
        (("flags", "--engine", "vlm==1", "--host", "h", "--", "x"), ("--host", "is no engine")),
        (
            ("drafter", "no1", "--target", "no2", "--engine", "vlm==1"),
            ("no1", "no2", "no engine like"),
        ),
    ],
)
def test_all_mistakes_are_told_a_line_each(
    args: tuple[str, ...], said: tuple[str, ...], provcheck: Callable[..., Any]
) -> None:
    done = provcheck(*args)
    lines = done.err.splitlines()
    assert (done.code, done.out) == (2, "")
    assert len(lines) == len(said), done.err
    for text in said:
        assert any(text in line for line in lines), (text, done.err)
    assert all(line.startswith("provcheck: ") for line in lines)


def test_a_hint_at_the_help_begins_a_sentence(provcheck: Callable[..., Any]) -> None:
    assert provcheck("load", "--gpus", "x").err.endswith(" such as 0,1. See 'provcheck load --help'.\n")
    assert provcheck("gpus", "--nonsense").err.endswith("? See 'provcheck gpus --help'.\n")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--driver", "x", "--kernel", "y"), ("--driver", "--kernel")),
        (("--flavour", "x", "--suite", "bookworm"), ("--flavour", "--driver", "--kernel")),
        (
            ("--driver", "x", "--kernel", "y", "--sign-key", "/no/key", "--output", "/no/such/file"),
            ("--driver", "--kernel", "go together", "/no/key", "/no/such"),
        ),
    ],
)
def test_so_does_build_driver(args: tuple[str, ...], said: tuple[str, ...]) -> None:
    done = CliRunner().invoke(provision, ["build-driver", *args])
    lines = [line for line in done.output.splitlines() if line.lower().startswith("error: ")]
    assert done.exit_code == 2
    assert len(lines) == len(said), done.output
    for text in said:
        assert any(text in line for line in lines), text


def test_what_is_right_is_read_once_and_one_mistake_keeps_its_own_error(tmp_path: Path) -> None:
    read: list[str] = []

    def once(text: str) -> str:
        read.append(text)
        if text.startswith("bad"):
            raise BadInput(text)
        return text

    @click.command(cls=AllAtOnce)
    @click.option("--a", callback=judged(once))
    @click.option("--b", callback=judged(once))
    @click.option("--c", callback=judged(once))
    def command(a: str, b: str, c: str) -> None:
        raise AssertionError("it runs")

    with pytest.raises(Several) as several:
        command.main(["--a", "good", "--b", "bad1", "--c", "bad2"], standalone_mode=False)
    assert several.value.reasons == ["bad1", "bad2"]
    assert read.count("good") == 1
    with pytest.raises(BadInput, match=r"^bad1$"):
        command.main(["--b", "bad1"], standalone_mode=False)
    with pytest.raises(click.NoSuchOption):
        command.main(["--d", "--b", "bad1"], standalone_mode=False)
    with pytest.raises(Several) as several:
        command.main(["--b", "bad1", "more"], standalone_mode=False)
    assert "more" in several.value.reasons[1]


def bad(text: str) -> str:
    raise BadInput(text)


def ask_three() -> None:
    with all_of() as ask:
        assert ask(bad, "one") is None
        assert ask(bad, "one") is None
        ask.refuse(True, "two")
        ask.refuse(False, "three")


def test_all_of_tells_each_reason_once_and_nothing_where_all_is_well() -> None:
    with pytest.raises(BadInput, match=r"^one\ntwo$"):
        ask_three()
    with all_of() as ask:
        assert ask(str, 5) == "5"
