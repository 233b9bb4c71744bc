"""Requests in flight at the source: they are waited for, in its guest, as a cut-over does."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from provision.migrate import probe
from provision.migrate.probe import InGuest


@dataclass(frozen=True)
class Drained:
    """``idle``: no request was in flight when it ended; False also where that could not be seen."""

    idle: bool
    said: str


def wait(side: InGuest, run: str, seconds: float) -> Drained:
    """At most ``seconds`` long. Raises ActFailed where provcheck could not be brought; what goes wrong afterwards is
    told, because nothing is gained by going on to serve requests at a source that cannot be asked."""
    probe.bring(side, run)
    words = [
        probe.PYTHON,
        probe.path(run),
        "_drain",
        probe.address(side.service),
        "--seconds",
        f"{seconds:g}",
    ]
    try:
        done = side.inside(shlex.join(words), timeout=seconds + 60)
    except OSError as error:
        return Drained(False, f"{side.name}: its requests could not be counted: {error}")
    if done.rc not in (0, 1) or not done.text.strip():
        said = done.error_text or f"provcheck ended with {done.rc}"
        return Drained(False, f"{side.name}: its requests could not be counted: {said}")
    return Drained(done.ok, f"{side.name}: {done.text.strip()}")
