"""The service at one end asked whether it runs and whether it generates; started and stopped there."""

from __future__ import annotations

import shlex
import time

from provision.migrate import probe
from provision.migrate.sides import Side
from provision.run.errors import ActFailed

_STATE = "systemctl show -p ActiveState --value {unit}"
_START = "systemctl reset-failed {unit} 2>/dev/null; systemctl start --no-block {unit}"
_STOP = "systemctl stop {unit}"
_SLICE = 5.0


def is_active(side: Side) -> bool:
    """Is its unit up, or on its way there? Raises ActFailed."""
    return state(side) in ("active", "activating", "reloading")


def state(side: Side) -> str:
    """systemd's ActiveState of the unit. Raises ActFailed."""
    done = side.inside(_STATE.format(unit=shlex.quote(side.service.unit)))
    if not done.ok:
        raise ActFailed(f"{side.name}: {side.service.unit} could not be looked at: {done.error_text}")
    return done.text.strip()


def generates(side: Side, run: str) -> str:
    """One try to have a token generated. Empty: it does; else why not. Raises ActFailed when it cannot be asked."""
    probe.bring(side, run)
    words = ["--model", probe.served(side.service), "--once"]
    done = side.inside(probe.asked(side.service, run, "_generate", words), timeout=120)
    return "" if done.ok else (done.text.strip() or done.error_text or f"exit {done.rc}")


def until_it_generates(side: Side, run: str, poll: float = 1.0) -> None:
    """Waits as long as its inventory lets it load. Raises ActFailed, at once for a unit that is down."""
    until = time.monotonic() + side.service.ready_seconds
    while why := generates(side, run):
        if not is_active(side):
            raise ActFailed(f"{side.name}: {side.service.unit} is {state(side)} and does not generate: {why}")
        if time.monotonic() > until:
            raise ActFailed(
                f"{side.name}: {side.service.unit} does not generate within {side.service.ready_seconds} s: {why}"
            )
        time.sleep(poll)


def start(side: Side, run: str, poll: float = 1.0) -> None:
    """It runs and generates. Raises ActFailed."""
    if not is_active(side):
        done = side.inside(_START.format(unit=shlex.quote(side.service.unit)), timeout=60)
        if not done.ok:
            raise ActFailed(f"{side.name}: {side.service.unit} could not be started: {done.error_text}")
    until_it_generates(side, run, poll)


def stop(side: Side, seconds: float = 300) -> None:
    """It does not run. Raises ActFailed."""
    done = side.inside(_STOP.format(unit=shlex.quote(side.service.unit)), timeout=seconds)
    if not done.ok:
        raise ActFailed(f"{side.name}: {side.service.unit} could not be stopped: {done.error_text}")
    if is_active(side):
        raise ActFailed(f"{side.name}: {side.service.unit} was stopped and is {state(side)}")
