"""What the judges of a driver share: the machine, what was seen, and what the plan is about to do. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from checks.snapshot import Snapshot
from provision.data import drivers
from provision.data.driver_routes import APT_ROUTES
from provision.host import boot, driver_seen, kernels
from provision.host.driver_checks import seen
from provision.plan import Refusal
from provision.spec import Driver, Machine

COMPILED = ("debian", "nvidia", "run")
"""Routes whose module is compiled on the machine, by DKMS; prebuilt and Ubuntu's signed ones come whole."""

PACKAGED = APT_ROUTES
"""Routes that end in packages of dpkg."""

Said = Iterator[Refusal | str]
"""What a judge yields: a refusal, or a note."""


@dataclass(frozen=True)
class Scene:
    """``installing``: the pinned driver is not in place and is to be put there; ``rebooting``: the plan boots the
    machine; ``holding`` and ``releasing``: it tells the boot loader to stay with the running kernel, or no longer to.
    Properties raise CouldNotLook for what was not or could not be looked at."""

    machine: Machine
    snapshot: Snapshot
    installing: bool
    rebooting: bool
    holding: bool = False
    releasing: bool = False

    @property
    def driver(self) -> Driver | None:
        return self.machine.driver

    @property
    def compiles(self) -> bool:
        """Would a module be compiled on the machine by this plan?"""
        return self.installing and self.driver is not None and self.driver.route in COMPILED

    @cached_property
    def running(self) -> str:
        return boot.running_kernel(self.snapshot)

    @cached_property
    def kernels(self) -> tuple[str, ...]:
        """The running kernel and the one that boots next; where that cannot be told, every installed one."""
        return kernels.to_be_ready(self.snapshot)

    @cached_property
    def booting(self) -> tuple[str, ...]:
        """The kernels that a boot after this plan may bring."""
        if self.holding:
            return (self.running,)
        held = None if self.releasing else kernels.held(self.snapshot)
        return (held,) if held else self.kernels

    @cached_property
    def packages(self) -> Mapping[str, seen.Package]:
        return seen.installed(self.snapshot)

    @cached_property
    def os(self) -> dict[str, str]:
        """The assignments of /etc/os-release (os-release(5))."""
        return driver_seen.os_release(self.snapshot)

    @cached_property
    def month(self) -> str:
        """The machine's month, and never one before the rows were checked."""
        return max(seen.month(self.snapshot) or "", drivers.CHECKED[:7])
