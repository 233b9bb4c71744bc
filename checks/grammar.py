"""A command line read in spite of what the grammar does not take, so that the rest of it can be judged too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import click

ALIKE = 0.8
"""How near (difflib's ratio) an option must be to be taken for the one that was meant: --contxt and --context are
0.94, --nonsense and --silences 0.63."""

WIDENS = frozenset(
    {
        "--yes",
        "--reboot",
        "--force",
        "--remove-models",
        "--source-is-off",
        "--finalize",
        "--rollback",
        "--write",
        "--resume",
    }
)
"""Options that let more be done than was asked for: whoever wrote another word is never led to one of them."""


def suggested(error: click.NoSuchOption) -> click.NoSuchOption:
    """The error with only those names that are really near: click also offers ``--reboot`` for ``--sysroot``."""
    near = get_close_matches(error.option_name, error.possibilities or (), cutoff=ALIKE)
    return click.NoSuchOption(
        error.option_name, error.message, [name for name in near if name not in WIDENS], error.ctx
    )


@dataclass
class Line:
    """``values``, ``rest`` and ``order`` are click's own (None: nothing could be read). ``wrong``: every mistake
    against the grammar. ``told``: the options that ``wrong`` is about. ``sure``: is it known which words are
    arguments? A word behind an option that there is not may be its value."""

    wrong: list[click.UsageError] = field(default_factory=list)
    told: set[str] = field(default_factory=set)
    sure: bool = True
    values: dict[str, Any] | None = None
    rest: list[str] = field(default_factory=list)
    order: list[click.Parameter] = field(default_factory=list)


def read(command: click.Command, ctx: click.Context, args: Sequence[str]) -> Line:
    """An option that there is not is taken for the one that it is near to, or left out."""
    line, words = Line(), list(args)
    while True:
        left = list(words)
        try:
            line.values, line.rest, line.order = command.make_parser(ctx).parse_args(left)
            return line
        except (click.NoSuchOption, click.BadOptionUsage) as error:
            line.wrong.append(suggested(error) if isinstance(error, click.NoSuchOption) else error)
            # The parser takes words from the front of the list it was given: the last one taken is the wrong one.
            at = len(words) - len(left) - 1
            name, equals, value = words[at].partition("=")
            if isinstance(error, click.NoSuchOption):
                words[at : at + 1] = _meant(line, command.get_params(ctx), name, equals + value, left)
            else:
                # A flag with a value stays a flag; an option without its value is as good as not there.
                line.told.add(error.option_name)
                words[at : at + 1] = [name] if equals else []
        except click.UsageError as error:
            line.wrong.append(error)
            return line


def _meant(
    line: Line, options: Sequence[click.Parameter], name: str, value: str, after: Sequence[str]
) -> list[str]:
    """What is read in the place of an option that there is not; ``value``: what is written to it with "="."""
    alone = not after or after[0].startswith("-")
    flags = {word: one.is_flag for one in options if isinstance(one, click.Option) for word in one.opts}
    near = get_close_matches(name, flags, n=1, cutoff=ALIKE)
    if near and (flags[near[0]] or value or not alone):
        return [near[0] + value]
    line.told.update(near)
    line.sure = line.sure and (bool(value) or alone)
    return []
