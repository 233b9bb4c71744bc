"""Step 4: the machine boots, and is back when it says so with a new boot_id."""

from __future__ import annotations

import logging
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import gevent
from pyinfra.api.host import Host

from provision.acts import confirm, shell
from provision.acts.voice import Voice
from provision.host import reconnect, transport
from provision.host.moves import Reboot
from provision.run.errors import ActFailed

FAILED = "/run/kpro/reboot-failed"
POLL_SECONDS = 2.0
TELL_SECONDS = 6.0
LOOK_SECONDS, CONNECT_SECONDS = 8.0, 20.0
"""A machine that goes down may just fall silent: then neither a command nor a connection would end by itself."""

# The arm and the reboot in one command: a controller that dies leaves both or neither.
_ARM = f"""
umask 077; cat >{confirm.ARM}.new && sync {confirm.ARM}.new && mv -f {confirm.ARM}.new {confirm.ARM} &&
sync {confirm.STATE} || exit 1
"""

_START = f"""
rm -f {FAILED}
systemd-run --quiet --collect --unit=kpro-reboot-{{run}} --description={{why}} \\
  sh -c 'sleep 1; systemctl reboot >{FAILED} 2>&1 && rm -f {FAILED} || rm -f {confirm.ARM}' 9>&- && exit 0
rm -f {confirm.ARM}
exit 1
"""

_LOOK = f"""
cat {reconnect.BOOT_ID} && systemctl is-system-running 2>&1; cat {FAILED} 2>/dev/null
systemctl list-units --failed --plain --no-legend 2>/dev/null | sed 's/ .*//;s/^/unit /'
"""

_MORE = "look at its console or BMC; when it answers again, run again: what was not confirmed is taken back by itself"


@dataclass(frozen=True)
class Pace:
    """The clock of a wait, so that a test does not sleep. Seconds."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = gevent.sleep


@dataclass(frozen=True)
class Look:
    """What a machine that answers says of itself: its boot_id, systemd's state, failed units, a reboot that failed."""

    boot_id: str
    state: str
    failed_units: tuple[str, ...] = ()
    refused: str = ""

    @property
    def settled(self) -> bool:
        """Past starting; ``degraded`` counts: a unit that fails is no reason to wait."""
        return self.state in ("running", "degraded")


def parse(text: str) -> Look:
    """Reads what ``_LOOK`` prints. Raises TransportError when it is cut off."""
    lines = text.splitlines()
    if len(lines) < 2:
        raise transport.TransportError(f"the machine says {text!r} of itself")
    units = tuple(line.removeprefix("unit ") for line in lines[2:] if line.startswith("unit "))
    rest = [line for line in lines[2:] if not line.startswith("unit ")]
    return Look(lines[0].strip(), lines[1].strip(), units, " / ".join(rest))


def reboot(host: Host, wanted: Reboot, say: Voice, pace: Pace | None = None) -> None:
    """Arms commit-confirm, starts the reboot detached, waits until the machine has booted and settled.

    Afterwards ``host`` is connected again; every lock that was held on the machine is gone. Raises ActFailed when the
    machine does not boot, or is not back within ``wanted.deadline`` seconds.
    """
    try:
        before = reconnect.boot_id(host)
    except OSError as error:
        raise ActFailed(str(error)) from error
    if wanted.armed:
        confirm.prepare(host, wanted)
    why = "; ".join(reason.seen for reason in wanted.reasons)
    script = _START.format(run=say.run.lower(), why=shlex.quote(f"kpro run {say.run}: {why}"))
    stdin = confirm.armed(say.run, before, wanted) if wanted.armed else None
    script = f"{_ARM}{script}" if wanted.armed else script
    shell.run(host, script, "starting the reboot", stdin=stdin, timeout=60)
    say(f"{host.name}: reboots ({why}); it is waited for up to {wanted.deadline} s")
    try:
        with _quiet_paramiko():
            look = _wait(host, before, wanted.deadline, say, pace or Pace())
    except gevent.GreenletExit:
        if wanted.armed:
            say(
                f"{host.name}: interrupted while it reboots; unless a new run confirms within "
                f"{wanted.confirm_seconds} s of its boot, it takes the changes back by itself"
            )
        raise
    if look.failed_units:
        say(f"{host.name}: its systemd is {look.state}: {', '.join(look.failed_units)} failed")


def _wait(host: Host, before: str, deadline: float, say: Voice, pace: Pace) -> Look:
    started = told = pace.now()
    seen, look = "still answers", None
    while True:
        pace.sleep(POLL_SECONDS)
        trouble, look_now = _look(host)
        took = pace.now() - started
        if look_now is None:
            seen = f"does not answer ({trouble})"
        else:
            look = look_now
            if look.boot_id == before and look.refused:
                confirm.disarm(host)
                raise ActFailed(
                    f"{host.name} did not reboot: {look.refused}. Look at: systemd-inhibit --list, then run again"
                )
            if look.boot_id != before and look.settled:
                say(f"{host.name}: is back after {took:.0f} s, its boot_id is new, systemd is {look.state}")
                return look
            booted = "has booted" if look.boot_id != before else "has not gone down yet"
            seen = f"{booted}, systemd is {look.state}"
        if took > deadline:
            raise ActFailed(_too_late(host, before, deadline, look, seen))
        if pace.now() - told >= TELL_SECONDS:
            told = pace.now()
            say(f"{host.name}: {took:.0f} s of {deadline:.0f}: {seen}")


def _look(host: Host) -> tuple[str, Look | None]:
    """One look, over a connection that is made anew when it is gone; else why there is none."""
    try:
        if not host.connected:
            with gevent.Timeout(CONNECT_SECONDS):
                why = reconnect.connect(host)
            if why is not None:
                return why, None
        with gevent.Timeout(LOOK_SECONDS):
            return "", parse(transport.run(host, _LOOK).text)
    except OSError as error:
        trouble = str(error)
    except gevent.Timeout as silence:
        trouble = f"silent for {silence.seconds:.0f} s"
    reconnect.drop(host)
    return trouble, None


def _too_late(host: Host, before: str, deadline: float, look: Look | None, seen: str) -> str:
    if look is not None and look.boot_id == before and not seen.startswith("does not answer"):
        return (
            f"{host.name} answers, but its boot_id is the one from before: it did not reboot within {deadline:.0f} s "
            f"({seen}). Look at: systemctl list-jobs; systemd-inhibit --list"
        )
    if look is not None and look.boot_id != before:
        return (
            f"{host.name} has booted but is not ready after {deadline:.0f} s ({seen}). Look at: systemctl list-jobs; "
            f"systemctl --failed; {_MORE}"
        )
    return f"{host.name} is not back after {deadline:.0f} s ({seen}); {_MORE}"


@contextmanager
def _quiet_paramiko() -> Iterator[None]:
    """A machine that boots refuses connections in many ways; each would be a traceback in the log."""
    log = logging.getLogger("paramiko.transport")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)
