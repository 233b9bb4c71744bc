"""Start and stop of a service at either end, each proven: it generates, or nothing of it is left."""

from __future__ import annotations

import json
import math
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass

from provision.host.transport import CommandTimeout, Completed
from provision.migrate import fence, probe
from provision.migrate.probe import InGuest, inside
from provision.run.errors import ActFailed
from provision.spec import Service

_PAUSE_S = 1.0
TRY_S = 30
"""The longest that one token may take to be a sign of life."""

_STATE = "systemctl show -p ActiveState -p SubState -p Result -p ExecMainStatus {unit} | tr '\\n' ' '; echo\n"
_DEAD = ("ActiveState=failed", "ActiveState=inactive", "SubState=auto-restart")

_STOP = """
set -u
systemctl stop {unit} || exit 1
group=$(systemctl show -p ControlGroup --value {unit})
[ -z "$group" ] || cat "/sys/fs/cgroup$group/cgroup.procs" 2>/dev/null | sed 's/^/left=/'
awk -v port={port} '
  $4 == "0A" {{ n = split($2, at, ":"); if (at[n] == port) found = 1 }}
  END {{ if (found) print "listens=yes" }}' /proc/net/tcp /proc/net/tcp6 2>/dev/null
systemctl show -p ActiveState {unit}
"""

_LAST = """
umask 077
log=$(mktemp {folder}/log.XXXXXX) || exit 0
# One that systemd has just started again has said little yet: those before it count.
if [ {within} = 0 ]; then set -- "_SYSTEMD_INVOCATION_ID=$(systemctl show -p InvocationID --value {unit})"
else set -- _SYSTEMD_UNIT={unit} --since "-{within} s"; fi
journalctl "$@" --lines 400 --no-pager --output cat >"$log" 2>/dev/null
{provcheck} _lasterror "$log"
rm -f "$log"
"""


@dataclass(frozen=True)
class Life:
    """``unit``: its state in systemd's words. ``why`` it does not generate, with what its log says best."""

    generates: bool
    unit: str
    why: str = ""

    @property
    def dead(self) -> bool:
        return not self.generates and any(word in self.unit for word in _DEAD)


def generates(side: InGuest, run: str, seconds: float = TRY_S) -> Life:
    """One try for one token; ``probe.bring`` comes before. Raises nothing: what cannot be asked does not generate."""
    service = side.service
    words = ["--model", probe.served(service), "--once", "--deadline", f"{seconds:g}"]
    script = _STATE.format(unit=shlex.quote(service.unit)) + probe.asked(service, run, "_generate", words)
    try:
        done = side.inside(script, timeout=seconds + 30)
    except OSError as error:
        return Life(False, "", str(error))
    unit, _, said = done.text.partition("\n")
    if done.ok:
        return Life(True, unit.strip())
    return Life(False, unit.strip(), _why(said, done))


def _why(said: str, done: Completed) -> str:
    try:
        return str(json.loads(said.strip().splitlines()[-1])["why"])
    except (ValueError, KeyError, IndexError, TypeError):
        return " / ".join(done.error_text.splitlines()[-2:]) or f"provcheck ended with {done.rc}"


def start(
    side: InGuest,
    run: str,
    seconds: float,
    say: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> float:
    """Starts the service if it does not run, and waits until it generates; returns the seconds that took. Raises
    ActFailed, at once for a service that does not stay up."""
    service = side.service
    unit = shlex.quote(service.unit)
    probe.bring(side, run)
    if fence.look(side).up:
        raise ActFailed(
            f"{side.name}: {service.unit} is fenced and would not start. Next: take the fence away first "
            "(provision migrate SOURCE-INVENTORY TARGET-INVENTORY --rollback)"
        )
    began, said = clock(), ""
    inside(
        side,
        f"systemctl is-active --quiet {unit} && exit 0; systemctl reset-failed {unit} 2>/dev/null; "
        f"systemctl start --no-block {unit}",
        "starting it",
    )
    while True:
        life = generates(side, run, min(TRY_S, max(1.0, seconds)))
        took = clock() - began
        if life.generates:
            return round(took, 1)
        # Just asked to start, a unit may still say that it is inactive.
        if (life.dead and took > 2 * _PAUSE_S) or took >= seconds:
            raise ActFailed(_not_up(side, run, life, took))
        if life.why != said:
            said = life.why
            say(f"{side.name}: {service.unit} after {took:.0f} s: {said}")
        sleep(_PAUSE_S)


def _not_up(side: InGuest, run: str, life: Life, took: float) -> str:
    service = side.service
    log = last_words(side, run, took)
    return (
        f"{side.name}: {service.unit} does not generate after {took:.0f} s ({life.unit or 'state unknown'}): {life.why}"
        + (f"; its log says: {log}" if log else "")
        + f". Next: journalctl -u {service.unit}, in the guest"
    )


def last_words(side: InGuest, run: str, within: float = 0) -> str:
    """The line of the service's log that says best why it ended or does not answer; empty where none does. ``within``:
    seconds in which it may have been started more than once."""
    script = _LAST.format(
        folder=probe.folder(run),
        within=math.ceil(within),
        unit=shlex.quote(side.service.unit),
        provcheck=shlex.join([probe.PYTHON, probe.path(run)]),
    )
    try:
        return side.inside(script, timeout=60).text.strip()
    except OSError:
        return ""


def stop(side: InGuest, seconds: float = 180) -> None:
    """Stops the service and sees that no process of it is left and nothing listens on its port. Raises ActFailed."""
    service = side.service
    try:
        done = side.inside(_stop_script(service), timeout=seconds)
    except CommandTimeout as error:
        raise ActFailed(
            f"{side.name}: {service.unit} did not stop within {seconds:g} s. Next: systemctl kill -s KILL "
            f"{service.unit}, in the guest, and run again"
        ) from error
    except OSError as error:
        raise ActFailed(f"{side.name}: stopping {service.unit}: {error}") from error
    if not done.ok:
        raise ActFailed(f"{side.name}: stopping {service.unit} ended with {done.rc}: {done.error_text}")
    lines = done.text.split()
    left = [line.removeprefix("left=") for line in lines if line.startswith("left=")]
    state = next((line for line in lines if line.startswith("ActiveState=")), "nothing")
    if left or state not in ("ActiveState=inactive", "ActiveState=failed"):
        raise ActFailed(
            f"{side.name}: {service.unit} was stopped and is not down ({state}"
            f"{', processes ' + ' '.join(left[:8]) if left else ''}): it could still answer. Next: systemctl status "
            f"{service.unit}, in the guest"
        )
    if "listens=yes" in lines:
        raise ActFailed(
            f"{side.name}: {service.unit} is stopped, and something else listens on its port {service.port}: clients "
            f"could be answered by it. Next: ss -ltnp 'sport = :{service.port}', in the guest"
        )


def _stop_script(service: Service) -> str:
    return _STOP.format(unit=shlex.quote(service.unit), port=f"{service.port:04X}")
