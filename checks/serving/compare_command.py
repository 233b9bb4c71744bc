"""``provcheck compare A B``: two services, live or recorded, by what differs in effect."""

from __future__ import annotations

from pathlib import Path

import click

from checks.paths import READ
from checks.report.options import Presentation, finish, report_options
from checks.serving import live, record
from checks.serving.compare import compare as judge
from checks.serving.evidence import Evidence, gather

_EPILOG = """\b
Examples:
  provcheck compare tuned.json now.json              two records of provcheck serve --record
  provcheck compare tuned.json http://127.0.0.1:8000
  provcheck compare runs/right runs/theta_missing    prefixes of recorded parts

\b
A is the one that is good, B the one in question. A live side is measured, unless --passive.
"""


@click.command(epilog=_EPILOG)
@click.argument("a")
@click.argument("b")
@click.option("--passive", is_flag=True, help="Read a live side's counters only; send nothing.")
@click.option(
    "--api-key-file",
    type=READ,
    help="File with the key of a live side.",
)
@click.option("--log-a", type=READ, help="The engine's log of a live A.")
@click.option("--log-b", type=READ, help="The engine's log of a live B.")
@report_options
def compare(
    how: Presentation,
    a: str,
    b: str,
    passive: bool,
    api_key_file: Path | None,
    log_a: Path | None,
    log_b: Path | None,
) -> int:
    """What differs between two services, ranked by expected effect, and what to carry over from A to B.

    Settings are mapped across engines (SGLang's 4 draft tokens are vLLM's 3). Measured differences stand beside.
    """
    sides = [_side(where, passive, api_key_file, log) for where, log in ((a, log_a), (b, log_b))]
    return finish(judge(sides[0], sides[1], a, b), how)


def _side(where: str, passive: bool, key: Path | None, log: Path | None) -> Evidence:
    if where.startswith(("http://", "https://")):
        plan = live.Plan(
            url=where,
            passive=passive,
            key_file=key,
            log=log,
            progress=lambda line: click.echo(line, err=True),
        )
        return gather(live.observe(plan))
    return gather(record.load(where))
