"""``provision runs``: what was run from this controller."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from checks.errors import BadInput
from provision.printable import printable
from provision.run import journal
from provision.run.errors import EXIT_DONE, EXIT_ERROR, EXIT_USAGE


def show(run: str | None, as_json: bool) -> int:
    """Lists all runs, or the events of one. Exit code 2 for a run that is not there."""
    if run is not None:
        return _one(run, as_json)
    folder = journal.runs_folder()
    names = (
        sorted(path.name for path in folder.iterdir() if journal.is_run_id(path.name))
        if folder.is_dir()
        else []
    )
    rows = [_summary(name) for name in names]
    if as_json:
        sys.stdout.write(json.dumps({"schema": "provision/1", "command": "runs", "runs": rows}) + "\n")
        return EXIT_DONE
    if not rows:
        click.echo(f"no runs in {folder}")
    for row in rows:
        # A migration is told by how far it came.
        came = row.get("step") or f"{row['changes']:>3} change(s)"
        click.echo(f"{row['run']}  {row['ended']:<12}  {came:<13}  {row['reason']}")
    return EXIT_DONE


def _summary(run: str) -> dict[str, Any]:
    reason, ended, changes, step = "", "did not end", 0, ""
    for event in journal.read(run):
        if event.get("event") == "run":
            reason = str(event.get("reason", ""))
        elif event.get("event") == "done":
            changes += 1
        elif event.get("event") == "rolled back":
            changes += len(event.get("back", ()))
        elif event.get("event") == "step":
            step = f"{event.get('step')} {event.get('state')}"
        elif event.get("event") == "end":
            ended = f"exit {event.get('exit')}"
    return {
        "run": run,
        "reason": reason,
        "ended": ended,
        "changes": changes,
        **({"step": step} if step else {}),
    }


def report(run: str, html: Path | None) -> int:
    """Makes the report anew from the journal: both files beside it, or the page into ``html``. Prints the path."""
    from provision.report import write

    if not _is_there(run):
        return EXIT_USAGE
    try:
        path = html if html is not None else write.write(run)
        if html is not None:
            write.write_page(run, html)
    except (BadInput, OSError) as error:
        click.echo(printable(f"error: {error}"), err=True)
        return EXIT_ERROR
    click.echo(printable(str(path)))
    return EXIT_DONE


def _is_there(run: str) -> bool:
    if journal.is_run_id(run) and (journal.runs_folder() / run / "journal.jsonl").is_file():
        return True
    click.echo(printable(f"error: there is no run {run!r}; list them with: provision runs"), err=True)
    return False


def _one(run: str, as_json: bool) -> int:
    if not _is_there(run):
        return EXIT_USAGE
    events = list(journal.read(run))
    if as_json:
        sys.stdout.write(
            json.dumps({"schema": "provision/1", "command": "runs", "run": run, "events": events}) + "\n"
        )
        return EXIT_DONE
    for event in events:
        if event.get("event") == "trial":
            for line in trial_lines(event):
                click.echo(printable(line))
            continue
        facts = {
            key: value
            for key, value in event.items()
            if key not in ("at", "run", "event") and value not in (None, [])
        }
        click.echo(
            printable(
                f"{event.get('at')}  {event['event']:<10} "
                + "  ".join(f"{key}={value}" for key, value in facts.items())
            )
        )
    return EXIT_DONE


def trial_lines(event: dict[str, Any]) -> list[str]:
    """A cut-over: what was forecast, and below it what was measured."""
    what = "candidate" if event.get("candidate") else "service"
    verdict = event.get("verdict") or "nothing is remembered of it"
    down = event.get("downtime_s")
    measured = [
        "down for " + (f"{down:.1f} s" if isinstance(down, (int, float)) else "no time that was measured"),
        *(
            text.format(event[name])
            for name, text in _FIGURES
            if isinstance(event.get(name), (int, float)) and not isinstance(event.get(name), bool)
        ),
    ]
    lines = [
        f"{event.get('at')}  trial      {event.get('service')} on {event.get('host')}: {what} {event.get('profile')}, "
        f"{event.get('mode') or 'mode unknown'}: {verdict}",
        f"    forecast  {event.get('forecast') or 'none'}",
        f"    measured  {', '.join(measured)}",
    ]
    return lines + [f"    {line}" for line in str(event.get("why") or "").splitlines()]


_FIGURES = (
    ("start_s", "started in {:.1f} s"),
    ("measured_s", "measured in {:.0f} s"),
    ("tok_s", "{:.1f} tok/s"),
    ("acceptance", "acceptance length {:.2f}"),
)
