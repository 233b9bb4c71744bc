"""``provcheck all``: GPUs, load, NCCL and a served model, one after the other, as one report.

Each part is this program again, in a child with a deadline: one that crashes or hangs is a finding of its own
and takes no other along. Nothing of what a part found is left out; the verdict is the worst.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import click

from checks import child
from checks.asking import all_of
from checks.errors import BadInput
from checks.gpus.dump import MAX_GPUS
from checks.gpus.plan_options import plan_options, words_of
from checks.judged import AllAtOnce
from checks.load.options import Options
from checks.model import EXIT_FAIL, EXIT_PASS, EXIT_UNKNOWN, Finding, Report, Status
from checks.nccl.crew import Deadlines
from checks.nccl.run import longest
from checks.report import read
from checks.report.options import Presentation, also, finish, report_options

Runner = Callable[[list[str], float], child.Ended]
_GRACE = 10.0
"""Seconds for a part that is given up to end its own children."""


class Part(NamedTuple):
    """``args`` are a command and its options; ``deadline`` is far beyond the part's own limits, in seconds."""

    args: tuple[str, ...]
    deadline: float


_EPILOG = """\b
Examples:
  provcheck all --expect 2
  provcheck all http://127.0.0.1:8000 --passive       reads only: nothing is loaded, nothing is sent
  provcheck all http://127.0.0.1:8000 --unit kpro-chat.service
  provcheck all --host kpro5 --json
  provcheck all --expect 8 --mig --leave-out gpu.xid
"""


def _planned(url: str | None, env: str | None, unit: str | None, plan: Mapping[str, Any]) -> tuple[str, ...]:
    """Options of ``gpus``. Raises BadInput."""
    with all_of() as ask:
        ask.refuse(
            url is not None and not url.startswith(("http://", "https://")),
            f"{(url or '')[:80]!r} is no address of a service; give one like http://127.0.0.1:8000",
        )
        ask.refuse(env is not None and unit is not None, "--env and --unit each name the engine; give one")
        planned = ask(words_of, plan)
    assert planned is not None
    return planned


@click.command(
    cls=AllAtOnce,
    name="all",
    epilog=_EPILOG,
    also=also(lambda _, **given: _planned(given["url"], given["env"], given["unit"], given)),
)
@click.argument("url", required=False)
@click.option("--expect", type=click.IntRange(0, MAX_GPUS), metavar="N", help="How many GPUs there must be.")
@click.option("--passive", is_flag=True, help="Only what reads: no load, no NCCL, no prompts.")
@click.option("--env", metavar="PATH", help="The engine's Python environment, for NCCL.")
@click.option("--unit", metavar="NAME", help="The engine's systemd service: its NCCL, and its log.")
@plan_options
@report_options
def everything(
    how: Presentation,
    url: str | None,
    expect: int | None,
    passive: bool,
    env: str | None,
    unit: str | None,
    **plan: Any,
) -> int:
    """All checks of this machine as one report: gpus, load, nccl, and the served model at URL.

    'load' and 'nccl' refuse GPUs that are busy, and say so. The worst verdict is that of the whole.
    """
    planned = _planned(url, env, unit, plan)
    wanted = parts(url, expect, passive, env, unit, planned)
    if how.host is not None:
        from checks.remote import asked

        given = ["all", *([url] if url else []), *_expecting(expect), *planned, *_named(env, unit)]
        given += ["--passive"] if passive else []
        return finish(asked(how.host, given, sum(part.deadline for part in wanted)), how)
    return finish(joined((part, run_part(part, _here)) for part in wanted), how)


def parts(
    url: str | None,
    expect: int | None,
    passive: bool,
    env: str | None = None,
    unit: str | None = None,
    planned: Sequence[str] = (),
) -> tuple[Part, ...]:
    """What is run, in this order: what only reads comes first, so that it sees GPUs at rest. ``planned`` are options of
    ``gpus``."""
    found = [Part(("gpus", *_expecting(expect), *planned), 120.0)]
    if not passive and expect != 0:
        # A part that holds its own deadlines names what hung: none is cut off before.
        found += [
            Part(("load",), Options().longest() + _GRACE),
            Part(("nccl", *_named(env, unit)), longest(Deadlines()) + _GRACE),
        ]
    if url is not None:
        options = (*_named(None, unit), *(["--passive"] if passive else []))
        found.append(Part(("serve", url, *options), 300.0))
    return tuple(found)


def run_part(part: Part, run: Runner) -> Report:
    """The report of one part; when it gives none, a report that says so."""
    command = part.args[0]
    try:
        ended = run([*part.args, "--json", "--exit-style", "provcheck"], part.deadline)
    except OSError as error:
        return _no_report(part, f"it could not be started: {error.strerror}")
    if ended.timed_out:
        return _no_report(part, f"no answer within {part.deadline:g} s")
    if ended.code not in (EXIT_PASS, EXIT_FAIL, EXIT_UNKNOWN) or not ended.stdout.strip():
        said = " / ".join(ended.stderr.splitlines()[-2:])[:400]
        return _no_report(part, f"exit code {ended.code}: {said}".rstrip(": "))
    try:
        report = read.parse(ended.stdout, f"provcheck {command}")
    except BadInput as error:
        return _no_report(part, str(error))
    if not report.findings:
        return _no_report(part, "it found nothing, good or bad")
    return report


def joined(reports: Iterable[tuple[Part, Report]]) -> Report:
    """One report of all findings, each with its command; facts lie under the command's name."""
    findings: list[Finding] = []
    facts: dict[str, Any] = {}
    for part, report in reports:
        command = part.args[0]
        findings += [replace(finding, command=command) for finding in report.findings]
        facts[command] = {"verdict": report.verdict.value, **report.facts}
        facts.setdefault("host", report.facts.get("host"))
    return Report("all", tuple(findings), facts=facts)


def _no_report(part: Part, why: str) -> Report:
    shown = "provcheck " + " ".join(part.args)
    finding = Finding(
        "node.part",
        Status.UNKNOWN,
        "host",
        f"'{shown}' gave no report: {why}",
        fix=f"run it by itself: {shown}",
    )
    return Report(part.args[0], (finding,))


def _expecting(expect: int | None) -> Sequence[str]:
    return () if expect is None else ("--expect", str(expect))


def _named(env: str | None, unit: str | None) -> tuple[str, ...]:
    return (*(("--env", env) if env else ()), *(("--unit", unit) if unit else ()))


def _here(args: list[str], deadline: float) -> child.Ended:
    print(f"provcheck all: {args[0]} ...", file=sys.stderr)  # noqa: T201
    return child.run(child.self_command(*args), deadline, grace=_GRACE)
