"""What must lie on the controller before anything is begun: keys, models, wheels, records. Each rule yields the field
and the text."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from provision.forms import Where
from provision.hub.controller import wrong_token
from provision.inventory import drafter_rules
from provision.inventory.engine_rules import of_engine
from provision.inventory.rules import GLIBC, models_of, tried_of
from provision.spec import Engine, HAProxy, Hooks, Hub, Machine, Model, Service, Ssh
from provision.spec_migration import STATES

Wrong = Iterator[tuple[Where, str]]
Files = Literal["none", "reach", "way", "all"]
"""Which files of the controller are looked at. ``reach``: what leads to the machine, for who only looks or brings back
what the machine itself keeps; ``way``: what leads the clients of its services too; ``all``: what only a run forward
reads as well."""


def only_forward(where: Where) -> bool:
    """Is a field (of a machine, or of a part of one) read by runs forward alone?"""
    return not {"ssh", "traffic"} & set(where)


def looked_at(files: Files, where: Where) -> bool:
    """Is what is wrong with a field told, where these files are looked at?"""
    if files == "reach":
        return "ssh" in where and "traffic" not in where
    return files == "all" or (files == "way" and not only_forward(where))


def on_this_controller(machine: Machine) -> Wrong:
    """What the fields of a machine name on this controller."""
    for field in ("ssh", "hub"):
        for where, text in of_part(getattr(machine, field)):
            yield (field, *where), text
    for at, guest in enumerate(machine.guests):
        for index, service in enumerate(guest.services):
            for where, text in of_service(service, GLIBC[guest.suite]):
                yield ("guests", at, "services", index, *where), text


def of_service(service: Service, glibc: tuple[int, int] | None) -> Wrong:
    """``glibc`` is the guest's, None where it is not known."""
    for engine, _, inside in tried_of(service):
        for where, text in of_part(engine, glibc):
            yield (*inside, "engine", *where), text
    for model, inside in models_of(service):
        for where, text in of_part(model):
            yield (*inside, *where), text
    yield from drafter_rules.of_service(service)
    yield from of_key(service.api_key_file)
    for where, text in of_traffic(service.migration.traffic) if service.migration else ():
        yield ("migration", "traffic", *where), text
    if service.replay and not service.replay.is_file():
        yield ("replay",), f"there is no file {service.replay} on this machine"


def of_part(part: Any, glibc: tuple[int, int] | None = None) -> Wrong:
    """One spec of its own: how the machine is reached, its hub, an engine, a model; nothing for any other."""
    if isinstance(part, Ssh):
        for name, path in (("key", part.key), ("known_hosts", part.known_hosts)):
            if path and not Path(path).expanduser().is_file():
                yield (name,), f"there is no file {path} on this machine"
    elif isinstance(part, Engine):
        if part.wheelhouse and not part.wheelhouse.is_dir():
            yield ("wheelhouse",), f"there is no folder {part.wheelhouse} on this machine"
        yield from of_engine(part, glibc)
    elif isinstance(part, Model | Hub):
        folder = part.folder if isinstance(part, Model) else None
        if folder and not folder.is_dir():
            yield ("folder",), f"there is no folder {folder} on this machine"
        elif folder and not any(folder.iterdir()):
            yield ("folder",), f"{folder} is empty"
        why = (_secret(part.token_file) or _token(part.token_file)) if part.token_file else None
        if why:
            yield ("token_file",), why


def of_traffic(traffic: HAProxy | Hooks | None) -> Wrong:
    """What leads clients over when a service moves: its programs, or the files of the way to its host."""
    if isinstance(traffic, Hooks):
        for name in STATES:
            program = getattr(traffic, name)[0]
            if shutil.which(str(Path(program).expanduser())) is None:
                yield (
                    (name, 0),
                    f"there is no program {program} on this machine, or it may not be run: hooks run on the controller",
                )
    elif traffic is not None:
        for where, text in of_part(traffic.ssh):
            yield ("ssh", *where), text


def of_key(path: Any) -> Wrong:
    """An API key; ``path`` as it was written, whatever that is."""
    if isinstance(path, str | Path) and str(path):
        file = Path(path).expanduser()
        why = _secret(file) or _one_line(file)
        if why:
            yield ("api_key_file",), why


def _one_line(path: Path) -> str | None:
    """Why no client could send what a file holds as a key, or None."""
    try:
        key = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return f"{path} cannot be read as text"
    if not key:
        return f"{path} holds no key: it is blank"
    if not key.isprintable():
        return f"{path} holds more than one line, or what cannot be printed: a key is one line"
    return None


def _token(path: Path) -> str | None:
    try:
        why = wrong_token(path.read_text(encoding="utf-8").strip())
    except (OSError, UnicodeDecodeError):
        return f"{path} cannot be read as text"
    return f"{path} {why}" if why else None


def _secret(path: Path) -> str | None:
    """Why a file is no place for a secret, or None."""
    try:
        found = path.stat()
    except OSError as error:
        return f"{path} cannot be looked at: {error.strerror}"
    if not stat.S_ISREG(found.st_mode):
        return f"{path} is no regular file"
    if found.st_mode & 0o077:
        return (
            f"{path} is open to others than its owner (mode {stat.S_IMODE(found.st_mode):04o}), so no secret: "
            f"chmod 600 {path}"
        )
    if found.st_size == 0:
        return f"{path} is empty"
    return None
