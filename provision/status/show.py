"""What an operator sees of a status: one block a machine, what is wrong in colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from provision.migrate import standing
from provision.migrate.silence import unanswered
from provision.printable import escape
from provision.status import adopted, cut_over, serving
from provision.status.state import UNKNOWN, Status

_COLOURS = {"in sync": "green", "pending": "yellow", "refused": "red", "unknown": "red"}
SHOWN = 5


def show(
    found: Sequence[Status],
    verdicts: Sequence[Mapping[str, Mapping[str, Any]]],
    console: Console | None = None,
) -> None:
    """On the standard output; ``verdicts``: of each machine's services, by this controller's journals."""
    out = console or Console(highlight=False, soft_wrap=True)
    for status, last in zip(found, verdicts, strict=True):
        _machine(out, status)
        for service, one in last.items():
            out.print(f"  last verdict of {escape(service)}: {escape(str(one['verdict']))}, {one['at']}")


def _machine(out: Console, status: Status) -> None:
    word: str = status.state
    if status.state == "pending":
        busy = sum(line.startswith(cut_over.BY_HAND) for line in status.pending)
        changes = len(status.pending) - busy
        word = "a cut-over is at work" if busy and not changes else f"{changes} change(s) pending"
    elif status.state == "refused":
        word = f"refused for {len(status.refusals)} reason(s)"
    silent = [said for one in status.migrations if (said := unanswered(one))]
    loud = f"; [bold red]{escape('; '.join(silent))}[/]" if silent else ""
    out.print(f"[bold]{escape(status.machine)}[/]  [{_COLOURS[status.state]}]{word}[/]{loud}")
    if status.kernel != UNKNOWN or status.driver != UNKNOWN:
        out.print(f"  driver {escape(status.driver)}, kernel {escape(status.kernel)}")
    for lines, colour in ((status.refusals, "red"), (status.pending, "yellow")):
        for line in lines[:SHOWN]:
            out.print(f"    [{colour}]-[/] {escape(line)}")
        if len(lines) > SHOWN:
            out.print(f"    … and {len(lines) - SHOWN} more: provision plan shows all")
    moved = {
        one["service"]: one["peer"]
        for one in status.migrations
        if (one["role"], one["state"]) == ("source", "finalized")
    }
    for guest in status.guests:
        where = escape(f"{guest['guest']} ({guest['backend']} {guest['id']})")
        out.print(f"  guest {where}: {guest['state']}")
        for service in guest["services"]:
            if service["active"] == adopted.GONE and service["service"] in moved:
                there = escape(moved[service["service"]])
                out.print(
                    f"    {escape(service['unit'])}: not there any more, it was moved to {there} for good"
                )
                continue
            colour = "green" if service["active"] == "active" else "red"
            out.print(
                f"    {escape(service['unit'])}: [{colour}]{escape(service['active'])}[/], "
                f"{escape(service['engine'])}, {escape(service['model'])}, port {service['port']}"
            )
            for line in cut_over.lines(service):
                out.print(f"      [yellow]{escape(line)}[/]")
            for line in serving.lines(service):
                out.print(f"      {escape(line)}")
            if service["drift"]:
                fields = ", ".join(one["field"] for one in service["drift"])
                out.print(f"      [yellow]other than the inventory says:[/] {escape(fields)}")
    _rest(out, status)


def _rest(out: Console, status: Status) -> None:
    for one in status.migrations:
        colour = "yellow" if one["state"] == "open" else "white"
        out.print(f"  [{colour}]{escape(standing.told(one))}[/]")
    run = status.last_run
    if isinstance(run, dict):
        end = (
            f"[red]failed: {escape(run['failed'].splitlines()[0][:200])}[/]"
            if run["failed"]
            else f"{run['changes_done']} change(s)"
        )
        out.print(f"  last run {escape(run['run'])}, {escape(run['at'])}: {end}")
        if run["begun_and_not_ended"]:
            out.print(f"  [red]begun and not ended:[/] {escape(run['begun_and_not_ended'])}")
        if run.get("ended_without_its_run"):
            out.print(f"  {escape(run['ended_without_its_run'])}")
    elif run is None and status.state != "unknown":
        out.print("  no run has changed it")
    for reason in status.reboot:
        out.print(f"  [yellow]reboot pending:[/] {escape(reason)}")
    if status.waits_for_confirmation:
        out.print(f"  [yellow]waits for its confirmation:[/] {escape(status.waits_for_confirmation)}")
    if status.locked_by and status.locked_by != UNKNOWN:
        out.print(f"  locked by {escape(status.locked_by)}")
    if not isinstance(status.drift, str):
        for one in status.drift:
            out.print(f"  [yellow]{escape(one['state'])}[/]: {escape(one['path'])}: {escape(one['why'])}")
    for what, why in status.unknown.items():
        out.print(f"  unknown: {escape(what)}: {escape(why)}")
