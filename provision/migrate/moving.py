"""One migration under way: its two ends, what its steps use, where it tells what it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from provision.migrate import record
from provision.migrate.copy.model import Progress
from provision.migrate.ends import Role
from provision.migrate.sides import Side, Target
from provision.migrate.standing import Back, Record, State
from provision.migrate.traffic.port import Traffic
from provision.plan import Refusal
from provision.run.errors import ActFailed
from provision.run.journal import now
from provision.spec import Migration

Say = Callable[[str], None]


class Copying(Protocol):
    """The copy of one run (provision.migrate.copy.copying.Copy). Every method looks first and may be repeated.
    ``heard`` gets every look at bytes that are waited for."""

    heard: Callable[[Progress], None] | None

    @property
    def route(self) -> str: ...
    def prepare(self) -> object: ...
    def start(self) -> object: ...
    def wait(self, say: Say) -> object: ...
    def verify(self, *, final: bool = False) -> list[str]: ...
    def retake(self, before: Callable[[], object]) -> bool: ...
    def place(self, *, final: bool = False) -> object: ...
    def placed(self) -> bool: ...
    def delta(self, say: Say) -> object: ...
    def undo_delta(self) -> object: ...
    def clean(self) -> object: ...
    def undo(self) -> object: ...
    def forget(self) -> object: ...


class Tell(Protocol):
    """Writes an event into the controller's journal, on the disk when it returns; gives its line."""

    def __call__(self, event: str, **facts: Any) -> str: ...


@dataclass
class Moving:
    """``source`` None: it is dead, the migration is a cold one. ``copy`` None: nothing is copied. ``traffic`` None:
    somebody else leads the clients. ``look``: the preflight; gives every refusal. ``prove`` and ``measure``: answers
    and speed of the target beside the source's; give one sentence, raise ActFailed. ``lives``: every reason not
    to take a dead source for dead, as it is now. ``words`` and ``back``: what the state files have of them."""

    run: str
    source: Side | None
    target: Target
    say: Say
    tell: Tell
    controller: str
    peer: str
    look: Callable[[Moving], list[Refusal]]
    copy: Copying | None = None
    traffic: Traffic | None = None
    prove: Callable[[Moving], str] | None = None
    measure: Callable[[Moving], str] | None = None
    models_from: str = ""
    lives: Callable[[], list[Refusal]] | None = None
    since: str = field(default_factory=now)
    words: tuple[str, ...] = ()
    back: Back = ""
    window: float | None = None
    """When the drain began (monotonic clock); None: it has not."""
    unserved: str = ""
    """Why the source could not be brought back by the last try; empty: it was, or nobody tried."""
    unled: bool = False
    """Does the source serve again, and were requests not seen to go to it?"""
    led: bool = False
    """Had requests been led to the target when that was tried, or was it begun?"""

    @property
    def cold(self) -> bool:
        return self.source is None

    @property
    def sides(self) -> tuple[Side, ...]:
        """Those that are there, the source first."""
        return (self.target,) if self.source is None else (self.source, self.target)

    @property
    def spec(self) -> Migration:
        """What the target's inventory says of moving the service."""
        return self.target.service.migration or Migration()

    @property
    def stops(self) -> bool:
        """Is the source stopped as soon as it is drained? Without a word of who leads clients nothing else keeps them
        off it, and files that it writes must not change under their last copy."""
        return self.traffic is None or bool(self.spec.extra_paths)

    def living(self) -> Side:
        """The source. Raises ActFailed in a cold migration, which has none."""
        if self.source is None:
            raise ActFailed(f"{self.peer} takes no part in a cold migration")
        return self.source

    def record(self, side: Side, step: str, state: State = "open") -> Record:
        role: Role = "target" if side is self.target else "source"
        peer = self.peer if role == "target" else self.target.name
        return Record(
            self.run,
            self.target.service.name,
            role,
            peer,
            self.controller,
            step,
            state,
            self.since,
            self.cold,
            self.models_from,
            words=self.words,
            back=self.back,
        )

    def hold(self) -> None:
        """Both machines are still this run's. Raises RunError."""
        for side in self.sides:
            side.hold()

    def note(self, step: str, state: str, **facts: object) -> None:
        """A step in all three journals. A step that begins is on the disk of both machines before it acts."""
        line = self.tell("step", step=step, state=state, **facts)
        for side in self.sides:
            record.write(side, self.record(side, step), line)
