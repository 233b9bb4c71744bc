"""``provcheck flags --engine sglang==0.5.23 -- ARGS…``"""

from __future__ import annotations

from typing import Any

import click

from checks.errors import BadInput
from checks.flags import assess
from checks.flags.table import parse_engine
from checks.flags.words import split_command
from checks.judged import AllAtOnce, checked
from checks.ranges import FiniteRange
from checks.report.options import Presentation, also, finish, report_options


def _refuse(how: Presentation, **_: Any) -> None:
    if how.host is not None:
        raise BadInput(
            "--host: a line is judged here; for the parser of another machine run provcheck flags on it"
        )


@click.command(cls=AllAtOnce, also=also(_refuse))
@click.option(
    "--engine",
    required=True,
    callback=checked(parse_engine),
    metavar="ENGINE==VERSION",
    help="vllm==VERSION or sglang==VERSION.",
)
@click.option(
    "--parser",
    type=click.Choice(["auto", "installed", "table"]),
    default="auto",
    show_default=True,
    help="Judge by the parser of an installed engine of that version, or by the table of released wheels.",
)
@click.option("--python", metavar="FILE", help="Interpreter of the engine's environment, for its own parser.")
@click.option(
    "--deadline",
    type=FiniteRange(1, 600),
    default=120.0,
    show_default=True,
    help="Seconds for that parser.",
)
@click.option(
    "--built",
    is_flag=True,
    help="The environment was built from sources: its version need not be that of --engine.",
)
@click.argument(
    "words", nargs=-1, metavar="-- ARGS...", type=click.UNPROCESSED, callback=checked(split_command)
)
@report_options
def flags(
    how: Presentation,
    engine: str,
    parser: str,
    python: str | None,
    deadline: float,
    built: bool,
    words: tuple[str, ...],
) -> int:
    """Does this engine version take this command line? What is wrong, and what to write instead.

    \b
    Examples:
      provcheck flags --engine sglang==0.5.23 -- sglang serve --model-path M --tp 2
      provcheck flags --engine vllm==0.33.0 -- 'VLLM_USE_V1=1 vllm serve M -tp 2'
    """
    _refuse(how)
    found = assess.report(engine, words, parser=parser, python=python, deadline=deadline, built=built)
    return finish(found, how)
