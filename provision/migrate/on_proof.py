"""What is proven of the warm target beside the source: what it answers, and how fast.

The proof is of one process: it is kept beside the run with what systemd calls that start of the unit, and counts only
while that very start is up.
"""

from __future__ import annotations

import shlex

from provision.migrate import probe
from provision.migrate.moving import Moving
from provision.run.errors import ActFailed

_START = "systemctl show -p InvocationID --value {unit}"
_KEEP = """
umask 077
id=$({start}) && [ -n "$id" ] && install -d -m 700 {folder} && printf '%s\\n' "$id" >{folder}/{what}
"""
_HOLDS = 'id=$({start}) && [ -n "$id" ] && [ "$id" = "$(cat {folder}/{what} 2>/dev/null)" ]'


def answers(m: Moving) -> str:
    said = m.prove(m) if m.prove is not None else "answers are not compared"
    keep(m, "answers")
    return said


def answers_hold(m: Moving) -> bool:
    return holds(m, "answers")


def speed(m: Moving) -> str:
    said = m.measure(m) if m.measure is not None else "no baseline of the source to compare with"
    keep(m, "speed")
    return said


def speed_holds(m: Moving) -> bool:
    return holds(m, "speed")


def _words(m: Moving, what: str) -> dict[str, str]:
    start = _START.format(unit=shlex.quote(m.target.service.unit))
    return {"start": start, "folder": shlex.quote(probe.folder(m.run)), "what": what}


def keep(m: Moving, what: str) -> None:
    """Notes that something was proven of the start of the unit that is up now. Raises ActFailed."""
    done = m.target.inside(_KEEP.format(**_words(m, what)))
    if not done.ok:
        raise ActFailed(f"{m.target.name}: that its {what} were proven could not be kept: {done.error_text}")


def holds(m: Moving, what: str) -> bool:
    """Was it proven of the very start that is up?"""
    return m.target.inside(_HOLDS.format(**_words(m, what))).ok
