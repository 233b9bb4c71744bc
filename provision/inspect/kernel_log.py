"""The kernel's log, read by the rows of ``provision/data/kernel_says.py``. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from checks.bdf import Bdf
from provision.data.kernel_says import ROWS, Says
from provision.inspect.report import Finding
from provision.inspect.texts import Texts

_STAMP = re.compile(
    r"^(?:[^\n]*?(?=NVRM:)|(?:<\d+>)?(?:\[[ \d.]+\] |\S+ +\d+ [\d:]+ \S+ kernel: (?:\[[ \d.]+\] )?)?)",
    re.MULTILINE,
)
"""What a line begins with: dmesg and journalctl have a dozen forms of it, and before a line of NVIDIA's driver there is
nothing else. /dev/kmsg writes a line end within a message as \\x0a."""

_GOES_ON = re.compile(r"\s*\n\s+NVRM:[ \t]*")
_BEGINS = r"GPU |Xid|API|The NVIDIA|No NVIDIA|Attempting|BAR|loading|nvidia(?!\.ko)|This can occur|None of"
_NEXT = re.compile(rf"[ \t]*\nNVRM:(?![ \t]*(?:{_BEGINS}))[ \t]*")
_TABLE = tuple((re.compile(row.pattern), row) for row in ROWS)


def joined(text: str) -> str:
    """The log without time stamps; a message that the driver broke over several lines is one line."""
    plain = _STAMP.sub("", text.replace(r"\x0a", "\n"))
    return _NEXT.sub(" ", _GOES_ON.sub(" ", plain))


def findings(texts: Texts) -> tuple[Finding, ...]:
    """One finding for each row and device, however often the log says it."""
    found: dict[tuple[str, str], Finding] = {}
    for output in texts.of("dmesg"):
        for one in told(output.text):
            found.setdefault((one.id, one.subject), one)
    return tuple(found.values())


def told(said: str) -> tuple[Finding, ...]:
    """What a text says that is a kernel's log, or has lines of one."""
    found: dict[tuple[str, str], Finding] = {}
    text = joined(said)
    for pattern, row in _TABLE:
        for match in pattern.finditer(text):
            subject = _subject(match.groupdict())
            found.setdefault((row.id, subject), _finding(row, subject, match))
    return tuple(found.values())


def _finding(row: Says, subject: str, match: re.Match[str]) -> Finding:
    words = {name: value for name, value in match.groupdict().items() if value}
    meaning = row.meaning.format_map(words)
    start, end = match.string.rfind("\n", 0, match.start()) + 1, match.string.find("\n", match.end())
    seen = " ".join(match.string[start : end if end != -1 else None].split())[:300]
    return Finding(f"log.{row.id}", row.kind, subject, seen, meaning, row.next_step, row.source)


def _subject(groups: Mapping[str, str | None]) -> str:
    address = groups.get("gpu") or groups.get("gpu2")
    try:
        return str(Bdf.parse(address)) if address else "host"
    except ValueError:
        return "host"
