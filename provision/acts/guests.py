"""Act of step 3: a guest that uses the driver is stopped, so that another driver can be loaded."""

from __future__ import annotations

import shlex

from pyinfra.api.host import Host

from provision.acts import shell
from provision.acts.voice import Voice
from provision.guest.userspace import LINKER
from provision.host import keeping
from provision.host.moves import Asleep
from provision.host.swap import UNDER_WAY

STOP_SECONDS = 150
"""A unit may take 120 to stop; a container that takes longer is ended."""

_LED = "lxc-attach -n {id} -- sh -c 'cat {linker} 2>/dev/null || :' 9>&-"
_NOTE = f"""
grep -qsx {{run}} {UNDER_WAY} || {{{{ umask 077; echo {{run}} >>{UNDER_WAY} && sync {UNDER_WAY} /var/lib/kpro; }}}}
"""
_STOP = "lxc-stop -n {id} -t {seconds} 9>&-"


def stop(host: Host, wanted: Asleep, say: Voice) -> None:
    """Stops it; ``undo.sh`` knows before that it ran and what its linker was led to. Raises ActFailed."""
    quoted = shlex.quote(wanted.id)
    led = shell.run(host, _LED.format(id=quoted, linker=LINKER), f"looking into container {wanted.id}")
    keeping.before_sleep(host, say.run, wanted.id, wanted.folder, led.strip(), wanted.units)
    say(
        f"container {wanted.id}: stopping{', ' + ', '.join(wanted.units) + ' with it' if wanted.units else ''}"
    )
    stopping = _STOP.format(id=quoted, seconds=STOP_SECONDS)
    shell.run(host, stopping, f"stopping container {wanted.id}", timeout=2 * STOP_SECONDS)


def over(host: Host) -> None:
    """What was stopped serves again. Raises ActFailed."""
    shell.run(host, f"rm -f {UNDER_WAY} && sync /var/lib/kpro", "noting that all guests are back")
