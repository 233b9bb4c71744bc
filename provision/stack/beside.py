"""Is there room to try a profile beside what runs? Asked in the guest, with its installed provcheck. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from checks.snapshot import CouldNotLook, Snapshot
from provision.data.room import GIB
from provision.spec import Guest
from provision.stack import gates, trials
from provision.stack.desired import PYTHON, PYZ, DesiredService
from provision.stack.gates import Case, Gpus, Skip
from provision.stack.room import Room, ram_of, room

_CGROUP = "/sys/fs/cgroup"
_MEMORY = ("/proc/meminfo", f"{_CGROUP}/memory.max", f"{_CGROUP}/memory.current", f"{_CGROUP}/memory.stat")


def requests(guest: Guest, desired: DesiredService) -> list[str]:
    """Asked while it is not decided yet: about what serves, or has its verdict, nothing is asked again."""
    wanted = [f"file:{path}" for path in _MEMORY]
    fit = _fit_words(guest, desired)
    if fit is not None:
        wanted.append(f"cmd:fit-{_which(desired)}:{_asked(desired, (PYTHON, PYZ, *fit, '--json'))}")
    if guest.gpus:
        wanted.append(f"cmd:gpus-{_which(desired)}:{_asked(desired, (*desired.gate, '--json'))}")
    return wanted


def _which(desired: DesiredService) -> str:
    return desired.name + (f"-{desired.staging}" if desired.staging else "")


def _fit_words(guest: Guest, desired: DesiredService) -> tuple[str, ...] | None:
    """What provcheck would be asked, None for an engine that it knows nothing of."""
    if desired.trial is None:
        return None
    answer = gates.fit(Case(guest, desired.trial, Gpus(green=True, replayed=desired.record is not None)))
    return None if isinstance(answer, Skip) else answer


def _asked(desired: DesiredService, words: Sequence[str]) -> str:
    decided = f"{desired.good_path} {trials.path(desired.name)}"
    return (
        f"grep -qs {desired.digest} {decided} && exit 0; [ -e {PYZ} ] || exit 0; "
        f"{' '.join(map(_word, words))} 2>/dev/null; exit 0"
    )


def _word(text: str) -> str:
    """One word of a shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def room_for(guest: Guest, desired: DesiredService, inside: Snapshot) -> Room:
    """Decides from what the guest answered; what it did not answer means no room. Raises CouldNotLook."""
    found: Mapping[str, Any] = {}
    if _fit_words(guest, desired) is not None:
        found = _facts(inside, f"fit-{_which(desired)}")
    elif not guest.gpus:
        found = _of_files(desired, inside)
    gpus: Mapping[str, Any] = _facts(inside, f"gpus-{_which(desired)}") if guest.gpus else {"gpus": []}
    return room(found, gpus, ram_of(*(inside.text(path) for path in _MEMORY)))


def _facts(inside: Snapshot, name: str) -> Mapping[str, Any]:
    _, output = inside.command(name)
    try:
        facts = json.loads(output).get("facts")
    except (ValueError, AttributeError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _of_files(desired: DesiredService, inside: Snapshot) -> Mapping[str, Any]:
    """Of an engine that provcheck knows nothing of, what its files take; its trial is given a limit besides."""
    total = 0
    for model in desired.models:
        try:
            code, output = inside.command(f"sizes-{model.directory}")
        except CouldNotLook:
            return {}
        sizes = [line.partition(" ")[0] for line in output.splitlines()]
        if code != 0 or not sizes or not all(size.isdecimal() for size in sizes):
            return {}
        total += sum(map(int, sizes))
    return {"takes_gib": total / GIB, "ranks": 1, "memory": "ram"}
