"""The reader against argparse itself: whatever argparse refuses is a failing finding, whatever it takes is none."""

from __future__ import annotations

import argparse
import contextlib
import io
from typing import Any, NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.flags.read import read
from checks.flags.table import Option, Table, history
from checks.flags.values import BadValue, convert


class Refused(Exception):
    pass


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Refused(message)


def parser_of(table: Table) -> Parser:
    """A real parser with the options of a table, all values texts."""
    parser = Parser(add_help=False)
    for option in {id(o): o for o in table.options.values()}.values():
        extra: dict[str, Any] = {"action": "store_true"} if option.nargs == 0 else {"nargs": option.nargs}
        parser.add_argument(*option.names, dest=option.name, **extra)
    if table.positional:
        parser.add_argument("model", nargs="?")
    return parser


def taken_by_argparse(parser: Parser, words: list[str]) -> bool:
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            parser.parse_args(words)
    except Refused:
        return False
    return True


def taken(table: Table, words: list[str]) -> bool:
    reading = read(table, words)
    spare = len(reading.positionals) - (1 if table.positional else 0)
    return not (reading.unknown or reading.ambiguous or reading.malformed or spare > 0)


SGLANG = history("sglang").table("0.5.11")
PARSER = parser_of(SGLANG)
NAMES = sorted(SGLANG.options)
PLAIN = ["1", "x", "-1", "-0.5", "-", "a b", "--no-such", "--no-such=1", "-x", "--tp", "{}", "", "-h=1"]


@st.composite
def word(draw: st.DrawFn) -> str:
    """An option in full, shortened, with a value attached, or anything else."""
    name = NAMES[draw(st.integers(0, len(NAMES) - 1))]
    form = draw(st.integers(0, 3))
    if form == 0:
        return name
    if form == 1:
        return name[: draw(st.integers(min(3, len(name)), len(name)))]
    return (
        f"{name}={draw(st.sampled_from(['', '1', 'a b', '-1']))}"
        if form == 2
        else draw(st.sampled_from(PLAIN))
    )


@settings(max_examples=600)
@given(st.lists(word(), max_size=7))
def test_the_reader_takes_what_argparse_takes_and_refuses_what_it_refuses(words: list[str]) -> None:
    assert taken(SGLANG, words) == taken_by_argparse(PARSER, words), words


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--tp", "2"], True),
        (["--tp"], False),
        (["--tp", "--dp", "2"], False),
        (["--trust-remote-code=1"], False),
        (["--context-length", "-1"], True),
        (["m"], False),
    ],
)
def test_both_agree_on_the_known_corners(words: list[str], expected: bool) -> None:
    assert taken(SGLANG, words) is taken_by_argparse(PARSER, words) is expected


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("int", ["1", "-1", " 7 ", "1_000"], ["1.0", "", "one", "1e3"]),
        ("float", ["0.9", "1", "-1e-3", "inf"], ["", "0,9", "x"]),
        ("count", ["1k", "1K", "25.6k", "2M", "10"], ["25.6K", "1Ki", "", "1kk"]),
        ("count_or_auto", ["auto", "-1", "AUTO", "1K"], ["max", ""]),
        ("count_iec", ["1k", "1Ki", "25.6k", "1M"], ["1K", "1.5Ki", "1m"]),
        ("json", ["{}", "[1]", "1", '"a"', "null"], ["{", "'a'", "NaN", "Infinity", "{a: 1}"]),
        ("json_counts", ['{"a": 80m}', '{"a": "80m"}'], ['{"a": 80q}']),
    ],
)
def test_values_are_taken_as_the_engines_take_them(kind: str, good: list[str], bad: list[str]) -> None:
    option = Option(("--x",), type=kind)
    for text in good:
        convert(option, text)
    for text in bad:
        with pytest.raises(BadValue):
            convert(option, text)
    assert convert(Option(("--x",), type=kind, none=True), "None") is None


def test_suffixes_mean_what_they_mean_to_each_engine() -> None:
    assert [convert(Option(("--x",), type="count"), t) for t in ("1k", "1K", "25.6k")] == [1000, 1024, 25600]
    assert [convert(Option(("--x",), type="count_iec"), t) for t in ("1k", "1Ki", "25.6k")] == [
        1000,
        1024,
        25600,
    ]


HOSTILE = [
    "{" * 100_000,
    "[" * 3000 + "]" * 3000,
    "9" * 100_000,
    '{"a":' * 900 + "1" + "}" * 900,
    "\x00",
    "\ud800",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("kind", ["json", "json_counts", "int", "float", "count", "count_iec"])
def test_a_hostile_value_is_refused_and_nothing_worse(kind: str, text: str) -> None:
    with contextlib.suppress(BadValue):
        convert(Option(("--x",), type=kind), text)
