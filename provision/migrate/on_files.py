"""What the steps do with files: copied while the source serves, once more after the drain, and proven equal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from provision.migrate import on_target
from provision.migrate.copy.model import Progress
from provision.migrate.moving import Copying, Moving
from provision.migrate.sides import Side
from provision.run.errors import ActFailed

SAMPLE_SECONDS = 5.0
"""Between two lines of a copy in the journal, each of which is flushed to the disk."""


def copy(m: Moving) -> str:
    if m.copy is None:
        return "nothing is copied from the source"
    if m.spec.extra_paths and not _is_there(m.target):
        # They lie in the guest. What it needs of the chain beside the models that come now is done first.
        m.target.apply(("configure",))
    m.copy.prepare()
    m.copy.start()
    with _told(m, m.copy, "copy"):
        m.copy.wait(m.say)
        # What serves there read other files than the source's: it is away before they are copied again.
        if m.copy.retake(lambda: on_target.cool(m)):
            m.copy.start()
            m.copy.wait(m.say)
    _equal(m, final=False)
    m.copy.place()
    return f"the model files on {m.target.name} equal those of {m.peer}, by their checksums"


def _is_there(side: Side) -> bool:
    """Does the guest run?"""
    try:
        return side.inside(":").ok
    except OSError:
        return False


def is_copied(m: Moving) -> bool:
    """In their place, and equal: what is only gathered is no model that the guest has."""
    return m.copy is None or (m.copy.placed() and not m.copy.verify())


def uncopy(m: Moving) -> str:
    if m.copy is None:
        return ""
    m.copy.undo()
    return f"{m.target.name}: what was copied is away, and the key with it"


def delta(m: Moving) -> str:
    if m.copy is None or not m.spec.extra_paths:
        return "nothing changes while the source serves: there is no last copy"
    with _told(m, m.copy, "delta"):
        m.copy.delta(m.say)
    _equal(m, final=True)
    m.copy.place(final=True)
    return "what the source wrote last is on the target"


def undelta(m: Moving) -> str:
    if m.copy is None or not m.spec.extra_paths:
        return ""
    m.copy.undo_delta()
    return "what was copied last is away"


def verify(m: Moving) -> str:
    if m.copy is not None:
        _equal(m, final=True)
    if not on_target.in_sync(m, "configure"):
        plan = m.target.plan(("configure",))
        left = [item.text for item in plan.items] + [str(refusal) for refusal in plan.refusals]
        raise ActFailed(f"{m.target.name} is not as its inventory says: {'; '.join(left)}")
    return "files, unit and environment on the target are as they are to be"


@contextmanager
def _told(m: Moving, copying: Copying, step: str) -> Iterator[None]:
    """The journal has how the copy gets on, and what it came to."""
    last: list[Progress] = []
    began, told = time.monotonic(), 0.0

    def heard(now: Progress) -> None:
        nonlocal told
        last[:] = [now]
        if time.monotonic() - told < SAMPLE_SECONDS:
            return
        told = time.monotonic()
        facts = {"bytes_done": now.bytes_done, "bytes_total": now.bytes_total, "rate": now.rate}
        m.tell("progress", step=step, eta_s=now.eta, state=now.state, **facts)

    copying.heard = heard
    try:
        yield
    finally:
        copying.heard = None
    if last:
        seconds = round(time.monotonic() - began, 2)
        m.tell("copied", step=step, bytes=last[-1].bytes_done, seconds=seconds, route=copying.route)


def _equal(m: Moving, *, final: bool) -> None:
    wrong = m.copy.verify(final=final) if m.copy is not None else []
    if wrong:
        more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise ActFailed(
            f"{len(wrong)} file(s) differ between {m.peer} and {m.target.name}: {'; '.join(wrong[:5])}{more}. Nothing "
            "is served from files that were not seen equal. Next: --resume copies what differs again, or --rollback"
        )
