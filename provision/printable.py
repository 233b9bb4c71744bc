"""Texts of machines on their way to a terminal. A file may hold what moves the cursor, clears the screen or rings.

JSON needs none of it: its own escapes hold.
"""

from __future__ import annotations

import re
import sys
from contextlib import suppress

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters but tab and new line (ECMA-48: C0, DEL, C1), and what turns the direction of a line around."""


def printable(text: str) -> str:
    """The text with every control character as its escape: ``\\x1b`` for ESC."""
    return _CONTROL.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def escape(text: str) -> str:
    """For rich: printable, and no markup."""
    from rich import markup

    return markup.escape(printable(text))


def say_on_stderr(text: str) -> None:
    """What a run tells people: one text, at once, harmless to a terminal. That nobody hears it any more (a terminal
    that is closed, a reader that is gone) is no reason to leave a machine half-way."""
    with suppress(OSError):
        print(printable(text), file=sys.stderr, flush=True)  # noqa: T201
