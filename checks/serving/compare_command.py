"""``provcheck compare A B``: two services, live or recorded, by what differs in effect."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import click

from checks.asking import all_of
from checks.judged import AllAtOnce, judged
from checks.paths import READ
from checks.report.options import Presentation, finish, report_options
from checks.serving import live, record
from checks.serving.compare import compare as judge
from checks.serving.evidence import Evidence, gather
from checks.serving.observation import Observation

_EPILOG = """\b
Examples:
  provcheck compare tuned.json now.json              two records of provcheck serve --record
  provcheck compare tuned.json http://127.0.0.1:8000
  provcheck compare runs/right runs/theta_missing    prefixes of recorded parts

\b
A is the one that is good, B the one in question. A live side is measured, unless --passive.
"""


class Side(NamedTuple):
    """``where`` as it was given; ``seen``: what a record holds, None for a service that is to be asked."""

    where: str
    seen: Observation | None


def _side(where: str) -> Side:
    return Side(where, None if where.startswith(("http://", "https://")) else record.load(where))


@click.command(cls=AllAtOnce, epilog=_EPILOG)
@click.argument("a", callback=judged(_side))
@click.argument("b", callback=judged(_side))
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
    a: Side,
    b: Side,
    passive: bool,
    api_key_file: Path | None,
    log_a: Path | None,
    log_b: Path | None,
) -> int:
    """What differs between two services, ranked by expected effect, and what to carry over from A to B.

    Settings are mapped across engines (SGLang's 4 draft tokens are vLLM's 3). Measured differences stand beside.
    """
    with all_of() as ask:
        first = ask(_evidence, a, passive, api_key_file, log_a)
        # Nobody is measured for a comparison that cannot be made.
        useful = first is not None or b.seen is not None
        second = ask(_evidence, b, passive, api_key_file, log_b) if useful else None
    assert first is not None
    assert second is not None
    return finish(judge(first, second, a.where, b.where), how)


def _evidence(side: Side, passive: bool, key: Path | None, log: Path | None) -> Evidence:
    if side.seen is not None:
        return gather(side.seen)
    plan = live.Plan(
        url=side.where,
        passive=passive,
        key_file=key,
        log=log,
        progress=lambda line: click.echo(line, err=True),
    )
    return gather(live.observe(plan))
