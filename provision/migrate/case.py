"""One preflight: both ends, what was seen of them, what the target's own plan says; and how a rule is made. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

from checks.snapshot import CouldNotLook
from provision.migrate.ends import End, Pair
from provision.migrate.seen import Folder, Looks, MachineLook, Unseen, value
from provision.plan import Plan, Refusal

T = TypeVar("T")


@dataclass(frozen=True)
class Case:
    """``source`` None: a dead source (cold), of which only the inventory is there."""

    pair: Pair
    source: Looks | None
    target: Looks
    plan: Plan

    @property
    def ends(self) -> Iterator[tuple[End, MachineLook]]:
        """Both ends with the look at their machine; a dead source is left out."""
        if self.source is not None:
            yield self.pair.source, self.source.machine
        yield self.pair.target, self.target.machine

    def folders(self) -> Iterator[tuple[str, Folder | Unseen | None]]:
        """The source's model folders by role, as far as its guest was looked into."""
        if self.source is not None and self.source.guest is not None:
            yield from self.source.guest.folders.items()

    @property
    def copied(self) -> list[tuple[str, Folder]]:
        """What is copied: model folders that were seen whole and that the target does not have already."""
        return [
            (role, one) for role, one in self.folders() if isinstance(one, Folder) and not self.has(role, one)
        ]

    def has(self, role: str, folder: Folder) -> bool:
        """Has the target these very files already, by name and size? (They are verified when it starts.)"""
        there = self.target.machine.incoming.get(role)
        return (
            isinstance(there, Folder)
            and there.files is not None
            and there.files == folder.files
            and there.count == folder.count
        )


About = Literal["", "serving", "served", "target serves"]
"""What a rule judges, where an earlier migration may have told it: that the source serves (``serving``), what it serves
(``served``: with no service there, all that is seen is that it has gone), that the target does."""


@dataclass(frozen=True)
class Rule:
    """``id`` names the kind of refusal, ``text`` says when it is refused, ``judge`` gives every one. ``source``: where
    the rule is from. A rule that could not look refuses too."""

    id: str
    text: str
    judge: Callable[[Case], Iterator[Refusal]]
    source: str = ""
    about: About = ""


def sure(seen: T | Unseen) -> T:
    """Raises CouldNotLook; a rule that does is refused with what was in the way."""
    return value(seen)


def of(rule: Rule, case: Case) -> list[Refusal]:
    """What one rule refuses."""
    found: list[Refusal] = []
    try:
        for refusal in rule.judge(case):
            found.append(refusal)
    except CouldNotLook as error:
        found.append(unseen(rule, str(error)))
    return found


def unseen(rule: Rule, why: str) -> Refusal:
    return Refusal(
        f"preflight: {rule.id}",
        f"could not be looked at: {why}",
        "what was not seen is never taken for good",
        "make it readable for root on that machine, then run again",
    )
