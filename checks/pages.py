"""The pages of ``docs/`` that are made from rows, and the page of one finding. Pure.

``scripts/make-docs`` writes them; a test holds the files against these functions.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator

from checks.data.areas import AREAS
from checks.data.catalogue import CATALOGUE, Entry
from checks.data.coverage import COVERAGE
from checks.data.thresholds import THRESHOLDS

_WIDTH = 90


def page(identity: str, entry: Entry) -> str:
    """The page of one finding as plain text, 90 columns."""
    parts = [f"{identity}: {entry.title}"]
    for heading, text in sections(identity, entry):
        parts.append(
            f"\n{heading}\n{textwrap.fill(text, _WIDTH, initial_indent='  ', subsequent_indent='  ')}"
        )
    return "\n".join(parts)


def sections(identity: str, entry: Entry) -> Iterator[tuple[str, str]]:
    """Heading and text, in the order of a page."""
    command, heading = AREAS[identity.partition(".")[0]]
    yield "What it is", f"{entry.title}. Found by '{command}' ({heading})."
    yield "Why it matters", entry.why
    yield "Example", entry.example
    yield "How to mend it", entry.fix
    if identity in THRESHOLDS:
        yield "Thresholds", THRESHOLDS[identity]
    yield "Source", entry.source


def grouped() -> dict[str, list[str]]:
    """Area -> its ids, sorted, in the order of AREAS."""
    found: dict[str, list[str]] = {area: [] for area in AREAS}
    for identity in sorted(CATALOGUE):
        found[identity.partition(".")[0]].append(identity)
    return {area: ids for area, ids in found.items() if ids}


def listing() -> str:
    """All ids with their titles, by area."""
    width = max(map(len, CATALOGUE))
    blocks = []
    for area, ids in grouped().items():
        command, heading = AREAS[area]
        rows = (f"  {identity:<{width}}  {CATALOGUE[identity].title}" for identity in ids)
        blocks.append("\n".join([f"{heading} ({command})", *rows]))
    return "\n\n".join(blocks)


def findings() -> str:
    """docs/findings.md"""
    lines = [
        "# Findings",
        "",
        "Every finding that `provcheck` can give. Made from the rows that `provcheck explain ID` prints, by",
        "`scripts/make-docs`: correct the rows, not this page.",
    ]
    for area, ids in grouped().items():
        command, heading = AREAS[area]
        lines += ["", f"## {heading}", "", f"`{command}`"]
        for identity in ids:
            lines += _entry(identity, CATALOGUE[identity])
    return "\n".join(lines) + "\n"


def health_table() -> str:
    """docs/health-table.md"""
    lines = [
        "# What is checked, and which finding says so",
        "",
        "Everything that fifteen health checkers of GPUs look at, put together, and the finding that gives",
        "its verdict. `provcheck explain ID` has the rule. Made from rows by `scripts/make-docs`.",
        "",
        "| what | how | verdict | command |",
        "|---|---|---|---|",
    ]
    for row in COVERAGE:
        commands = dict.fromkeys(AREAS[identity.partition(".")[0]][0] for identity in row.ids)
        ids = ", ".join(f"`{identity}`" for identity in row.ids)
        lines.append(f"| {row.what} | {row.how} | {ids} | {', '.join(f'`{name}`' for name in commands)} |")
    return "\n".join(lines) + "\n"


def _entry(identity: str, entry: Entry) -> Iterator[str]:
    yield from ("", f"### {identity}", "", *_fill(_plain(entry.title) + "."))
    yield from ("", *_fill(_plain(entry.why)))
    yield from ("", "```", *textwrap.wrap(entry.example, 116, subsequent_indent="    "), "```")
    yield from ("", *_fill(f"**How to mend it.** {_plain(entry.fix)}"))
    if identity in THRESHOLDS:
        yield from ("", *_fill(f"**Thresholds.** {_plain(THRESHOLDS[identity])}"))
    yield from ("", *_fill(f"**Source.** {_plain(entry.source)}"))


def _fill(text: str) -> list[str]:
    return textwrap.wrap(text, 118, break_long_words=False, break_on_hyphens=False)


def _plain(text: str) -> str:
    """Text as it stands, where Markdown would read something else."""
    for character in "\\*_<>|`":
        text = text.replace(character, f"\\{character}")
    return text


DOCUMENTS: dict[str, Callable[[], str]] = {"findings": findings, "health-table": health_table}
"""Page -> what makes it. They lie in docs/ under these names."""
