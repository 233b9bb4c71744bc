"""``provcheck explain``: what a finding means, from the catalogue."""

from __future__ import annotations

import json
import textwrap

import click

from checks.data.catalogue import CATALOGUE, Entry
from checks.errors import BadInput


@click.command(epilog="\b\nExamples:\n  provcheck explain gpu.row_remap\n  provcheck explain --list")
@click.argument("identity", metavar="[ID]", required=False)
@click.option("--list", "as_list", is_flag=True, help="All ids with their titles.")
@click.option("--json", "as_json", is_flag=True, help="For a program.")
def explain(identity: str | None, as_list: bool, as_json: bool) -> int:
    """What a finding means, why it matters, an example, and how to mend it."""
    if as_list == (identity is not None):
        raise BadInput("give one finding id like gpu.row_remap, or --list for all of them")
    if as_list:
        rows = {name: CATALOGUE[name] for name in sorted(CATALOGUE)}
        width = max(map(len, rows))
        text = "\n".join(f"{name:<{width}}  {entry.title}" for name, entry in rows.items())
        click.echo(_json(rows) if as_json else text)
        return 0
    assert identity is not None
    if identity not in CATALOGUE:
        raise BadInput(
            f"no finding is called {identity[:60]!r}{_near(identity)}; 'provcheck explain --list' has all"
        )
    click.echo(_json({identity: CATALOGUE[identity]}) if as_json else page(identity, CATALOGUE[identity]))
    return 0


def page(identity: str, entry: Entry) -> str:
    """The page of one finding as plain text, 90 columns."""
    parts = [f"{identity}: {entry.title}"]
    sections = (
        ("Why it matters", entry.why),
        ("Example", entry.example),
        ("How to mend it", entry.fix),
        ("Source", entry.source),
    )
    for heading, text in sections:
        parts.append(f"\n{heading}\n{textwrap.fill(text, 90, initial_indent='  ', subsequent_indent='  ')}")
    return "\n".join(parts)


def _near(identity: str) -> str:
    import difflib

    close = difflib.get_close_matches(identity, CATALOGUE, 1)
    return f", perhaps {close[0]}" if close else ""


def _json(rows: dict[str, Entry]) -> str:
    return json.dumps({name: entry._asdict() for name, entry in rows.items()}, indent=2)
