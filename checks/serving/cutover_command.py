"""``_drain``, ``_room``, ``_verdict``, ``_lasterror``, ``_outcome`` of provcheck: what a cut-over asks and writes."""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from typing import Any

import click

from checks.errors import BadInput
from checks.files import write_whole
from checks.judged import AllAtOnce
from checks.paths import READ, WRITTEN
from checks.ranges import FiniteRange
from checks.serving import drain as draining
from checks.serving import lasterror, trial
from checks.serving import room as rooms
from checks.serving.address import server
from checks.serving.client import Client

_V2, _V1 = "/sys/fs/cgroup", "/sys/fs/cgroup/memory"


@click.command(cls=AllAtOnce, name="_drain")
@click.argument("url")
@click.option("--seconds", type=FiniteRange(0, 86400), default=30.0, help="The longest wait.")
def drain(url: str, seconds: float) -> int:
    """Waits until the server at URL has no request in flight, and says in a sentence what it found.

    \b
    Exit codes: 0 idle, 1 still busy when the time was over.
    """
    target = server(url, "-")
    found = draining.wait(Client(target), seconds, lambda: draining.connected(target.port))
    sys.stdout.write(found.sentence() + "\n")
    return 0 if found.idle else 1


@click.command(cls=AllAtOnce, name="_room")
def room() -> int:
    """Prints how many bytes of memory something that is only tried may take; nothing when that cannot be told."""
    limit = rooms.number(_text(f"{_V2}/memory.max") or _text(f"{_V1}/memory.limit_in_bytes"))
    usage = rooms.number(_text(f"{_V2}/memory.current") or _text(f"{_V1}/memory.usage_in_bytes"))
    stat = _text(f"{_V2}/memory.stat") or _text(f"{_V1}/memory.stat")
    found = rooms.room(_text("/proc/meminfo") or "", limit, usage, rooms.cached(stat))
    if found is not None:
        sys.stdout.write(f"{found}\n")
    return 0


def _text(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


@click.command(cls=AllAtOnce, name="_verdict")
@click.argument("report", type=READ)
@click.option("--code", type=int, default=0, help="The exit code of the measurement.")
@click.option("--beats", type=FiniteRange(0, 1000), help="The least ratio to the baseline's tokens/s.")
@click.option("--baseline", type=READ, help="The baseline that the ratio goes by.")
@click.option("--profile", help="Digest of the profile that was measured.")
def verdict(report: Path, code: int, beats: float | None, baseline: Path | None, profile: str | None) -> int:
    """Says what a report of ``provcheck serve --json`` means for a profile, what was measured first.

    \b
    Exit codes: 0 accepted, 1 refused.
    """
    found = trial.judge(_json(report), code, beats, _json(baseline) if baseline else None, profile)
    sys.stdout.write("".join(f"{line}\n" for line in found.why))
    return 0 if found.accepted else 1


@click.command(cls=AllAtOnce, name="_lasterror")
@click.argument("log", type=READ)
def last_error(log: Path) -> int:
    """Prints the line of an engine's log that says best why it ended; nothing when none does."""
    found = lasterror.last_error(_text(str(log)) or "")
    if found:
        sys.stdout.write(f"{found}\n")
    return 0


@click.command(cls=AllAtOnce, name="_outcome")
@click.argument("path", type=WRITTEN)
@click.option("--told", type=READ, required=True, help="What the controller said of it, as JSON.")
@click.option("--verdict", "said", type=click.Choice(["accepted", "refused"]), required=True)
@click.option("--report", type=READ)
@click.option("--why", type=READ, help="File with the reasons.")
@click.option("--downtime", type=float, help="Seconds; none when it was not measured.")
@click.option("--start", type=float, help="Seconds from its start to its first text.")
@click.option("--measured", type=float, help="Seconds that the measurement took.")
@click.option(
    "--keep", type=WRITTEN, help="Where an accepted one of another profile goes that was there before."
)
def outcome(
    path: Path,
    told: Path,
    said: str,
    report: Path | None,
    why: Path | None,
    keep: Path | None,
    **seconds: Any,
) -> int:
    """Writes what is remembered of a cut-over."""
    known, seen, before = _json(told), _json(report) if report else None, _json(path)
    if not isinstance(known, dict):
        raise BadInput(f"{told} holds no JSON object")
    if keep is not None and trial.stays(before, known.get("digest")):
        write_whole(keep, path.read_bytes(), mode=0o600)
    figures = {
        "verdict": said,
        "why": (_text(str(why)) or "").strip() if why else "",
        "downtime_s": seconds["downtime"],
        "start_s": seconds["start"],
        "measured_s": seconds["measured"],
        "tok_s": trial.tok_s(seen),
        "acceptance": trial.acceptance(seen),
        "reading": trial.reading(seen),
        "when": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    write_whole(path, (json.dumps({**known, **figures}, sort_keys=True) + "\n").encode(), mode=0o600)
    return 0


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError, RecursionError):
        return None
