"""The first two steps of a migration, and how it is left again when it is not gone on with: nothing of it stays."""

from __future__ import annotations

from provision.migrate import again, record
from provision.migrate.moving import Moving
from provision.migrate.scratch import sweep
from provision.migrate.sides import Side
from provision.migrate.silence import first_of_all
from provision.run import ending
from provision.run.errors import Locked, Refused

FORGET_SECONDS = 240
_FORGETTING = (
    f"what this run left on the machines is taken away first, {FORGET_SECONDS} s at most; then it ends"
)


def begin(m: Moving) -> None:
    """Steps 1 and 2: the machines are this run's, and nothing speaks against it. Raises Locked and Refused; then
    nothing of the run is left."""
    m.hold()
    for side in m.sides:
        may_begin(side, m.run)
    try:
        for side in m.sides:
            record.keep(side)
        m.note("lock", "begin")
        m.note("lock", "done")
        m.note("preflight", "begin")
        if refusals := m.look(m):
            m.tell("step", step="preflight", state="failed", why=f"{len(refusals)} reason(s)")
            raise Refused(refusals)
        m.note("preflight", "done")
    except BaseException:
        with ending.held(_FORGETTING, FORGET_SECONDS):
            forget(m)
            for side in m.sides:
                record.unwritten(side, m.run)
        raise


def let_be(m: Moving) -> None:
    """After ``begin``, when it is not gone on with: nothing of it is left that anybody would have to close."""
    with ending.held(_FORGETTING, FORGET_SECONDS):
        forget(m)


def may_begin(side: Side, run: str) -> None:
    """Raises Locked when another migration of the service is open, or was never closed, on this machine."""
    there = record.read(side)
    if there is None or there.run == run or there.state in ("finalized", "rolled_back"):
        return
    if there.state == "moved" and there.role == "target":
        what = f"{there.service} came to {side.name} by migration {there.run}, which was not closed"
        ways = f"{again.command(there, '--finalize')}, or --rollback brings the service back"
    else:
        what = f"migration {there.run} of {there.service} is {there.state} on {side.name} since {there.since}"
        moved = f"{again.command(there, '--rollback')}, or --finalize"
        ways = again.ways_on(vars(there)) if there.state == "open" else moved
    raise Locked(
        f"{first_of_all(vars(there))}{what} (step {there.step}, from {there.controller}): two at once could leave two "
        f"hosts that answer. Next: {ways}"
    )


def forget(m: Moving) -> None:
    """Scratch folders and state files away; the state files last, since they lead back here. Raises RunError."""
    for side in m.sides:
        sweep(side, m.run)
    for side in m.sides:
        there = record.read(side)
        if there is not None and there.run == m.run:
            record.put_back(side)
