"""Folders of model files and what else moves, as a look told them. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from checks.snapshot import CouldNotLook, Snapshot
from provision.adopt import models
from provision.migrate.looks import MOST_FILES
from provision.migrate.seen import Extra, Folder
from provision.spec import Service
from provision.stack.desired import MANIFEST


def folder(seen: Snapshot, role: str, path: str) -> Folder | None:
    """The sums, and the files one by one while there are few. None: it is not there. Raises CouldNotLook."""
    code, text = seen.command(f"folder-{role}")
    lines = text.splitlines()
    if code == 0 and lines == ["absent"]:
        return None
    if code != 0 or len(lines) < 3 or not lines[0].startswith("/"):
        raise CouldNotLook(f"{path}: {text.strip()[-200:] or f'exit {code}'}")
    links, sums = (
        re.fullmatch(r"(\d+) (\d+)", lines[1]),
        re.fullmatch(r"(\d+) (\d+) (\d+) ([\d.]*)", lines[2]),
    )
    if links is None or sums is None:
        # A file that cannot be read is told in between, by find.
        raise CouldNotLook(f"{path}: {'; '.join(lines[1:3])[:200]}")
    count = int(sums[1])
    files = None
    if count <= MOST_FILES:
        files = {}
        for line in lines[3:]:
            size, _, name = line.partition(" ")
            if not size.isdecimal():
                raise CouldNotLook(f"{path}: {line[:200]}")
            files[name] = int(size)
        if len(files) != count:
            raise CouldNotLook(f"{path}: {count} files were counted and {len(files)} were told: they change")
    return Folder(
        path, count, int(sums[2]), int(sums[3]), files, int(links[1]), int(links[2]), float(sums[4] or 0)
    )


def identified(seen: Snapshot, role: str, path: str, service: Service) -> Folder | None:
    """A folder of the source with the revision that it holds: of a folder of kpro's by its manifest, which says that it
    is whole; of another one as ``provision init`` tells it."""
    found = folder(seen, role, path)
    if found is None:
        return None
    if service.found is None:
        text = seen.text(f"{path}/{MANIFEST}")
        if text is None:
            raise CouldNotLook(f"{path} has no {MANIFEST}, so it is not known to be whole")
        return replace(found, revision=path.rpartition("@")[2], damaged=_damaged(found, text, path))
    return replace(found, revision=models.identity_of_folder(path, seen).revision)


def _damaged(found: Folder, manifest: str, path: str) -> tuple[str, ...]:
    try:
        wanted = {name: int(entry["size"]) for name, entry in json.loads(manifest).items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CouldNotLook(f"{path}/{MANIFEST} is no manifest: {error}") from None
    if found.files is None:
        return ()
    return tuple(name for name, size in wanted.items() if found.files.get(name) != size)


def extra(seen: Snapshot, at: int, path: str) -> Extra | None:
    """None: it is not there. Raises CouldNotLook."""
    code, text = seen.command(f"extra-{at}")
    lines = text.splitlines()
    if code == 0 and lines == ["absent"]:
        return None
    sums = re.fullmatch(r"(\d+) (\d+) (\d+)", lines[1]) if code == 0 and len(lines) == 2 else None
    if sums is None:
        raise CouldNotLook(f"{path}: {text.strip()[-200:] or f'exit {code}'}")
    kind, _, real = lines[0].partition(" ")
    return Extra(path, kind, real, int(sums[1]), int(sums[2]), int(sums[3]))
