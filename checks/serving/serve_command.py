"""``provcheck serve``: observe a running model server or replay a record, judge, name the cause, report."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import click

from checks.asking import Asking, all_of
from checks.errors import BadInput
from checks.files import write_whole
from checks.judged import AllAtOnce
from checks.model import Status
from checks.paths import READ, WRITTEN
from checks.ranges import FiniteRange
from checks.report.options import Presentation, also, apart, finish, kept, report_options, writes
from checks.serving import far, live, record, saved
from checks.serving.baseline import Baseline
from checks.serving.evidence import gather
from checks.serving.limits import Limits, overridden
from checks.serving.observation import Observation
from checks.serving.report import baseline_of, report

_EPILOG = """\b
Examples:
  provcheck serve http://127.0.0.1:8000 --log vllm.log --diagnose
  provcheck serve http://127.0.0.1:8000 --save-baseline good.json
  provcheck serve http://127.0.0.1:8000 --baseline good.json --baseline off.json --diagnose
  provcheck serve http://127.0.0.1:8000 --passive        reads counters only, sends nothing
  provcheck serve http://127.0.0.1:8000 --print-guard chat | sudo sh
  provcheck serve --replay incident.json --diagnose
  provcheck serve --replay runs/case --diagnose          runs/case.metrics.txt, .log.txt, .drafter_config.json

\b
A measurement sends fixed code and prose prompts until 200 drafts are counted, at most 120 s; fewer drafts are
'unknown' (exit 3). A baseline may be a saved one, a record or a prefix; one with speculation off gives the
break-even. What a finding means: provcheck explain ID.
"""

_FILE = READ


class Given(NamedTuple):
    """What the files of a command line hold, and its limits."""

    wanted: dict[str, Any] | None
    baselines: tuple[Baseline, ...]
    limits: Limits
    replayed: Observation | None


def _given(how: Presentation, url: str | None, **options: Any) -> Given | None:
    """None where nothing is looked at. Raises BadInput."""
    if options["print_guard"]:
        return None
    with all_of() as ask:
        _refuse_contradictions(ask, how, url, options)
        ask(apart, {"--record": options["record_to"], "--save-baseline": options["save_baseline"]}, how)
        wanted = ask(record.read_object, options["wanted"], record.MAX_CONFIG) if options["wanted"] else None
        baselines = tuple(one for name in options["baselines"] if (one := ask(saved.load, name)) is not None)
        limits = ask(overridden, options["limits"])
        ask(_levels, options["concurrency"] or "")
        replayed = ask(record.load, options["replay"]) if options["replay"] else None
    assert limits is not None
    return Given(wanted, baselines, limits, replayed)


@click.command(cls=AllAtOnce, epilog=_EPILOG, also=also(_given))
@click.argument("url", required=False)
@click.option(
    "--baseline",
    "baselines",
    multiple=True,
    metavar="FILE",
    help="What to hold it against; may be given twice (on, off).",
)
@click.option(
    "--save-baseline",
    type=WRITTEN,
    callback=writes,
    help="Keep the numbers of this run as a baseline.",
)
@click.option(
    "--wanted", type=_FILE, help='JSON object of settings that must be in effect, like {"tp": 2, "k": 15}.'
)
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=N",
    help="Another threshold, like speed_fail=0.7; may be repeated.",
)
@click.option("--diagnose", is_flag=True, help="Rank the causes and say why the others are out.")
@click.option("--passive", is_flag=True, help="Read the live counters only; send nothing.")
@click.option("--since", metavar="FILE", help="With --passive: count from this earlier record on.")
@click.option(
    "--print-guard",
    metavar="NAME",
    help="Print a script that installs a timer, a unit and alert rules for this service: pipe it to sudo sh.",
)
@click.option(
    "--record",
    "record_to",
    type=WRITTEN,
    callback=writes,
    help="Keep the evidence in this file (provcheck-record/1).",
)
@click.option("--replay", metavar="FILE", help="Judge this record (or prefix) instead of a running service.")
@click.option("--log", type=_FILE, help="The engine's log; of a long one the head and the tail are read.")
@click.option("--unit", metavar="NAME", help="Read the log of this systemd unit instead, since boot.")
@click.option(
    "--drafter", type=click.Path(path_type=Path), help="The drafter's folder, when the log does not name it."
)
@click.option(
    "--target", type=click.Path(path_type=Path), help="The target's folder, to compare rope and vocabulary."
)
@click.option("--model", metavar="NAME", help="The served name; the first one served unless given.")
@click.option("--api-key-file", type=_FILE, help="File with the key, one line.")
@click.option(
    "--thinking",
    type=click.Choice(["on", "off"]),
    default="off",
    show_default=True,
    help="Thinking mode of the prompts.",
)
@click.option(
    "--context",
    type=click.IntRange(0, 1_000_000),
    default=0,
    metavar="TOKENS",
    help="Put about so many tokens of text before each prompt: is it fine short and bad long?",
)
@click.option(
    "--concurrency", metavar="LIST", default="", help="Measure speed also with so many at once, like 4,16."
)
@click.option(
    "--seconds",
    type=FiniteRange(1, 3600),
    default=120.0,
    show_default=True,
    help="Limit of the measured window.",
)
@click.option(
    "--wait",
    type=FiniteRange(0, 86400),
    default=10.0,
    show_default=True,
    help="Seconds to wait for a first token.",
)
@report_options
def serve(how: Presentation, url: str | None, **options: Any) -> int:
    """Is the served model really generating, as configured, and as fast as it should?

    Ready means generated tokens, never /health. One finding per check: output, effective layers, drafter config,
    CUDA graphs, acceptance length and curve, decode speed, time per step, break-even.
    """
    given = _given(how, url, **options)
    if given is None:
        return _print_guard(how, url, options)
    seen = _seen(how, url or "", options, given.replayed)
    if options["record_to"]:
        how = kept(options["record_to"], record.to_record(seen).dump(), how)
    found = report(seen, given.baselines, given.wanted, given.limits, with_diagnosis=options["diagnose"])
    if options["save_baseline"]:
        how = _save(options["save_baseline"], seen, found.verdict, how)
    return finish(found, how)


def _print_guard(how: Presentation, url: str | None, options: dict[str, Any]) -> int:
    """Prints the installer; looks at nothing."""
    from checks.serving.guard import script

    if url is None or options["replay"] or len(options["baselines"]) > 1:
        raise BadInput("--print-guard NAME goes with the address of a service and at most one --baseline")
    key = options["api_key_file"]
    text = script(
        url, options["print_guard"], next(iter(options["baselines"]), None), str(key) if key else None
    )
    if how.output is not None:
        write_whole(how.output, text.encode())
    else:
        sys.stdout.write(text)
    return 0


def _seen(how: Presentation, url: str, options: dict[str, Any], replayed: Observation | None) -> Observation:
    if replayed is not None:
        given = options["drafter"] or options["target"]
        return live.with_files(replayed, options["drafter"], options["target"]) if given else replayed
    if how.host is not None:
        return far.observe(how.host, url, options)
    return live.observe(_plan(url, options))


def _save(path: Path, seen: Observation, verdict: Status, how: Presentation) -> Presentation:
    """A baseline is what later runs are held against, so only a run without a failure becomes one."""
    if verdict in (Status.FAIL, Status.UNKNOWN):
        click.echo(f"{path} is not written: a run that is {verdict.value} is no baseline", err=True)
        return how
    return kept(path, saved.text_of(baseline_of(gather(seen), ""), seen.taken), how)


@click.command(cls=AllAtOnce, name="_observe")
@click.argument("url")
@click.argument("options")
def observe(url: str, options: str) -> int:
    """Prints the record of a service of this machine; the far side of ``serve --host``."""
    data = json.loads(options)
    for name in far.PATHS:
        data[name] = Path(data[name]) if data.get(name) else None
    seen = live.observe(_plan(url, data))
    sys.stdout.buffer.write(record.to_record(seen).dump())
    return 0


def _refuse_contradictions(ask: Asking, how: Presentation, url: str | None, options: dict[str, Any]) -> None:
    replay = options["replay"]
    ask.refuse(
        (url is None) == (replay is None),
        "give either the address of a server, like http://127.0.0.1:8000, or --replay FILE",
    )
    ask.refuse(
        bool(replay and (options["record_to"] or options["passive"] or options["log"] or options["unit"])),
        "--replay judges a record that is there: --record, --passive, --log and --unit do not go with it",
    )
    ask.refuse(
        how.host is not None and bool(replay or options["since"]),
        "--host looks at a running service there: --replay and --since do not go with it",
    )
    ask.refuse(
        bool(options["since"] and not options["passive"]),
        "--since goes with --passive: an active measurement has a window of its own",
    )
    ask.refuse(
        bool(options["log"] and options["unit"]), "--log and --unit are two sources of one log; give one"
    )


def _plan(url: str, options: dict[str, Any]) -> live.Plan:
    since = options["since"]
    return live.Plan(
        url=url,
        model=options["model"],
        key_file=options["api_key_file"],
        passive=options["passive"],
        seconds=options["seconds"],
        wait=options["wait"],
        thinking=options["thinking"] == "on",
        context=options["context"],
        levels=_levels(options["concurrency"]),
        log=options["log"],
        unit=options["unit"],
        drafter=options["drafter"],
        target=options["target"],
        since=record.load(since) if since and Path(since).is_file() else None,
        progress=lambda line: click.echo(line, err=True),
    )


def _levels(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdecimal() and 1 < int(part) <= 64 for part in parts):
        raise BadInput(
            f"--concurrency {text!r}: give numbers from 2 to 64, like 4,16; one at a time is always measured"
        )
    return tuple(int(part) for part in parts)
