"""Acts: puts a composed config.json in place, whole or not at all, and never over one that somebody else
wrote."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from checks.errors import BadInput
from checks.files import write_whole

ORIGINS = "config.origins.json"


class Exists(Exception):
    """There is a config.json, and nobody said that it may be replaced."""


def store(
    folder: Path, content: Mapping[str, Any], origins: Mapping[str, str], *, force: bool
) -> Path | None:
    """Writes config.json and, beside it, the origin of every value; returns where the former config was kept.

    Without ``force`` a config.json that is there (also one that appears meanwhile) raises Exists and stays.
    Raises BadInput when the folder cannot be written.
    """
    target = folder / "config.json"
    data = (json.dumps(content, indent=2) + "\n").encode()
    kept = None
    try:
        if os.path.lexists(target):
            if not force:
                raise Exists(str(target))
            kept = _keep(target)
            write_whole(target, data)
        else:
            _create(target, data)
    except OSError as error:
        raise BadInput(
            f"cannot write {target}: {error.strerror or error}; copy the folder to a writable place"
        ) from None
    write_whole(folder / ORIGINS, (json.dumps(dict(origins), indent=2) + "\n").encode())
    return kept


def _create(target: Path, data: bytes) -> None:
    """A link fails where the name is taken, so nothing that appeared meanwhile is lost."""
    handle, name = tempfile.mkstemp(prefix=".config.json.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), 0o644)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(name, target)
        except FileExistsError:
            raise Exists(str(target)) from None
    finally:
        with suppress(OSError):
            Path(name).unlink()
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _keep(target: Path) -> Path:
    """Copies the original to the first free ``config.json.orig``, ``.orig.1`` and so on; no copy is
    overwritten."""
    for number in range(1000):
        copy = target.with_name("config.json.orig" + (f".{number}" if number else ""))
        try:
            with target.open("rb") as source, copy.open("xb") as sink:
                shutil.copyfileobj(source, sink)
                sink.flush()
                os.fsync(sink.fileno())
        except FileExistsError:
            continue
        return copy
    raise BadInput(f"{target.parent} holds a thousand config.json.orig files; remove some")
