"""Every wrong argument of a command at once: click itself ends with the first.

@click.command(cls=AllAtOnce)
@click.option("--engine", callback=judged(parse_engine))

What needs several values is asked in the command, with ``checks.asking.all_of``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import click
from click.core import iter_params_for_processing

from checks.errors import BadInput

T = TypeVar("T")


class Several(click.UsageError):
    """More than one mistake; ``reasons``: one text each, in the order of the command line."""

    def __init__(self, reasons: Sequence[str], ctx: click.Context) -> None:
        self.reasons = list(reasons)
        super().__init__("\nError: ".join(self.reasons), ctx)


class AllAtOnce(click.Command):
    """A command whose arguments are all judged before any of them is complained of.

    What the grammar does not take (an option that there is not) ends it at once: what follows cannot be read then.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.exceptions.NoArgsIsHelpError:
            raise
        except (click.UsageError, BadInput) as first:
            wrong = [first, *self._others(ctx, given)]
            if len(wrong) == 1:
                raise
            reasons = [
                one.format_message() if isinstance(one, click.UsageError) else str(one) for one in wrong
            ]
            raise Several(list(dict.fromkeys(reasons)), ctx) from None

    def _others(self, ctx: click.Context, given: list[str]) -> Iterator[click.UsageError | BadInput]:
        """What is wrong after the first: those that were read already are not read again (one may be a pipe)."""
        try:
            values, rest, order = self.make_parser(ctx).parse_args(given)
        except click.UsageError:
            return
        missing = [
            one
            for one in iter_params_for_processing(order, self.get_params(ctx))
            if one.expose_value and one.name not in ctx.params
        ]
        for one in missing[1:]:
            try:
                _, rest = one.handle_parse_result(ctx, values, rest)
            except (click.UsageError, BadInput) as error:
                yield error
        if missing and rest and not ctx.allow_extra_args:
            yield click.UsageError(f"Got unexpected extra arguments ({' '.join(rest)})", ctx)


def checked(read: Callable[[Any], object]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback for click: the value as it was written, once ``read`` takes it. ``read`` raises BadInput."""

    def callback(ctx: click.Context, _: click.Parameter, value: Any) -> Any:
        if value is not None and not ctx.resilient_parsing:
            read(value)
        return value

    return callback


def judged(read: Callable[[Any], T]) -> Callable[[click.Context, click.Parameter, Any], T | None]:
    """A callback for click: what ``read`` makes of the value, where there is one. ``read`` raises BadInput."""

    def callback(ctx: click.Context, _: click.Parameter, value: Any) -> T | None:
        return None if value is None or ctx.resilient_parsing else read(value)

    return callback
