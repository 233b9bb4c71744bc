"""``provcheck explain --symptom``: from an error text to its cause and the next step."""

from __future__ import annotations

import json
import textwrap

import click

from checks.data.symptoms import Symptom
from checks.data.symptoms import explain as rows_of
from checks.errors import BadInput
from checks.model import EXIT_PASS, EXIT_UNKNOWN

SHOWN = 3


def answer(text: str, *, as_json: bool = False) -> int:
    """Prints what is known; 3 when nothing is. Raises BadInput for an empty text."""
    if not text.strip():
        raise BadInput("--symptom is empty: give the line that the program printed")
    rows = rows_of(text)
    if as_json:
        click.echo(json.dumps([row._asdict() for row in rows], indent=2))
    elif rows:
        click.echo("\n\n".join(page(row) for row in rows[:SHOWN]))
    else:
        click.echo("this text is not known here; 'provcheck gpus' and 'provcheck explain --list' may help")
    return EXIT_PASS if rows else EXIT_UNKNOWN


def page(row: Symptom) -> str:
    """One row as plain text, 90 columns."""
    parts = (("cause", row.cause), ("next", row.fix), ("look at", row.check), ("source", row.source))
    lines = [row.name]
    for word, text in parts:
        lines += textwrap.wrap(f"{word}: {text}", 90, initial_indent="  ", subsequent_indent="    ")
    return "\n".join(lines)
