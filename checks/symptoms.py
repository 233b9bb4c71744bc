"""``provcheck explain --symptom``: from an error text to its cause and the next step."""

from __future__ import annotations

import json
import re
import textwrap

import click

from checks.data.symptoms import TEXT_LIMIT, Symptom
from checks.data.symptoms import explain as rows_of
from checks.data.xids import KINDS, XIDS
from checks.errors import BadInput
from checks.model import EXIT_PASS, EXIT_UNKNOWN

SHOWN = 3


def answer(text: str, *, as_json: bool = False) -> int:
    """Prints what is known; 3 when nothing is. Raises BadInput for an empty text."""
    if not text.strip():
        raise BadInput("--symptom is empty: give the line that the program printed")
    rows = (*_xids(text), *rows_of(text))
    if as_json:
        click.echo(json.dumps([row._asdict() for row in rows], indent=2))
    elif rows:
        click.echo("\n\n".join(page(row) for row in rows[:SHOWN]))
    else:
        click.echo("this text is not known here; 'provcheck gpus' and 'provcheck explain --list' may help")
    return EXIT_PASS if rows else EXIT_UNKNOWN


def _xids(text: str) -> list[Symptom]:
    """The Xids that a text names, each by its row of the catalogue."""
    numbers = re.findall(r"\bXid(?: \([^)]{0,60}\))?\W{0,3}(\d{1,4})\b", text[:TEXT_LIMIT], re.IGNORECASE)
    rows = [XIDS[number] for number in dict.fromkeys(map(int, numbers)) if number in XIDS]
    return [
        Symptom(
            f"Xid {row.number}: {row.name} [{KINDS[row.kind].word}]",
            "",
            row.cause,
            row.fix or KINDS[row.kind].fix,
            "gpu.xid",
            "NVIDIA Xid catalog",
        )
        for row in rows
    ]


def page(row: Symptom) -> str:
    """One row as plain text, 90 columns."""
    parts = (("cause", row.cause), ("next", row.fix), ("look at", row.check), ("source", row.source))
    lines = [row.name]
    for word, text in parts:
        lines += textwrap.wrap(f"{word}: {text}", 90, initial_indent="  ", subsequent_indent="    ")
    return "\n".join(lines)
