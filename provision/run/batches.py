"""Many machines: one first, as a canary, then the others in batches. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def batches(machines: Sequence[T], size: int | None) -> Iterator[Sequence[T]]:
    """The first alone, then ``size`` at a time; without a size all the others at once."""
    if not machines:
        return
    yield machines[:1]
    step = size if size is not None else len(machines)
    for start in range(1, len(machines), step):
        yield machines[start : start + step]
