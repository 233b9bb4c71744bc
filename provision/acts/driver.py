"""Acts of step 3: the pinned driver is put in place. Nothing is loaded here."""

from __future__ import annotations

from collections.abc import Callable

from pyinfra.api.host import Host

from provision.acts import driver_apt, driver_debian, driver_prebuilt, driver_run
from provision.acts.voice import Voice
from provision.host.driver import Install

_ROUTES: dict[str, Callable[[Host, Install, Voice], object]] = {
    "debian": driver_debian.install,
    "nvidia": driver_apt.install,
    "prebuilt": driver_prebuilt.install,
    "run": driver_run.install,
    "ubuntu": driver_apt.install,
}


def install(host: Host, wanted: Install, say: Voice) -> None:
    """Whole, or as it was; what a power cut left is repaired by the next run. Raises ActFailed."""
    _ROUTES[wanted.route](host, wanted, say)
