"""Which of kpro's profiles an engine was started with, by its words. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from provision.adopt.words import Started
from provision.data import profiles

_BLOCKS = range(2, 129)
"""Block sizes that a drafter may have been started for: kpro itself takes the one in the drafter's config."""


def profile_of(kind: str, version: str, started: Started, notes: list[str]) -> tuple[str, tuple[str, ...]]:
    """The profile whose flags are all among the words, the longest one; and the flags that are left."""
    best: tuple[str, tuple[str, ...]] = "plain", started.flags
    for name in profiles.names(kind):
        profile = profiles.find(name, kind)
        if profile is None or not profile.fits(version) or (profile.drafter and started.drafter is None):
            continue
        for block in _BLOCKS if profile.reads_block else (None,):
            left = _without(started.flags, profile.words(version, started.drafter, block))
            if left is not None and len(left) < len(best[1]):
                best = name, left
    if any(word.partition("=")[0] in ("--speculative-config", "-sc") for word in best[1]):
        notes.append(f"no profile drafts as it does: {best[1]}; the words stand in found.command alone")
        best = best[0], tuple(_without_option(best[1], ("--speculative-config", "-sc")))
    return best


def _without(flags: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...] | None:
    """The words without the wanted ones, each option with its value; None where one is not among them."""
    left = list(flags)
    groups: list[list[str]] = []
    for word in wanted:
        if word.startswith("-") or not groups:
            groups.append([])
        groups[-1].append(word)
    for group in groups:
        at = next((i for i in range(len(left)) if left[i : i + len(group)] == group), None)
        if at is None:
            return None
        del left[at : at + len(group)]
    return tuple(left)


def _without_option(flags: Sequence[str], names: Sequence[str]) -> list[str]:
    left: list[str] = []
    skip = False
    for word in flags:
        if skip and not word.startswith("-"):
            skip = False
            continue
        skip = word in names
        if word.partition("=")[0] not in names:
            left.append(word)
    return left
