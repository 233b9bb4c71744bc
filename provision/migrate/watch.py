"""The first minutes of the target with its clients: it generates again and again, and its own counters are well."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from provision.migrate import probe
from provision.migrate.probe import InGuest
from provision.migrate.serving import Life, generates, last_words
from provision.migrate.traffic.port import Traffic
from provision.run.errors import ActFailed
from provision.run.reports import green, line_of, report_of, unknown
from provision.spec import Service
from provision.stack.desired import silences_path

EVERY_S = 5.0
_GATE_S = 120


@dataclass(frozen=True)
class Watched:
    """``why`` is empty where all was well. ``tries``: tokens asked for; ``slowest``: seconds that one took at most.
    ``report``: of the passive gate, None where it did not come to that."""

    why: str
    tries: int
    slowest: float
    report: dict[str, Any] | None = None

    @property
    def well(self) -> bool:
        return not self.why


def watch(
    side: InGuest,
    run: str,
    seconds: float,
    traffic: Traffic | None,
    say: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    proven: Callable[[], object] | None = None,
) -> Watched:
    """Ends at the first thing that is not well. ``proven``: raises ActFailed where requests that are led there come to
    somebody else. Raises ActFailed where provcheck could not be brought."""
    probe.bring(side, run)
    began, tries, slowest = clock(), 0, 0.0
    while True:
        asked = clock()
        life = generates(side, run)
        tries, slowest = tries + 1, max(slowest, clock() - asked)
        if not life.generates:
            return Watched(_of_life(side, run, life, clock() - began), tries, round(slowest, 2))
        if traffic is not None and (seen := traffic.state()).who != "target":
            why = f"after {clock() - began:.0f} s requests do not go to the target any more: {seen.said}"
            return Watched(why, tries, round(slowest, 2))
        try:
            _ = proven() if proven is not None else None
        except ActFailed as error:
            return Watched(f"after {clock() - began:.0f} s: {error}", tries, round(slowest, 2))
        left = seconds - (clock() - began)
        if left <= 0:
            break
        sleep(min(EVERY_S, left))
    say(
        f"{side.name}: {tries} tokens asked for in {clock() - began:.0f} s, the slowest after {slowest:.1f} s"
    )
    report = passive(side, run)
    why = (
        ""
        if green(report)
        else f"its counters are not well ({report['verdict']}): {line_of(report, 'serve')}"
    )
    return Watched(why, tries, round(slowest, 2), report)


def _of_life(side: InGuest, run: str, life: Life, after: float) -> str:
    log = last_words(side, run, after)
    return (
        f"{side.name}: {side.service.unit} did not generate any more after {after:.0f} s "
        f"({life.unit or 'state unknown'}): {life.why}" + (f"; its log says: {log}" if log else "")
    )


def passive(side: InGuest, run: str) -> dict[str, Any]:
    """Counters since its start, judged; nothing is sent. Raises nothing: what could not be looked at is unknown."""
    try:
        done = side.inside(probe.asked(side.service, run, "serve", words(side.service)), timeout=_GATE_S)
    except OSError as error:
        return unknown(str(error))
    return report_of(done)


def words(service: Service) -> list[str]:
    found = ["--passive", "--json", "--model", probe.served(service), "--unit", service.unit]
    for name, limit in sorted(service.thresholds.items()):
        found += ["--limit", f"{name}={limit:g}"]
    if service.silences and service.found is None:
        found += ["--silences", silences_path(service)]
    return found
