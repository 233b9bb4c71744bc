"""``provcheck explain``: what a finding means, from the catalogue."""

from __future__ import annotations

import json

import click
from click.shell_completion import CompletionItem

from checks import pages
from checks.data.catalogue import CATALOGUE, Entry
from checks.data.thresholds import THRESHOLDS
from checks.errors import BadInput
from checks.judged import AllAtOnce

_EPILOG = """\b
Examples:
  provcheck explain gpu.row_remap
  provcheck explain --list
  provcheck explain --symptom "CUDA error: system not yet initialized"
  provcheck explain --markdown findings
"""


def _ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [
        CompletionItem(name, help=entry.title)
        for name, entry in sorted(CATALOGUE.items())
        if name.startswith(incomplete)
    ]


@click.command(cls=AllAtOnce, epilog=_EPILOG)
@click.argument("identity", metavar="[ID]", required=False, shell_complete=_ids)
@click.option("--list", "as_list", is_flag=True, help="All ids with their titles, by area.")
@click.option(
    "--markdown",
    type=click.Choice(list(pages.DOCUMENTS)),
    help="A page of the documentation: all findings, or what is checked and which finding says so.",
)
@click.option("--symptom", metavar="TEXT", help="What an error text of a GPU program means, and what to do.")
@click.option("--json", "as_json", is_flag=True, help="For a program.")
def explain(
    identity: str | None, as_list: bool, markdown: str | None, symptom: str | None, as_json: bool
) -> int:
    """What a finding means, why it matters, an example, how to mend it, and where the rule comes from."""
    if [as_list, markdown is not None, identity is not None, symptom is not None].count(True) != 1:
        raise BadInput("give one finding id like gpu.row_remap, or --list for all of them")
    if symptom is not None:
        from checks import symptoms

        return symptoms.answer(symptom, as_json=as_json)
    if markdown is not None:
        if as_json:
            raise BadInput("--markdown is for a reader, --json for a program; give one")
        click.echo(pages.DOCUMENTS[markdown](), nl=False)
    elif as_list:
        rows = {name: CATALOGUE[name] for name in sorted(CATALOGUE)}
        click.echo(_json(rows) if as_json else pages.listing())
    else:
        assert identity is not None
        _one(identity, as_json)
    return 0


def _one(identity: str, as_json: bool) -> None:
    if identity not in CATALOGUE:
        raise BadInput(
            f"no finding is called {identity[:60]!r}{_near(identity)}; 'provcheck explain --list' has all"
        )
    entry = CATALOGUE[identity]
    click.echo(_json({identity: entry}) if as_json else pages.page(identity, entry))


def _near(identity: str) -> str:
    import difflib

    close = difflib.get_close_matches(identity, CATALOGUE, 1)
    return f", perhaps {close[0]}" if close else ""


def _json(rows: dict[str, Entry]) -> str:
    return json.dumps(
        {name: {**entry._asdict(), "thresholds": THRESHOLDS.get(name)} for name, entry in rows.items()},
        indent=2,
    )
