"""Act of step 3: a guest that uses the driver is stopped, so that another driver can be loaded."""

from __future__ import annotations

import shlex

from pyinfra.api.host import Host

from provision.acts import shell
from provision.acts.voice import Voice
from provision.guest.userspace import LINKER
from provision.host import keeping
from provision.host.moves import PCT, Asleep
from provision.host.swap import UNDER_WAY

STOP_SECONDS = 150
"""A unit may take 120 to stop; a container that takes longer is ended, unless its operator gave it more."""
SETTLE_SECONDS = 60

_LED = "{enter} -- sh -c 'cat {linker} 2>/dev/null || :' 9>&- </dev/null"
_NOTE = f"""
grep -qsx {{run}} {UNDER_WAY} || {{{{ umask 077; echo {{run}} >>{UNDER_WAY} && sync {UNDER_WAY} /var/lib/kpro; }}}}
"""
_STOP = "lxc-stop -n {id} -t {seconds} 9>&-"

# As at a shutdown of the node: in its time, else it is ended. With HA pct only asks for it and is back at once; and a
# container that is locked meanwhile is left alone by pct itself.
_STOP_PCT = """
pct shutdown {id} --timeout {seconds} --forceStop 1 9>&- || exit 1
until=$(($(date +%s) + {settle}))
until s=$(pct status {id} 2>&1 9>&-); [ "$s" = "status: stopped" ]; do
  [ "$(date +%s)" -lt "$until" ] || {{ echo "container {id} was shut down, and pct says: $s" >&2; exit 1; }}
  sleep 0.5
done
"""


def stop(host: Host, wanted: Asleep, say: Voice) -> None:
    """Stops it; ``undo.sh`` knows before that it ran and what its linker was led to, and a later run that this one did
    not end. Raises ActFailed."""
    quoted = shlex.quote(wanted.id)
    pct = wanted.folder == PCT
    enter = f"pct exec {quoted}" if pct else f"lxc-attach -n {quoted}"
    led = shell.run(host, _LED.format(enter=enter, linker=LINKER), f"looking into container {wanted.id}")
    keeping.before_sleep(host, say.run, wanted.id, wanted.folder, led.strip(), wanted.units)
    note = _NOTE.format(run=shlex.quote(say.run))
    shell.run(host, note, "noting that guests are stopped for another driver")
    say(
        f"container {wanted.id}: stopping{', ' + ', '.join(wanted.units) + ' with it' if wanted.units else ''}"
    )
    seconds = wanted.seconds or STOP_SECONDS
    settle = seconds + SETTLE_SECONDS
    stopping = (_STOP_PCT if pct else _STOP).format(id=quoted, seconds=seconds, settle=settle)
    shell.run(host, stopping, f"stopping container {wanted.id}", timeout=2 * seconds + 2 * SETTLE_SECONDS)


def over(host: Host) -> None:
    """What was stopped serves again. Raises ActFailed."""
    shell.run(host, f"rm -f {UNDER_WAY} && sync /var/lib/kpro", "noting that all guests are back")
