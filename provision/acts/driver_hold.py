"""The driver's packages are put on hold: an upgrade in passing would swap the user space under the loaded module."""

from __future__ import annotations

import shlex

from pyinfra.api.host import Host

from provision.acts import shell
from provision.acts.voice import Voice
from provision.data import driver_routes
from provision.host import keeping
from provision.host.driver_hold import Hold
from provision.spec import Driver


def hold(host: Host, wanted: Hold, say: Voice) -> None:
    """Raises ActFailed."""
    keeping.before_hold(host, say.run, wanted.names)
    script = f"export LC_ALL=C; apt-mark hold {shlex.join(wanted.names)} 9>&- 2>&1"
    shell.run(host, script, "holding the driver's packages")


def hold_driver(host: Host, driver: Driver, say: Voice) -> None:
    """Those of a driver that was just installed, with what the vendor pins it by. Raises ActFailed."""
    named = {
        part.package
        for system in ("debian", "ubuntu")
        for part in driver_routes.parts(driver.route, driver.flavour, driver.version, system)
    }
    script = (
        f"for p in {shlex.join(sorted(named))}; do "
        "case $(dpkg-query -W -f '${db:Status-Abbrev}' \"$p\" 2>/dev/null) in "
        "ii*) printf '%s\\n' \"$p\" ;; esac; done"
    )
    names = tuple(shell.run(host, script, "listing the driver's packages").split())
    if names:
        hold(host, Hold(names), say)
