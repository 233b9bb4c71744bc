"""The way back while one of the two machines is not reached: the source comes first, and needs no target."""

from __future__ import annotations

from contextlib import suppress

from provision.migrate import on_target, record, steps
from provision.migrate.ends import Pair
from provision.migrate.live import Dead, Ends, Live
from provision.migrate.moving import Moving
from provision.migrate.sides import TransportError
from provision.migrate.standing import Record
from provision.migrate.traffic.choose import traffic
from provision.plan import Refusal
from provision.run.errors import Locked, Refused, RunError


def read(side: Live | Dead, ends: Ends) -> Record | None:
    """The state file of this end. Raises ActFailed, TransportError, and ValueError for a migration between others, or
    the other way round: its way back would take away what serves."""
    one = record.read(side)
    if one is None or one.state not in ("open", "moved"):
        return one
    role, peer = ("target", ends.source) if side is ends.target else ("source", ends.target)
    if one.role == role and (peer is None or one.peer == peer.name):
        return one
    source, target = one.ends(side.name)
    raise ValueError(
        f"{one.service} is moved from {source} to {target} (run {one.run}), not "
        + (
            f"between {side.name} and {peer.name}"
            if peer and peer.name != one.peer
            else "the other way round"
        )
        + ": name the two inventories of that move, in that order"
    )


def heard(ends: Ends) -> tuple[list[Record], str]:
    """What the machines say of the migration, and why the target is not heard; empty: it is. Raises Refused when the
    source is not reached, ActFailed where its state file cannot be read, ValueError for another migration."""
    here = None
    if ends.source is not None:
        try:
            here = read(ends.source, ends)
        except TransportError as error:
            raise Refused([_no_way_back(ends, str(error))]) from error
    away, there = "", None
    try:
        there = read(ends.target, ends)
    except TransportError as error:
        if ends.source is None:
            raise
        away = str(error)
    return [one for one in (here, there) if one is not None], away


def hold(m: Moving, away: str) -> str:
    """Both machines are this run's; of a target that is not reached it is said why. Raises Locked, and RunError or
    OSError for the source."""
    for side in m.sides:
        if side is m.target and away:
            continue
        try:
            side.hold()
        except Locked:
            raise
        except (RunError, OSError) as error:
            if side is not m.target or m.cold:
                raise
            away = str(error)
    return away


def unknown(pair: Pair, away: str) -> RunError:
    """The source knows of no migration, and the target cannot be asked."""
    name, source, target = pair.target.service.name, pair.source.name, pair.target.name
    return RunError(
        f"no migration of {name} to {target} is open on {source}, and {target} is not reached ({away}): nothing is to "
        f"be brought back, and whether something is left on {target} is not known. Next: run it again when it is up"
    )


def _no_way_back(ends: Ends, why: str) -> Refusal:
    """Without a source that serves the target is left alone: it may be what answers."""
    assert ends.source is not None
    source, target = ends.source, ends.target
    one, said = None, f"{target.name} has no open migration of {target.service.name} from {source.name}"
    try:
        one = read(target, ends)
    except (RunError, OSError) as error:
        said = str(error)
    if one is None or one.state not in ("open", "moved"):
        return Refusal(source.name, f"{why}; {said}", _WHY, f"bring {source.name} up, and run it again")
    up = f"whether {target.service.name} runs on {target.name} is not known"
    with suppress(OSError):
        up = f"{target.service.name} {'runs' if on_target.runs(target) else 'does not run'} on {target.name}"
    leads = traffic(one.run, source, target)
    seen = leads.state() if leads is not None else None
    led = f"requests: {seen.said}" if seen is not None else "who gets the requests is not kpro's to know"
    begun = one.state == "moved" or steps.at_or_after(one.step, "drain")
    stands = (
        f"{source.name} was drained, or about to be, and does not start by itself once it is"
        if begun
        else f"the run has not kept {source.name} from serving"
    )
    next_step = f"bring {source.name} up, and run it again"
    if not (one.state == "moved" or steps.at_or_after(one.step, "switch")):
        next_step += "; where it is dead for good: --rollback --cold"
    return Refusal(
        source.name,
        f"{why}; migration {one.run} is {one.state} at {one.step}: {stands}; {up}; {led}",
        _WHY,
        next_step,
    )


_WHY = "the way back is to it, and a target that is taken away before it serves leaves nobody who answers"
