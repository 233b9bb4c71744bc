"""What ``provision migrate`` shows before it asks, and ``--dry-run`` alone: plan, what moves, forecast. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from provision.migrate.earlier import Follows
from provision.migrate.ends import Pair
from provision.migrate.expected import Expected, amount
from provision.migrate.moves import Move, Moves
from provision.migrate.seen import Looks
from provision.plan import Plan, Refusal


@dataclass(frozen=True)
class Shown:
    """Everything that was found out before anything is touched. ``steps``: name and text of each step. ``follows``:
    what is not worth asking, since its cause is told."""

    pair: Pair
    source: Looks | None
    target: Looks
    plan: Plan
    refusals: tuple[Refusal, ...]
    notes: tuple[str, ...]
    moves: Moves
    expected: Expected
    steps: tuple[tuple[str, str], ...] = ()
    follows: Follows = field(default_factory=Follows)

    def as_dict(self) -> dict[str, Any]:
        """For ``--json`` and the journal."""
        return {
            "run": self.pair.run,
            "service": self.pair.target.service.name,
            "source": self.pair.source.name,
            "target": self.pair.target.name,
            "cold": self.pair.cold,
            "refusals": [one.as_dict() for one in self.refusals],
            "notes": list(self.notes),
            "steps": [{"step": name, "text": text} for name, text in self.steps],
            "items": [item.as_dict() for item in self.plan.items],
            **self.moves.as_dict(),
            "expected": self.expected.as_dict(),
            "looks": {
                "source": self.source.as_dict() if self.source is not None else None,
                "target": self.target.as_dict(),
            },
        }

    def event(self) -> dict[str, Any]:
        """For the journal, as the report of a run reads it."""
        return {
            "machine": self.pair.target.name,
            "side": "target",
            "items": [item.as_dict() for item in self.plan.items],
            "refusals": [one.as_dict() for one in self.refusals],
            "notes": list(self.notes),
            "moves": [one.as_dict() | {"what": f"{one.kind}: {one.what}"} for one in self.moves.moves],
            "stays": [one.as_dict() for one in self.moves.stays],
        }

    def lines(self) -> Iterator[str]:
        """For people, most important first. With refusals nothing else matters."""
        source, target = self.pair.ends
        cold = " (cold: the source is taken for dead)" if self.pair.cold else ""
        yield f"{target.service.name}: from {source.name} to {target.name}{cold}"
        if self.refusals:
            yield f"  REFUSED for {len(self.refusals)} reason(s); nothing is touched:"
            for one in self.refusals:
                yield f"    {one.where}: {one.seen}"
                yield f"        why   {one.why}"
                yield f"        next  {one.next_step}"
        yield from (f"  note  {one}" for one in self.notes)
        if self.refusals:
            return
        yield "  what moves"
        for line, move in zip(_table([_row(one) for one in self.moves.moves]), self.moves.moves, strict=True):
            yield line
            if move.note:
                yield f"        {move.note}"
        other = [row for row in self.moves.container if not row.same]
        same = ", ".join(row.what for row in self.moves.container if row.same)
        yield f"  the container's settings (the same on both: {same or 'none'})"
        yield from _table([(row.what, row.source, "->", row.target) for row in other])
        yield "  what does not move"
        yield from (f"    {one.what}: {one.why}" for one in self.moves.stays)
        if self.steps:
            yield "  steps"
            yield from _table([(f"{at}", name, text) for at, (name, text) in enumerate(self.steps, 1)])
        yield f"  changes on {target.name}: {len(self.plan.items) or 'none'}"
        yield from (f"    {int(item.step):2} {item.text}" for item in self.plan.items)
        yield f"  copy      {self.expected.copy}"
        yield f"  downtime  {self.expected.down}"


def _row(one: Move) -> tuple[str, ...]:
    files = f", {one.count} file{'s' if one.count != 1 else ''}" if one.count else ""
    size = "" if one.size is None else amount(one.size) + files
    way = f"{one.source} -> {one.target}" if one.source not in ("", one.target) else one.target
    return one.kind, one.how, one.what, size, way


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as their widest cell, the last one as it is."""
    widths = (
        [max((len(row[at]) for row in rows), default=0) for at in range(len(rows[0]) - 1)] if rows else []
    )
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=True)]
        yield "    " + "  ".join([*cells, row[-1]]).rstrip()
