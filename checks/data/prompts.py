"""The fixed prompts of a measurement: half code, half prose, the same for every engine and every run.

Acceptance depends on the text as much as on the drafter (code 4.7 against prose 2.8 with one public drafter, and
random tokens give no meaningful length), so a length means something only with prompts that stay the same. Changing
a line here makes older baselines incomparable: raise VERSION with it.
"""

from __future__ import annotations

VERSION = 1

CODE: tuple[str, ...] = (
    "Write a Python function `merge_intervals(intervals)` that merges overlapping closed intervals given as a list "
    "of (start, end) tuples. Include type hints, a docstring and three doctest examples. Answer with code only.",
    "Here is a Python class:\n\nclass Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(self, "
    "item):\n        self.items.append(item)\n\n    def pop(self):\n        return self.items.pop()\n\nRewrite it with "
    "type parameters, a maximum size, an own exception for overflow and underflow, and an iterator. Code only.",
    "Write a POSIX shell script that prints, for every directory given as an argument, the number of regular files and "
    "their total size in bytes, one line each, separated by a tab. Handle names with spaces. Code only.",
    "Implement a binary search tree in C with insert, find, delete and an in-order walk that calls a callback. Check "
    "every allocation. Answer with one compilable file.",
    "Write a SQL schema for a library with books, authors, members and loans, with keys and constraints, and then the "
    "query that lists all members with a loan overdue by more than 14 days, oldest first.",
    "Write a Python unit test file for a function `parse_duration(text: str) -> int` that turns texts like '1h30m', "
    "'45s' or '2d' into seconds and raises ValueError for anything else. Use pytest and parametrise. Code only.",
)

PROSE: tuple[str, ...] = (
    "Explain to a curious twelve-year-old why the sky is blue and why sunsets are red. Use two short paragraphs and "
    "one everyday comparison.",
    "Summarise how a bill becomes law in a parliamentary democracy with two chambers. Write about 200 words of plain "
    "prose, without a list.",
    "Describe a small harbour town on a winter morning, before the first ferry leaves. Write three paragraphs and let "
    "the reader hear, smell and see it.",
    "A friend wants to start running and has never done sports. Write a kind letter of about 200 words with advice for "
    "the first four weeks.",
    "Compare rail and air travel between two cities that are 600 kilometres apart: time, comfort, cost and emissions. "
    "Write a balanced text of about 200 words.",
    "Tell the story of the invention of the printing press and what it changed in Europe within a hundred years, in "
    "about 200 words.",
)

READY = "Reply with one short sentence: what is the capital of France?"

MAX_TOKENS = 256
"""Tokens of one answer: long enough for a steady rate, short enough for some answers within two minutes at 15 tok/s."""


_PLACES = (
    *("harbour", "mill", "school", "station", "market", "library"),
    *("bakery", "bridge", "orchard", "town hall", "ferry", "quarry"),
)
_DEEDS = (
    *("reported", "counted", "repaired", "ordered", "lent out", "sold"),
    *("received", "inspected", "moved", "painted", "returned", "lost"),
)
_THINGS = (
    *("lamps", "ropes", "books", "crates of apples", "tickets", "chairs"),
    *("letters", "tiles", "boats", "sacks of flour", "keys", "maps"),
)


def preamble(tokens: int) -> str:
    """About ``tokens`` tokens of a town's diary, the same each time: a prompt gets long and no easier."""
    lines: list[str] = []
    for day in range(tokens // 16):
        place, deed, thing = _PLACES[day * 5 % 12], _DEEDS[day * 7 % 12], _THINGS[(day * 11 + day // 12) % 12]
        lines.append(f"Day {day + 1}: the {place} {deed} {day * 37 % 90 + 3} {thing}.")
    return "\n".join(lines) + "\n\nLeave the diary aside and do only this:\n\n" if lines else ""
