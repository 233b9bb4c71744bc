"""Every wrong argument of a command at once: click itself ends with the first.

@click.command(cls=AllAtOnce)
@click.option("--engine", callback=judged(parse_engine))

What needs several values is asked in the command, with ``checks.asking.all_of``, by what ``also`` names too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import click
from click.core import iter_params_for_processing

from checks import grammar
from checks.errors import BadInput

T = TypeVar("T")

UNSET = getattr(click.core, "UNSET", None)


class Several(click.UsageError):
    """More than one mistake; ``reasons``: one text each, in the order of the command line."""

    def __init__(self, reasons: Sequence[str], ctx: click.Context) -> None:
        self.reasons = list(reasons)
        super().__init__("\nError: ".join(self.reasons), ctx)


class AllAtOnce(click.Command):
    """A command whose arguments are all judged before any of them is complained of.

    ``also``: what the command itself refuses, where several values are asked together or it takes longer: gets all
    values, raises BadInput. It is called where something is wrong already, and what could not be read is then as if
    nothing was given; else the command asks by itself.
    """

    def __init__(
        self, *args: Any, also: Callable[[Mapping[str, Any]], object] | None = None, **named: Any
    ) -> None:
        super().__init__(*args, **named)
        self._also = also

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.exceptions.NoArgsIsHelpError:
            raise
        except (click.UsageError, BadInput) as first:
            wrong: list[click.UsageError | BadInput] = list(self._wrong(ctx, given, first))
            if len(wrong) == 1:
                raise wrong[0] from None
            reasons = [
                one.format_message() if isinstance(one, click.UsageError) else str(one) for one in wrong
            ]
            raise Several(list(dict.fromkeys(reasons)), ctx) from None

    def _wrong(
        self, ctx: click.Context, given: list[str], first: click.UsageError | BadInput
    ) -> Iterator[click.UsageError | BadInput]:
        """All that is wrong: those that were read already are not read again (one may be a pipe)."""
        line = grammar.read(self, ctx, given)
        yield from line.wrong
        if not line.wrong:
            yield first
        missing = [
            one
            for one in iter_params_for_processing(line.order, self.get_params(ctx))
            if one.expose_value and one.name not in ctx.params
        ]
        values, rest = line.values, line.rest
        for one in missing if line.wrong else missing[1:]:
            hidden = not line.sure and isinstance(one, click.Argument)
            if values is None or hidden or line.told.intersection(one.opts):
                continue
            try:
                _, rest = one.handle_parse_result(ctx, values, rest)
            except (click.UsageError, BadInput) as error:
                yield error
        if missing and line.sure and rest and not ctx.allow_extra_args:
            yield click.UsageError(f"Got unexpected extra arguments ({' '.join(rest)})", ctx)
        if self._also is not None and line.sure and values is not None:
            try:
                self._also(_given(self.get_params(ctx), ctx.params))
            except BadInput as error:
                yield from map(BadInput, str(error).splitlines())
            except OSError:
                # No mistake of this line: it is told when the command itself meets it.
                return


def _given(params: Iterable[click.Parameter], read: Mapping[str, Any]) -> dict[str, Any]:
    """All values, as a command gets them; click has its own word for nothing until all are read."""
    nothing = {
        str(one.name): ()
        if one.multiple or one.nargs == -1
        else False
        if getattr(one, "is_flag", False)
        else None
        for one in params
        if one.expose_value
    }
    return nothing | {name: value for name, value in read.items() if value is not UNSET}


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
