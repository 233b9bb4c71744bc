"""Step 8, model files that the machine gets by itself: from the hub, or from a folder of its own. Pure.

What the hub said comes from outside (``answers``); without an answer the machine asks before its first byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from checks.snapshot import Snapshot
from provision.guest.mounts import on_machine
from provision.hub.order import RESERVE
from provision.hub.problems import Problem
from provision.hub.select import OWN, Listing, Selection, amount, select
from provision.plan import Item, Refusal, Step
from provision.spec import Hub, Machine, Model
from provision.stack.desired import DesiredModel

MANIFEST, SOURCE = OWN
FETCHED = ("hub", "path")
KIND = "stack.fetch"
PYTHON = (3, 11)
"""huggingface_hub 2.4.0 needs httpx2, which needs Python 3.11 (its metadata, Requires-Python)."""

Key = tuple[str, str, tuple[str, ...], str]
Answers = Mapping[Key, Listing | Problem]


@dataclass(frozen=True)
class Fetch:
    """What the act needs. ``directory``: where the files go, on the host that the item names."""

    model: Model
    role: str
    directory: str
    hub: Hub

    @property
    def key(self) -> Key:
        """What the hub is asked for."""
        return self.model.repo, self.model.revision, self.model.files, self.role


def requests(directory: str) -> list[str]:
    """What a snapshot looks at where files are to be fetched to ``directory``."""
    parent, name = directory.rsplit("/", 1)
    staging = _quoted(f"{parent}/.incoming/{name}")
    disk = (
        f'p={_quoted(parent)}; while [ ! -d "$p" ] && [ -n "$p" ]; do p=${{p%/*}}; done; '
        'df -B1 --output=avail,iavail "${p:-/}" | tail -n 1 && '
        f"{{ [ ! -d {staging} ] || du -sB1 {staging} | cut -f1; }}"
    )
    version = "python3 -c 'import sys, ssl, asyncio; print(*sys.version_info[:2])'"
    return [
        f"file:{directory}/{SOURCE}",
        f"cmd:models-disk-{directory}:{disk}",
        f"cmd:models-python:{version}",
    ]


def host_requests(machine: Machine) -> list[str]:
    """What the snapshot of the machine has to look at for the models that it fetches itself."""
    found = []
    for guest in machine.guests:
        for service in guest.services if guest.managed else ():
            for model in (service.model, service.drafter, service.candidate and service.candidate.drafter):
                place = on_machine(machine, guest, model.directory) if model else None
                if model and model.origin in FETCHED and place is not None:
                    found += requests(place)
    return found


def _quoted(path: str) -> str:
    return "'" + path.replace("'", "'\\''") + "'"


def fetch_items(
    machine: Machine,
    model: DesiredModel,
    where: str,
    name: str,
    directory: str,
    seen: Snapshot | None,
    answers: Answers,
    refusals: list[Refusal],
    notes: list[str],
) -> list[Item]:
    """``name`` and ``seen``: the host that the files go to (None: it cannot be entered yet). Raises CouldNotLook."""
    spec = model.spec
    assert spec is not None
    if seen is not None and _in_place(spec, directory, seen):
        return []
    if seen is not None:
        refusals += _python(seen, where)
    fetch = Fetch(spec, model.role, directory, machine.hub)
    if spec.origin == "path":
        text = f"copy {spec.path} to {directory} and verify it"
        return [Item(Step.STACK, KIND, name, directory, text, fetch)]
    answer = answers.get(fetch.key)
    place = f"{spec.repo}@{spec.revision[:12]} from {machine.hub.endpoint or 'the hub'} to {directory}"
    said = ""
    try:
        if isinstance(answer, Problem):
            raise answer
        if answer is not None:
            chosen = select(answer, spec.files or None, model.role)
            notes += chosen.notes
            said = f": {_sizes(chosen)}"
            refusals += _space(chosen, directory, seen, where)
    except Problem as problem:
        if problem.kind == "unreachable":
            said = f": how much is not known here ({problem.seen}); the machine asks before the first byte"
        else:
            refusals.append(Refusal(where, problem.seen, problem.why, problem.next))
            return []
    return [Item(Step.STACK, KIND, name, directory, f"fetch {place}{said}", fetch)]


def _in_place(spec: Model, directory: str, seen: Snapshot) -> bool:
    """Every file of its manifest is there in its size, and it was fetched by the patterns that are wanted now."""
    text = seen.text(f"{directory}/{MANIFEST}")
    if text is None:
        return False
    _, output = seen.command(f"sizes-{directory}")
    there = {path: size for size, _, path in (line.partition(" ") for line in output.splitlines())}
    source = seen.text(f"{directory}/{SOURCE}")
    try:
        wanted = json.loads(text)
        whole = bool(wanted) and all(there.get(path) == str(entry["size"]) for path, entry in wanted.items())
        # Files that were put from a folder have no such file: the manifest alone counts.
        patterns = tuple(json.loads(source).get("files") or ()) if source is not None else spec.files
    except (ValueError, TypeError, KeyError, AttributeError):
        return False
    return whole and patterns == spec.files


def _python(seen: Snapshot, where: str) -> list[Refusal]:
    code, output = seen.command("models-python")
    words = output.split()
    version = tuple(int(word) for word in words[:2]) if re.fullmatch(r"\d+ \d+", " ".join(words)) else None
    if code == 0 and version is not None and version >= PYTHON:
        return []
    has = (
        f"python3 of the machine is {'.'.join(map(str, version))}"
        if version
        else "the machine has no whole python3"
    )
    return [
        Refusal(
            where,
            has,
            "huggingface_hub, which fetches the files there, needs Python 3.11 or later with ssl",
            "apt-get install python3 (Debian 12 has 3.11), or give the files with Model(folder=…)",
        )
    ]


def _sizes(chosen: Selection) -> str:
    text = f"{len(chosen.files)} files, {amount(chosen.size)}"
    if not chosen.left_out:
        return text
    why = dict.fromkeys(reason for _, reason in chosen.left_out)
    size = sum(file.size for file, _ in chosen.left_out)
    return f"{text} ({len(chosen.left_out)} files, {amount(size)}, left out: {'; '.join(why)})"


def _space(chosen: Selection, directory: str, seen: Snapshot | None, where: str) -> list[Refusal]:
    """Will it fit? What arrived before counts. A disk that could not be looked at is looked at by the act."""
    if seen is None:
        return []
    code, output = seen.command(f"models-disk-{directory}")
    words = output.split()
    if code != 0 or len(words) not in (2, 3) or not words[0].isdecimal():
        return []
    free, inodes = int(words[0]), words[1]
    needed = max(chosen.size - (int(words[2]) if len(words) == 3 else 0), 0) + RESERVE
    found = []
    if needed > free:
        found.append(
            Refusal(
                where,
                f"{amount(needed)} are needed for {directory} ({amount(RESERVE)} of it in reserve), and "
                f"{amount(free)} are free",
                "a full disk stops what else writes there",
                f"free {amount(needed - free)}, or put the models elsewhere with Machine(models=…)",
            )
        )
    # Some file systems (btrfs) do not count inodes: df prints - or 0.
    if inodes.isdecimal() and 0 < int(inodes) < len(chosen.files) + 10:
        found.append(
            Refusal(
                where,
                f"{len(chosen.files)} files are to be made for {directory}, and {inodes} inodes are left",
                "no file can be made without one",
                "remove files there, or put the models elsewhere with Machine(models=…)",
            )
        )
    return found
