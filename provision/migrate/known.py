"""What the inventories' own machinery knows of both ends: digests, commands, keys, start figures. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from checks.snapshot import CouldNotLook
from provision.migrate.ends import End
from provision.planner import Observed, Wanted, settle
from provision.stack import held, staged
from provision.stack.desired import DesiredService
from provision.stack.forecast import Figures, figures


def desired(end: End, wanted: Wanted, observed: Observed | None = None) -> DesiredService | None:
    """The service as its inventory has it, worked out with what was observed; None where somebody else set it up."""
    given = wanted.services.get(end.guest.name, ())
    if observed is not None:
        inside = observed.guests.get(end.guest.name)
        given = settle(end.machine, end.guest, given, observed.host, inside)
    return next((one for one in given if one.name == end.service.name), None)


def digests(one: DesiredService | None) -> Mapping[str, str]:
    """What may run of it: its own profile, and its candidate."""
    if one is None:
        return {}
    candidate = {one.candidate.digest: "candidate"} if one.candidate is not None else {}
    return {**candidate, one.digest: "own profile"}


def command(end: End, one: DesiredService | None) -> tuple[str, ...]:
    """The words that the engine is started with; of somebody else's service those of its process."""
    if one is not None:
        return staged.command_of(one.unit)
    return end.service.found.command if end.service.found else ()


def same_key(source: DesiredService | None, target: DesiredService | None) -> bool | None:
    """None where one of the keys is not known to the controller."""
    if source is None or target is None:
        return None
    return source.key == target.key


def starts(end: End, wanted: Wanted, observed: Observed) -> Figures:
    """From what the guest keeps of earlier starts of the service; empty where nothing is known."""
    one, inside = desired(end, wanted, observed), observed.guests.get(end.guest.name)
    if one is None or inside is None:
        return Figures()
    try:
        return figures(one.digest, held.held(one, inside))
    except CouldNotLook:
        return Figures()
