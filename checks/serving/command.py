"""``provcheck serve``: observe a running model server or replay a record, judge, name the cause, report."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from checks.errors import BadInput
from checks.report.options import Presentation, finish, report_options
from checks.serving import baseline as baselines
from checks.serving import generate as engine
from checks.serving import record
from checks.serving.baseline import Baseline
from checks.serving.evidence import gather
from checks.serving.report import baseline_of, report

_EPILOG = """\b
Examples:
  provcheck serve http://127.0.0.1:8000
  provcheck serve http://127.0.0.1:8000 --save-baseline good.json
  provcheck serve http://127.0.0.1:8000 --baseline good.json --baseline off.json --diagnose
  provcheck serve --passive                       reads counters only, sends nothing
  provcheck serve --replay incident.json --diagnose
  provcheck serve --replay runs/case --diagnose   runs/case.metrics.txt, .log.txt, .drafter_config.json
"""


@click.command(epilog=_EPILOG)
@click.argument("url", required=False)
@click.option(
    "--baseline",
    "baseline_files",
    multiple=True,
    metavar="FILE",
    help=(
        "A saved baseline, a record or a prefix of a good run; one with speculation off gives the break-even."
    ),
)
@click.option("--diagnose", is_flag=True, help="Rank the causes and say why the others are out.")
@click.option("--replay", metavar="FILE", help="Judge this record (or prefix) instead of a running service.")
@report_options
def serve(
    how: Presentation,
    url: str | None,
    baseline_files: tuple[str, ...],
    diagnose: bool,
    replay: str | None,
) -> int:
    """Is the served model really generating, as configured, and as fast as it should?"""
    if replay is None:
        raise BadInput("give the address of a server, or --replay FILE")
    seen = record.load(replay)
    return finish(
        report(seen, tuple(load_baseline(name) for name in baseline_files), with_diagnosis=diagnose), how
    )


def load_baseline(name: str) -> Baseline:
    """A saved baseline, or the numbers of a record or prefix. Raises BadInput when it is none of them."""
    path = Path(name)
    if path.is_file():
        data = record.read_object(path, record.MAX_CONFIG * 4)
        if data.get("schema") == baselines.SCHEMA:
            return baselines.from_json(data, name)
    return baseline_of(gather(record.load(name)), name)


@click.command(name="_generate")
@click.argument("url")
@click.option("--model", required=True, metavar="NAME", help="The name under which the server serves.")
@click.option(
    "--deadline", type=click.FloatRange(0.1, 86400), metavar="S", help="Seconds to wait; 600, 10 with --once."
)
@click.option(
    "--api-key-file", type=click.Path(dir_okay=False, path_type=Path), help="File with the key, one line."
)
@click.option("--pid", type=click.IntRange(2), help="The server's process: when it is gone, waiting ends.")
@click.option("--once", is_flag=True, help="One try, no waiting.")
def generate(
    url: str, model: str, deadline: float | None, api_key_file: Path | None, pid: int | None, once: bool
) -> int:
    """Waits until the server at URL generates text, and prints one line of JSON.

    \b
    Exit codes: 0 it generates, 1 it is there and does not (key, model, empty text, died), 3 nothing listens.
    """
    target = engine.server(url, model, api_key_file)
    result, code = engine.wait(
        target,
        deadline or (10.0 if once else 600.0),
        once=once,
        alive=engine.pid_watch(pid),
        progress=lambda line: click.echo(f"waiting for {target.shown}: {line}", err=True),
    )
    sys.stdout.write(result.line() + "\n")
    return code
