"""Whether the fresh reading of a cut-over or a measurement becomes the baseline of a service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinfra.api.host import Host

from provision.acts import baseline
from provision.run.errors import RunError
from provision.spec import Guest, Machine
from provision.stack import baselines, sameness
from provision.stack.desired import DesiredService

if TYPE_CHECKING:
    from provision.run.session import Session


def keep(
    session: Session, machine: Machine, host: Host, desired: DesiredService, digest: str, run: str
) -> bool:
    """``digest``: of the profile that was measured, ``desired``: the one whose file it lies in; ``run``: who took
    it. Was anything kept? A reading that cannot be kept is said, and fails nothing."""
    guest: Guest = host.data.guest
    to = baselines.belongs(machine, guest, desired) if digest == desired.digest else None
    shape = sameness.shape(desired) if to is not None else ""
    try:
        told = baseline.keep(host, desired.name, digest, to, run, shape)
    except RunError as error:
        session.say(f"{host.name}: {error}")
        return False
    for path, why in told.items():
        session.tell_journal("baseline", host=host.name, service=desired.name, path=path, why=why)
        session.say(f"{host.name}: baseline of {desired.name} kept in {path}: {why}")
    return bool(told)
