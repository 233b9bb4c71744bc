"""``provcheck _answers``: keeps what a service answers, and holds another service against it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from checks.bounded_json import BadJson, read_object
from checks.errors import BadInput
from checks.files import write_whole
from checks.judged import AllAtOnce
from checks.model import Status
from checks.paths import READ, WRITTEN
from checks.ranges import FiniteRange
from checks.report import render
from checks.report.options import Presentation, finish, progress, report_options, writes
from checks.serving import answers_ask, answers_judge
from checks.serving.address import server
from checks.serving.answers_form import from_dict
from checks.serving.answers_sides import Compared
from checks.serving.limits import overridden

MAX_FILE = 16 << 20
"""Bytes of a file of kept answers: 26 of them are some 30 KB."""

_MODEL = click.option(
    "--model", required=True, metavar="NAME", help="The name under which the server serves."
)
_KEY = click.option("--api-key-file", type=READ, help="File with the key, one line.")
_TOKENIZER = click.option(
    "--tokenizer",
    type=click.Path(path_type=Path, file_okay=False),
    help="The model's folder: its tokenizer's files stand for what the engine does not show.",
)
_SECONDS = click.option(
    "--seconds", type=FiniteRange(1, 3600), default=300.0, show_default=True, help="Limit of the whole run."
)


@click.group(name="_answers")
def answers() -> None:
    """Is another service the same model, with the same tokenizer and chat template?"""


@answers.command(cls=AllAtOnce, name="ask")
@click.argument("url")
@_MODEL
@_KEY
@_TOKENIZER
@_SECONDS
@click.option(
    "--output",
    type=WRITTEN,
    callback=writes,
    required=True,
    help="Where they are kept (provcheck-answers/1).",
)
@click.option("--json", "as_json", is_flag=True, help="The report as JSON.")
def ask(
    url: str,
    model: str,
    api_key_file: Path | None,
    tokenizer: Path | None,
    seconds: float,
    output: Path,
    as_json: bool,
) -> int:
    """Asks the server at URL the fixed questions, keeps its answers, and prints a report.

    \b
    Exit codes: 0 kept, 1 it fails at questions (nothing is kept), 3 it could not be asked.
    """
    target = server(url, model, api_key_file)
    found, met = answers_ask.ask(target, seconds, tokenizer, progress("answers"))
    report = answers_judge.judge_asked(found, met)
    if report.verdict in (Status.PASS, Status.WARN):
        write_whole(output, (json.dumps(found.as_dict()) + "\n").encode(), mode=0o600)
    sys.stdout.write(render(report, "json" if as_json else "table"))
    return report.exit_code()


@answers.command(cls=AllAtOnce, name="compare")
@click.argument("file", type=READ)
@click.argument("url")
@_MODEL
@_KEY
@_TOKENIZER
@_SECONDS
@click.option(
    "--exact", is_flag=True, help="Demand equal answers: same kind of GPU, engine and tensor-parallel size."
)
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=N",
    help="Another threshold, like answers_logprob=0.2; may be repeated.",
)
@report_options
def compare(
    how: Presentation,
    file: Path,
    url: str,
    model: str,
    api_key_file: Path | None,
    tokenizer: Path | None,
    seconds: float,
    exact: bool,
    limits: tuple[str, ...],
) -> int:
    """Holds the server at URL against the answers in FILE."""
    if how.host is not None:
        raise BadInput("--host: put FILE and provcheck there and run it there")
    bounds = overridden(limits)
    try:
        kept = from_dict(read_object(file, MAX_FILE), str(file))
    except BadJson as error:
        raise BadInput(f"{file}: {error}") from None
    except OSError as error:
        raise BadInput(f"cannot read {file}: {error.strerror}") from None
    files = answers_ask.digests(tokenizer)
    target = server(url, model, api_key_file)
    kind, held, met = answers_ask.hold(target, kept, seconds, progress("answers"))
    compared = Compared(kept, held, met, kind, files, exact, bounds)
    return finish(answers_judge.judge(compared), how)
