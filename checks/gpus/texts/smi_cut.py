"""Does ``nvidia-smi -q`` show all that it begins to show? Pure.

It is cut when its head counts more GPUs than there are sections, when it ends in a heading with nothing below it, and
when its last section ends earlier than the one before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from checks.gpus.texts.evidence import cut

Section = tuple[str | None, list[str]]
"""Address and lines of a GPU; the address of one that could not be reached begins with ``!``."""
_VARYING = ("Processes", "Capabilities")
"""Their length differs from GPU to GPU."""


def count(attached: int | None, sections: Sequence[Section]) -> int | Mapping[str, Any] | None:
    """The number of GPUs; in its place what is not shown, where something is not."""
    shown = len(sections)
    ends = _ends(sections)
    if attached is not None and shown < attached:
        more = f"; of the last one it shows nothing after '{ends}'" if ends else ""
        return cut(
            f"the text says that {attached} GPUs are attached and shows {shown} of them{more}", attached
        )
    if ends:
        which = sections[-1][0] or "the last GPU"
        return cut(f"the text ends within the section of {which}, after '{ends}'", attached or shown)
    return attached


def _ends(sections: Sequence[Section]) -> str | None:
    """The last words of a section that goes on, as far as that can be told; None: it is whole."""
    reached = [lines for bus, lines in sections if bus is not None and not bus.startswith("!")]
    if not reached or reached[-1] is not sections[-1][1]:
        return None
    last = _keys(reached[-1])
    if not last:
        return sections[-1][0]
    _, key, value = last[-1]
    if not value and key not in _VARYING:
        return key
    if len(reached) < 2:
        return None
    whole = _keys(reached[-2])
    names = [name for depth, name, _ in last if depth == last[0][0]]
    others = [name for depth, name, _ in whole if depth == whole[0][0]]
    if names != others[: len(names)]:
        return None  # another kind of board, or an excerpt that somebody made by hand
    if len(names) < len(others):
        return key
    tail, other = _tail(last), _tail(whole)
    varies = names[-1] in _VARYING
    return key if not varies and tail == other[: len(tail)] and len(tail) < len(other) else None


def _keys(lines: Sequence[str]) -> list[tuple[int, str, bool]]:
    """(indent, key, whether it has a value) of each line."""
    found = []
    for line in lines:
        if line.strip() and not line.startswith("="):
            key, colon, _ = line.partition(" : ")
            colon = colon or (":" if line.rstrip().endswith(":") else "")
            found.append((len(line) - len(line.lstrip()), key.strip().rstrip(":").strip(), bool(colon)))
    return found


def _tail(keys: Sequence[tuple[int, str, bool]]) -> list[str]:
    """What is below the last heading of the first level."""
    top = max(at for at, (depth, _, _) in enumerate(keys) if depth == keys[0][0])
    return [name for _, name, _ in keys[top:]]
