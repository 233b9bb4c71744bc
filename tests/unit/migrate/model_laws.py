"""What must hold of both hosts of the model at the end of a migration, however it came to that: a line a breach."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

from provision.migrate import standing
from tests.unit.migrate.model import World
from tests.unit.migrate.model_move import EXTRA, FOREIGN, PHASES, RUN, UNIT
from tests.unit.migrate.model_specs import ROLES, Role

End = Literal["moved", "rolled_back"]
Tree = dict[str, str]
_FENCE = (f"guest:etc/systemd/system/{UNIT}.d/kpro-migrated.conf", "guest:lib/kpro/migrated/chat")
_JOURNAL = ("host:lib/kpro/journal/*.jsonl",)
_STATE = ("host:lib/kpro/migrations/chat.json",)
_NOISE = ("*:run/kpro/lock", "*:run/double/*.up", "*:run/double/*.loaded")
"""What a lock and a systemd have in memory; a unit of the copy is none of it."""


def tree(world: World, role: Role, *, times: bool = False) -> Tree:
    """Every file of a machine and its guest by place and path, with what it is; no empty folders."""
    found: Tree = {}
    top = world.stage / role
    for path in sorted(top.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            continue
        place, _, name = path.relative_to(top).as_posix().partition("/")
        stat = path.lstat()
        found[f"{place}:{name}"] = f"{stat.st_mode:o} {stat.st_uid}:{stat.st_gid} {_content(path)}" + (
            f" {stat.st_mtime_ns} {stat.st_ino}" if times else ""
        )
    return found


_TIMED = (
    "host:lib/kpro/journal/*",
    "host:lib/kpro/migrations/*.copy/*",
    "host:run/kpro-migrate/*",
    "guest:lib/kpro/migrated/chat",
)
"""Files that hold a time, or what files are called by their disk: no two runs have the same."""


def alike(world: World) -> dict[str, str]:
    """All of both hosts, and who is led to which, such that two runs that did the same have the same."""
    found = {"traffic": (world.stage / "traffic").read_text()}
    for role in ROLES:
        for path, text in tree(world, role).items():
            if path.endswith("authorized_keys"):
                keys = world.at(role, "host", "/root/.ssh/authorized_keys").read_text()
                text = re.sub(r'expiry-time="\d+"', "", keys)
            elif any(fnmatch(path, pattern) for pattern in _TIMED):
                text = text.split()[0]
            found[f"{role}:{path}"] = text
    return found


def _content(path: Path) -> str:
    return f"-> {path.readlink()}" if path.is_symlink() else hashlib.sha256(path.read_bytes()).hexdigest()


def serving(world: World) -> list[Role]:
    """The hosts that answer a client: those that get its requests and have the service up."""
    led = (world.stage / "traffic").read_text().strip()
    return [role for role in ROLES if role == led and up(world, role)]


def up(world: World, role: Role) -> bool:
    return world.at(role, "guest", f"/run/double/{UNIT}.up").exists()


def breaches(world: World, before: dict[Role, Tree], end: End) -> Iterator[str]:
    """``before``: both machines as they were before the migration."""
    who: Role = "target" if end == "moved" else "source"
    if serving(world) != [who]:
        led = (world.stage / "traffic").read_text().strip()
        yield f"clients are answered by {serving(world)} (led to {led}), not by {who} alone"
    other: Role = "source" if who == "target" else "target"
    if up(world, other):
        yield f"the unit is up on the {other} too"
    for role in ROLES:
        yield from _left(world, role, before[role], end)
    yield from _models(world, end)
    yield from _states(world, end)
    yield from _journals(world, end)


def _allowed(world: World, role: Role, end: End) -> tuple[str, ...]:
    """Patterns of what may be there, or be another, than before."""
    found = (*_JOURNAL, *_NOISE)
    if role == "source":
        return (*found, *_STATE, *_FENCE) if end == "moved" else found
    phases = ("install", "configure", "activate") if end == "moved" else ("install", "configure")
    for phase in phases:
        for place, path, _ in PHASES[phase]:
            if end == "moved" or "/staged/" not in path:
                found += (f"{place}:{path.lstrip('/').replace('var/lib/', 'lib/')}",)
    if end == "moved":
        found += (*_STATE, f"host:lib/kpro/migrations/{RUN}.copy/*", f"guest:etc/systemd/system/wants/{UNIT}")
        found += (
            f"host:{world.model('target').lstrip('/')}/*",
            f"host:srv/data/{EXTRA.rpartition('/')[2]}/*",
        )
    return found


def _left(world: World, role: Role, before: Tree, end: End) -> Iterator[str]:
    now, allowed = tree(world, role), _allowed(world, role, end)
    for path in sorted(now.keys() | before.keys()):
        if now.get(path) == before.get(path) or any(fnmatch(path, pattern) for pattern in allowed):
            continue
        how = "is left" if path not in before else "is gone" if path not in now else "is another"
        yield f"{role}: {path} {how}"
    for place in ("host", "guest"):
        for folder in ("/run/kpro-migrate", "/srv/models/.incoming", f"/etc/systemd/system/{UNIT}.d"):
            fenced = role == "source" and end == "moved" and folder.endswith(".d") and place == "guest"
            if world.at(role, place, folder).exists() and not fenced:
                yield f"{role}: {place}: {folder} is left"
    for path, text in FOREIGN.items():
        if world.at(role, "host", path).read_text() != text:
            yield f"{role}: {path} of somebody else is another"


def _models(world: World, end: End) -> Iterator[str]:
    ours, theirs = (_files(world.at(role, "host", world.model(role))) for role in ROLES)
    if end == "rolled_back" and theirs is not None:
        yield "the target still has the model folder that this run brought"
    if end == "moved" and theirs != ours:
        yield f"the model folder on the target is not the source's: {theirs}"
    if end == "moved" and world.extra:
        pair = [_files(world.at(role, "host", "/srv/data/chat")) for role in ROLES]
        if pair[0] != pair[1]:
            yield f"the extra folder on the target is not the source's: {pair[1]}"


def _files(folder: Path) -> dict[str, str] | None:
    if not folder.exists():
        return None
    return {p.relative_to(folder).as_posix(): _content(p) for p in sorted(folder.rglob("*")) if p.is_file()}


def state(world: World, role: Role) -> str:
    """What its state file says."""
    path = world.at(role, "host", standing.path("chat"))
    return standing.parse(path.read_text()).state if path.exists() else "none"


def _states(world: World, end: End) -> Iterator[str]:
    for role in ROLES:
        said = state(world, role)
        if said != ("moved" if end == "moved" else "none"):
            yield f"{role}: its state file says {said}"


def last(path: Path) -> str:
    """The last step that a journal tells of; a run that is not in it was never heard of."""
    if not path.exists():
        return "nothing"
    events = [json.loads(line) for line in path.read_text().splitlines()]
    told = [f"{event['step']} {event['state']}" for event in events if event["event"] == "step"]
    return told[-1] if told else "nothing"


def _journals(world: World, end: End) -> Iterator[str]:
    paths = {role: world.at(role, "host", f"/var/lib/kpro/journal/{RUN}.jsonl") for role in ROLES}
    told = {"controller": last(world.stage / f"state/kpro/runs/{RUN}/journal.jsonl")}
    told |= {role: last(path) for role, path in paths.items() if path.exists()}
    wanted = "moved done" if end == "moved" else "lock undone"
    if end == "moved" and told["controller"] == "moved undone":
        # It died with this line, before either machine had it.
        del told["controller"]
    if set(told.values()) != {wanted} and (end == "moved" or len(told) > 1):
        yield f"the journals tell different ends, and not '{wanted}': {told}"
