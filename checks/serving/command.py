"""``provcheck _generate``: used by units and deploys to wait for a server that really generates."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from checks.judged import AllAtOnce
from checks.paths import READ
from checks.ranges import FiniteRange
from checks.serving import generate as engine
from checks.serving.address import server


@click.command(cls=AllAtOnce, name="_generate")
@click.argument("url")
@click.option("--model", required=True, metavar="NAME", help="The name under which the server serves.")
@click.option(
    "--deadline", type=FiniteRange(0.1, 86400), metavar="S", help="Seconds to wait; 600, 10 with --once."
)
@click.option("--api-key-file", type=READ, help="File with the key, one line.")
@click.option("--pid", type=click.IntRange(2), help="The server's process: when it is gone, waiting ends.")
@click.option("--once", is_flag=True, help="One try, no waiting.")
def generate(
    url: str, model: str, deadline: float | None, api_key_file: Path | None, pid: int | None, once: bool
) -> int:
    """Waits until the server at URL generates text, and prints one line of JSON.

    \b
    Exit codes: 0 it generates, 1 it is there and does not (key, model, empty text, died), 3 nothing listens.
    """
    target = server(url, model, api_key_file)
    result, code = engine.wait(
        target,
        deadline or (10.0 if once else 600.0),
        once=once,
        alive=engine.pid_watch(pid),
        progress=lambda line: click.echo(f"waiting for {target.shown}: {line}", err=True),
    )
    sys.stdout.write(result.line() + "\n")
    return code
