"""What every command has in common: the output options, and the one way to end with a report.

@click.command()
@report_options
def nccl(how: Presentation, ...) -> int:
    return finish(Report("nccl", findings), how)
"""

from __future__ import annotations

import datetime
import errno
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import wraps
from itertools import combinations
from pathlib import Path
from typing import Any

import click

from checks import standard
from checks.asking import all_of
from checks.errors import BadInput
from checks.files import NotWritten, can_be_written, write_whole
from checks.judged import judged
from checks.model import Report
from checks.paths import READ, WRITTEN
from checks.report import FORMATS, render, silence
from checks.report.exits import STYLES, UNKNOWN_CODE, exit_code
from checks.report.text import EXPIRED, counts, verdict


@dataclass(frozen=True)
class Presentation:
    """How the caller wants it: form, place, dialect of exit codes, and the machine it is about."""

    form: str = "table"
    output: Path | None = None
    strict: bool = False
    exit_style: str = "provcheck"
    host: str | None = None
    silences: tuple[silence.Rule, ...] = ()
    verbose: bool = False
    lost: tuple[str, ...] = ()
    """What was to be kept and could not be, and why."""


def writes(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    """A callback for click, of an option whose file is written at the end."""
    if path is not None and not ctx.resilient_parsing:
        writable(param.opts[0], path)
    return path


def _host(name: str) -> str:
    if not name or name.startswith("-"):
        raise BadInput(f"--host {name!r} is no host name: one that starts with '-' would be an option of ssh")
    return name


_OPTIONS = (
    click.option(
        "--format", "form", type=click.Choice(list(FORMATS)), help="Form of the report; table unless given."
    ),
    click.option("--json", "as_json", is_flag=True, help="Short for --format json."),
    click.option(
        "--output",
        type=WRITTEN,
        callback=writes,
        help="Write the report to this file, whole or not at all, instead of the standard output.",
    ),
    click.option("--verbose", "-v", is_flag=True, help="Spell out what is green as well."),
    click.option("--strict", is_flag=True, help="A warning counts as a failure."),
    click.option(
        "--exit-style",
        type=click.Choice(STYLES),
        help="Exit codes: provcheck 0 pass 1 fail 3 could not check; nagios 0-3; npd 0 ok 1 not 2 unknown.",
    ),
    click.option(
        "--host",
        callback=judged(_host),
        metavar="NAME",
        help="Run there, through ssh (your ssh_config holds); needs only python3 there.",
    ),
    click.option(
        "--silences",
        type=READ,
        callback=judged(silence.load),
        help="JSON list of findings known to be bad: id, subject, owner, reason, until.",
    ),
)

_NAMES = frozenset(("form", "as_json", "output", "strict", "exit_style", "host", "silences", "verbose"))


def report_options(command: Callable[..., int]) -> Callable[..., int]:
    """Adds the options above to a click command, which gets them as one argument ``how``."""

    @wraps(command)
    def wrapped(**given: Any) -> int:
        wanted, rest = _apart_from_the_rest(given)
        return command(how=_presentation(**wanted), **rest)

    for option in reversed(_OPTIONS):
        option(wrapped)
    return wrapped


def also(ask: Callable[..., object]) -> Callable[[Mapping[str, Any]], None]:
    """For ``AllAtOnce``: what such a command refuses by ``ask(how, **its own options)``, which raises BadInput."""

    def asked(given: Mapping[str, Any]) -> None:
        wanted, rest = _apart_from_the_rest(given)
        with all_of() as together:
            how = together(_presentation, **wanted)
            together(ask, how or Presentation(output=given["output"], host=given["host"]), **rest)

    return asked


def _apart_from_the_rest(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    wanted = {name: given[name] for name in _NAMES}
    return wanted, {name: value for name, value in given.items() if name not in _NAMES}


def _presentation(
    *,
    form: str | None,
    as_json: bool,
    output: Path | None,
    strict: bool,
    exit_style: str | None,
    host: str | None,
    silences: tuple[silence.Rule, ...] | None,
    verbose: bool,
) -> Presentation:
    """Raises BadInput for what contradicts itself."""
    if as_json and form not in (None, "json"):
        raise BadInput(f"--json and --format {form} contradict each other; give one")
    chosen = form or ("json" if as_json else "table")
    return Presentation(
        form=chosen,
        output=output,
        strict=strict,
        exit_style=exit_style or ("nagios" if chosen == "nagios" else "provcheck"),
        host=host,
        silences=silences or (),
        verbose=verbose,
    )


def finish(report: Report, how: Presentation) -> int:
    """Renders the report where the caller wants it and returns the exit code. What could not be written anywhere is no
    verdict for whoever waits for it: the code is that of what could not be checked, and one line says what was seen."""
    today = datetime.datetime.now(datetime.timezone.utc).date()
    findings = silence.apply(report.findings, how.silences, today)
    over = silence.expired(findings, how.silences, today)
    facts = {**report.facts, EXPIRED: list(over)} if over else report.facts
    report = replace(report, findings=findings, facts=facts)
    lost = list(how.lost)
    text = render(
        report,
        how.form,
        strict=how.strict,
        color=how.output is None and wants_color(sys.stdout.isatty(), os.environ),
        verbose=how.verbose,
        width=shutil.get_terminal_size((110, 24)).columns if how.output is None else 110,
        root=os.geteuid() == 0 and how.host is None and report.evidence == "live",
    )
    if how.output is not None:
        try:
            write_whole(how.output, text.encode())
        except NotWritten as error:
            lost.append(str(error))
    if how.output is None or lost:
        why = _printed(text)
        lost += [f"the report could not be printed: {why}"] if why is not None else []
    for line in lost:
        standard.complain(f"provcheck: {line}; the verdict was {verdict(report)}: {counts(report)}")
    return UNKNOWN_CODE[how.exit_style] if lost else exit_code(report, how.exit_style, strict=how.strict)


def kept(path: Path | None, data: bytes, how: Presentation) -> Presentation:
    """Writes what was seen to ``path``, where one was given. What was seen is judged and shown all the same when that
    fails: ``finish`` then says so, and its exit code is that of what could not be checked."""
    if path is None:
        return how
    try:
        write_whole(path, data)
    except NotWritten as error:
        return replace(how, lost=(*how.lost, str(error)))
    return how


def writable(option: str, path: Path) -> None:
    """Raises BadInput when a file cannot be put there, before anything is looked at."""
    if not path.parent.is_dir():
        raise BadInput(f"{option} {path}: the folder {path.parent} is not there; make it first")
    try:
        allowed = os.access(path if path.exists() and not path.is_file() else path.parent, os.W_OK)
    except OSError as error:
        raise BadInput(f"{option} {path}: {error.strerror}; name another file") from None
    if not allowed:
        raise BadInput(f"{option} {path}: this user may not write there; name a folder of its own")
    try:
        can_be_written(path)
    except NotWritten as error:
        raise BadInput(f"{option} {path} cannot be written: {error}") from None


def apart(files: Mapping[str, Path | None], how: Presentation) -> None:
    """Raises BadInput when two of the files that are to be written are the same: one would overwrite the other.
    ``files``: by option, beside ``--output``."""
    named = [(option, path) for option, path in {**files, "--output": how.output}.items() if path is not None]
    for (option, path), (other, second) in combinations(named, 2):
        if _same(path, second):
            raise BadInput(
                f"{option} {path} and {other} {second} are the same file: one would overwrite the other;"
                " give each a name of its own"
            )


def _same(one: Path, other: Path) -> bool:
    with suppress(OSError):
        if one.samefile(other):
            return one.is_file()
    return one.resolve() == other.resolve()


def _printed(text: str) -> str | None:
    """Prints the report. None, also when a reader had enough (``| head``); else why it could not be printed."""
    if "stdout" in standard.CLOSED:
        return os.strerror(errno.EBADF)
    coding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(coding, "backslashreplace").decode(coding))
        sys.stdout.flush()
    except OSError as error:
        # What is still buffered would be tried again, and fail again, when the interpreter ends.
        standard.forget()
        return None if error.errno == errno.EPIPE else error.strerror
    return None


def progress(command: str) -> Callable[[str], None]:
    """What is being done, for a person who waits: on standard error, on a terminal only."""
    if not sys.stderr.isatty():
        return lambda text: None
    return lambda text: click.echo(f"{command}: {text}", err=True)


def wants_color(terminal: bool, environ: Mapping[str, str]) -> bool:
    """Colour on a terminal only. NO_COLOR that is empty says nothing (no-color.org)."""
    return terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
