"""What the journals of this controller's runs say: the last verdict of each service, and what a run was for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from provision.run import journal
from provision.spec import Machine

RUNS = 50
"""How many of the newest runs are looked through: a machine that none of them touched has no verdict here."""


def last_verdicts(machine: Machine) -> dict[str, Mapping[str, Any]]:
    """By ``service on host``: the newest verdict of its gate, with run and time."""
    names = {machine.host_name, *(machine.guest_host_name(guest) for guest in machine.guests)}
    folder = journal.runs_folder()
    try:
        runs = sorted((path.name for path in folder.iterdir() if journal.is_run_id(path.name)), reverse=True)
    except OSError:
        return {}
    found: dict[str, Mapping[str, Any]] = {}
    for run in runs[:RUNS]:
        try:
            events = list(journal.read(run))
        except OSError:
            continue
        for event in reversed(events):
            host = str(event.get("host", ""))
            if host in names and event.get("event") == "gate":
                verdict = {"run": run, "at": event.get("at"), "verdict": event.get("verdict")}
                found.setdefault(f"{event.get('service', '?')} on {host}", verdict)
    return found


def reasons(runs: Iterable[str]) -> dict[str, str]:
    """What each run was for (``apply kpro5``). Runs of other controllers have no journal here, and are left out."""
    found = {}
    for run in runs:
        if not journal.is_run_id(run):
            continue
        try:
            events = journal.read(run)
            found[run] = next(str(event["reason"]) for event in events if "reason" in event)
        except (OSError, StopIteration):
            continue
    return found
