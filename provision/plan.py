"""A plan: what would be done to a machine, in the order of the runbook, or why nothing will be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any


class Step(IntEnum):
    """The ten steps of the runbook."""

    INSPECT = 1
    RELEASE = 2
    DRIVER = 3
    REBOOT = 4
    DEVICE_NODES = 5
    CONTAINER = 6
    USER_SPACE = 7
    STACK = 8
    GATE = 9
    SERVICE = 10

    @property
    def title(self) -> str:
        return self.name.lower().replace("_", " ")

    @property
    def phase(self) -> str:
        """Phases are prefixes of the chain: install = 1-5, configure = 6-8, activate = 9-10."""
        if self <= Step.DEVICE_NODES:
            return "install"
        return "configure" if self <= Step.STACK else "activate"


PHASES = ("install", "configure", "activate")


def parse_phases(text: str | None) -> tuple[str, ...]:
    """Reads ``install,configure``; None means all. Raises ValueError on another word, and on an empty text: a variable
    that is not set must not become a cut-over."""
    if text is None:
        return PHASES
    wanted = [word.strip() for word in text.split(",") if word.strip()]
    unknown = [word for word in wanted if word not in PHASES]
    if unknown or not wanted:
        raise ValueError(f"phases={text!r}: the phases are {', '.join(PHASES)}")
    return tuple(phase for phase in PHASES if phase in wanted)


@dataclass(frozen=True)
class Item:
    """One change. ``kind`` names the act that carries it out; ``host`` is the pyinfra host it is done on;
    ``subject`` what it is done to. ``payload`` is for the act alone and is no part of the item's identity. ``costs``:
    what is given up meanwhile; it has to have been shown too, though the item may turn out to need less. ``details``:
    for a program that reads the plan. ``part_of``: the id of an item that takes nothing less: where that was shown, so
    was this."""

    step: Step
    kind: str
    host: str
    subject: str
    text: str
    payload: Any = field(default=None, compare=False, repr=False)
    costs: tuple[str, ...] = ()
    details: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    part_of: str = ""

    @property
    def id(self) -> str:
        return f"{self.kind} {self.subject} on {self.host}"

    @property
    def shown_as(self) -> frozenset[str]:
        return frozenset((self.part_of or self.id, *(f"{self.id}: {cost}" for cost in self.costs)))

    def as_dict(self) -> dict[str, Any]:
        return {
            "step": int(self.step),
            "phase": self.step.phase,
            "kind": self.kind,
            "host": self.host,
            "subject": self.subject,
            "text": self.text,
            **({"costs": list(self.costs)} if self.costs else {}),
            **({"details": dict(self.details)} if self.details else {}),
        }


@dataclass(frozen=True)
class Refusal:
    """Why nothing is touched: the field or thing meant, what was seen, why it matters, what to do next."""

    where: str
    seen: str
    why: str
    next_step: str

    def __str__(self) -> str:
        return f"{self.where}: {self.seen}; {self.why}. Next: {self.next_step}"

    def as_dict(self) -> dict[str, str]:
        return {"where": self.where, "seen": self.seen, "why": self.why, "next": self.next_step}


RECORD_ANEW = "record it anew (provision record HOST FOLDER), or add what is missing to the tree"
"""The next step where a recorded tree lacks something."""

MAKE_READABLE = "make it readable for the user that kpro connects as, then run again"


def lacking_in_record(error: Exception) -> bool:
    """Could something not be looked at because a recorded tree lacks it? What the tree has is as on the machine, also
    a program that failed there."""
    return "the recorded tree has no" in str(error)


def make_seen(error: Exception) -> str:
    """The next step where something could not be looked at; of a recorded tree it is another one than of a machine."""
    said = str(error)
    if lacking_in_record(error):
        return RECORD_ANEW
    if said.endswith(": is a folder"):
        return "a file belongs there: correct it; in a recorded tree it stands for a file that could not be read then"
    return MAKE_READABLE


@dataclass(frozen=True)
class Plan:
    """All items and refusals of one machine. ``notes`` say what was looked at and left as it is."""

    machine: str
    items: tuple[Item, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()

    def limited(self, phases: Iterable[str], hosts: Iterable[str]) -> Plan:
        """The part that belongs to these phases and pyinfra hosts."""
        wanted, names = set(phases), set(hosts)
        kept = tuple(item for item in self.items if item.step.phase in wanted and item.host in names)
        return Plan(self.machine, kept, self.refusals, self.notes)

    def of(self, kind: str, host: str) -> tuple[Item, ...]:
        return tuple(item for item in self.items if item.kind == kind and item.host == host)

    def beyond(self, shown: frozenset[str]) -> tuple[Item, ...]:
        """The items that are not part of what was shown, or cost more than that."""
        return tuple(item for item in self.items if not item.shown_as <= shown)

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(one for item in self.items for one in item.shown_as)

    def as_dict(self) -> dict[str, Any]:
        return {
            "machine": self.machine,
            "items": [item.as_dict() for item in self.items],
            "refusals": [refusal.as_dict() for refusal in self.refusals],
            "notes": list(self.notes),
        }


def join(machine: str, plans: Iterable[Plan]) -> Plan:
    """One plan from the parts that the areas decided, in the order of the steps. What two guests need of their machine
    (a model that both read) is done once, and what two areas could not look at is said once."""
    items: list[Item] = []
    refusals: list[Refusal] = []
    notes: list[str] = []
    for plan in plans:
        items.extend(plan.items)
        refusals.extend(plan.refusals)
        notes.extend(plan.notes)
    said: dict[tuple[str, str, str], Refusal] = {}
    for refusal in refusals:
        said.setdefault((refusal.where, refusal.seen, refusal.next_step), refusal)
    first: dict[str, Item] = {}
    for item in items:
        first.setdefault(item.id, item)
    items = sorted(first.values(), key=lambda item: item.step)
    return Plan(machine, tuple(items), tuple(said.values()), tuple(notes))
