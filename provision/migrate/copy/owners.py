"""Whose a file is: the same user and group of the guest on both sides. Pure.

A privileged container's ids are the machine's own. An unprivileged one's lie in a range of the machine's
(provision.guest.idmap); what lies outside of it is the machine's, and stays so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

ALL = 0xFFFF_FFFF


@dataclass(frozen=True)
class Range:
    """``count`` ids of the container from 0 on are the ids from ``first`` on where the files are seen."""

    first: int = 0
    count: int = ALL

    def inside(self, number: int) -> int | None:
        return number - self.first if self.first <= number < self.first + self.count else None

    def outside(self, number: int) -> int | None:
        return number + self.first if number < self.count else None


def range_of(uid_map: str) -> Range | None:
    """From /proc/PID/uid_map (user_namespaces(7)): the range that begins with the container's 0. None: cannot tell."""
    for line in uid_map.splitlines():
        words = line.split()
        if len(words) == 3 and words[0] == "0" and words[1].isdecimal() and words[2].isdecimal():
            return Range(int(words[1]), int(words[2]))
    return None


def moved(number: int, source: Range, target: Range) -> int:
    """A user or group id of a file on the source, as it must be on the target."""
    if source.first == target.first:
        return number
    inside = source.inside(number)
    outside = None if inside is None else target.outside(inside)
    return number if outside is None else outside


def pairs(numbers: Iterable[int], source: Range, target: Range) -> list[str]:
    """For rsync's --usermap and --groupmap: those that change."""
    return [f"{n}:{to}" for n in sorted(set(numbers)) if (to := moved(n, source, target)) != n]
