"""Every mistake of a command line is told at once, a line each, and what is right is read once."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from checks import grammar
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
    assert provcheck("gpus", "--formt", "json").err.endswith("? See 'provcheck gpus --help'.\n")


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
        command.main(["--d", "--b", "good"], standalone_mode=False)
    with pytest.raises(Several) as several:
        command.main(["--b", "bad1", "more"], standalone_mode=False)
    assert "more" in several.value.reasons[1]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        # What there is not, beside a wrong value, a file that is not there, and what is missing.
        (
            ("gpus", "--nonsense", "--expect", "x", "--since", "/no/file", "--mask"),
            ("'--nonsense'", "'--expect'", "/no/file", "--mask"),
        ),
        (
            ("fit", "no/model", "--zzz=3"),
            ("'--zzz'", "no/model is no", "'--engine'", "'--gpus'", "'--context'"),
        ),
        (
            ("fit", "a", "b", "-x", "--mtp"),
            ("'-x'", "a is no", "(b)", "'--e", "'--g", "'--c", "a drafter needs -k"),
        ),
        (("compare", "no1", "no2", "--pasive"), ("Did you mean '--passive'?", "at no1", "at no2")),
        (
            ("drafter", "no1", "--target", "no2", "--engine", "vlm==1", "-z"),
            ("'-z'", "no1", "no2", "no engine"),
        ),
        (
            ("flags", "--engine", "vlm==1", "--zz", "--host", "h", "--", "--x"),
            ("'--zz'", "vlm==1", "--host:"),
        ),
        (("all", "nowhere", "--zz", "--env", "e", "--unit", "u"), ("'--zz'", "no address", "each name")),
        (
            ("serve", "http://h", "--zz", "--baseline", "no1", "--replay", "no2", "--limit", "a=b"),
            ("'--zz'", "give either", "no1", "no2", "no such limit"),
        ),
        (
            ("load", "--zz", "--replay", "no", "--record", "/no/file"),
            ("'--zz'", "record no:", "/no is not there"),
        ),
        (
            ("nccl", "--zz", "--size", "x", "--nnodes", "2", "--pid", "1", "--unit", "u"),
            ("'--zz'", "x", "ive one", "--rdzv"),
        ),
        # What is near is taken for what was meant: its value is judged, and it is not missed.
        (("gpus", "--expct", "x", "--host=-o"), ("'--expct'", "'--expect': 'x'", "--host '-o'")),
        (("fit", "--engin", "vllm==1", "--gpus", "2x48G"), ("'--engin'", "'MODEL_DIR'", "'--context'")),
        (("gpus", "--recrd", "--expect", "x"), ("'--recrd'", "'--expect'")),
        (("gpus", "--masc=3", "--expect", "x"), ("'--masc'", "'--mask' does not take", "'--expect'")),
        # A word behind an option that there is not may be its value: nothing is said of it, nor of arguments.
        (("fit", "--zzz", "no/model", "--gpus", "q"), ("'--zzz'", "--gpus 'q'", "'--engine'", "'--context'")),
        (("serve", "--zzz", "http://127.0.0.1:1", "--seconds", "x"), ("'--zzz'", "'--seconds'")),
        # An option without its value, a flag with one.
        (
            ("gpus", "--mask=1", "--expect", "x", "--since"),
            ("'--mask' does not", "'--since' requires", "'--expect'"),
        ),
        (
            ("fit", "no/model", "--gpus", "2x48G", "--context", "5", "--engine"),
            ("'--engine' requires", "no/model"),
        ),
        (("gpus", "--json", "--format", "nagios", "--zz"), ("'--zz'", "contradict each other")),
    ],
)
def test_what_the_grammar_does_not_take_hides_nothing(
    args: tuple[str, ...], said: tuple[str, ...], provcheck: Callable[..., Any]
) -> None:
    test_all_mistakes_are_told_a_line_each(args, said, provcheck)


@pytest.mark.parametrize(
    ("args", "name"),
    [
        (("apply", "kpro5", "--sysroot", "/tmp"), "--sysroot"),
        (("apply", "kpro5", "--rebot"), "--rebot"),
        (("apply", "kpro5", "--yess"), "--yess"),
        (("plan", "kpro5", "--sysrot", "/tmp"), "--sysrot"),
    ],
)
def test_only_a_near_name_that_allows_nothing_more_is_suggested(args: tuple[str, ...], name: str) -> None:
    done = CliRunner().invoke(provision, args)
    assert done.exit_code == 2
    assert f"No such option '{name}'" in done.output
    assert ("Did you mean '--sysroot'" in done.output) == (name == "--sysrot")
    assert ("Did you mean" in done.output) == (name == "--sysrot")


BAD = """from provision.spec import Machine, Ssh
machine = Machine(name="Bad!")
metal, guests = machine.pyinfra_groups()
"""


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("plan", "bad.py", "--zzz", "--phases", "q"), ("'--zzz'", "'q'", "machine.name")),
        (("apply", "bad.py", "--batch", "x", "--phases", "q"), ("'--batch'", "'q'", "machine.name")),
        (("rollback", "bad.py", "--limmit", "x"), ("Did you mean '--limit'", "machine.name")),
        (("status", "bad.py", "more"), ("(more)", "machine.name")),
        (("status", "bad.py", "--jsn"), ("Did you mean '--json'", "machine.name")),
        (
            ("inspect", "bad.py", "--sysrot", "/no/dir"),
            ("Did you mean '--sysroot'", "/no/dir", "machine.name"),
        ),
        (("record", "bad.py", "/etc", "--zz"), ("'--zz'", "/etc is not empty", "machine.name")),
        (("assign", "bad.py", "zz", "vmm", "--vmid", "3"), ("'vmm'", "'zz'", "--vmid 3", "machine.name")),
        (
            ("init", "@local", "--port", "x", "--key", "k", "--name", "A!"),
            ("'x'", "@local is", "--name 'A!'"),
        ),
        (
            ("migrate", "bad.py", "nowhere", "--zz", "--source-is-off"),
            ("'--zz'", "--cold", "machine.name", "nowhere"),
        ),
        (
            ("migrate", "bad.py", "nowhere", "--resume", "--rollback"),
            ("one at a time", "machine.name", "nowhere"),
        ),
        (("build-driver", "--drver", "x", "--kernel", "y"), ("'--drver'", "--driver: 'x'", "--kernel: 'y'")),
        # What was not given is not judged, and nothing is asked beside a right line.
        (("status", "--zzz"), ("'--zzz'", "'INVENTORY'")),
        (("inspect", "@local", "--zzz"), ("'--zzz'",)),
        (("migrate", "bad.py", "--zzz"), ("'--zzz'", "'TARGET'")),
    ],
)
def test_provision_tells_the_inventory_in_the_same_round(
    args: tuple[str, ...], said: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.py").write_text(BAD)
    done = CliRunner().invoke(provision, args)
    lines = [line for line in done.output.splitlines() if line.startswith("Error: ")]
    assert done.exit_code == 2, done.output
    assert len(lines) == len(said), done.output
    for text in said:
        assert any(text in line for line in lines), (text, done.output)


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


def test_every_option_that_is_never_suggested_is_one() -> None:
    from checks.drafter.command import command as drafter
    from provision.cli import main

    options = {
        word for command in (*main.commands.values(), drafter) for one in command.params for word in one.opts
    }
    assert options >= grammar.WIDENS
