"""What was observed of a service, and its file form ``provcheck-record/1``.

Reading accepts a record, or a prefix ``<case>`` of ``<case>.metrics.txt`` / ``.log.txt`` /
``.drafter_config.json`` (one scrape: counts since start; ``.before.txt``, ``.config.json``,
``.target_config.json`` and ``.drafter_tensors.json`` are taken where present). Everything is bounded before it
is parsed.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checks.errors import BadInput
from checks.serving.metrics import MAX_BYTES

SCHEMA = "provcheck-record/1"
MAX_RECORD = 64 * 1024 * 1024
MAX_CONFIG = 2 * 1024 * 1024
LOG_HEAD = 2 * 1024 * 1024
LOG_TAIL = 4 * 1024 * 1024
SUFFIXES = (".metrics.txt", ".log.txt", ".drafter_config.json")


@dataclass(frozen=True)
class Observation:
    """Raw evidence, as text and plain JSON values; None = not recorded.

    ``before``/``after`` are metrics pages; with ``after`` alone the counts are those since start. ``config`` holds
    what the running service says (``server_info``, ``proc``, ``version``, ``models``); ``window`` what a client
    measured; ``drafter_tensors`` maps tensor names to ``{"dtype": …, "shape": […]}`` or is a list of names.
    """

    before: str | None = None
    after: str | None = None
    log: str | None = None
    config: dict[str, Any] = field(default_factory=dict)
    drafter_config: dict[str, Any] | None = None
    drafter_tensors: dict[str, Any] | None = None
    target_config: dict[str, Any] | None = None
    window: dict[str, Any] | None = None
    passive: bool = False
    host: str = ""
    taken: str = ""
    live: bool = False


def load(where: str) -> Observation:
    """Reads a record file or a prefix. Raises BadInput when nothing is there or it cannot be one."""
    path = Path(where)
    if path.is_file():
        return _from_json(_json_file(path, MAX_RECORD), where)
    stem = where.removesuffix(".")
    if any(Path(stem + suffix).is_file() for suffix in SUFFIXES):
        return _from_prefix(stem)
    looked = ", ".join(stem + suffix for suffix in SUFFIXES)
    raise BadInput(
        f"no record at {where}: neither that file nor any of {looked} exists. Give a file that --record wrote."
    )


def _from_prefix(stem: str) -> Observation:
    def text(suffix: str, limit: int) -> str | None:
        path = Path(stem + suffix)
        return read_text(path, limit) if path.is_file() else None

    def mapping(suffix: str) -> dict[str, Any] | None:
        path = Path(stem + suffix)
        return _json_file(path, MAX_CONFIG) if path.is_file() else None

    log = Path(stem + ".log.txt")
    return Observation(
        before=text(".before.txt", MAX_BYTES),
        after=text(".metrics.txt", MAX_BYTES),
        log=read_log(log) if log.is_file() else None,
        config=mapping(".config.json") or {},
        drafter_config=mapping(".drafter_config.json"),
        drafter_tensors=mapping(".drafter_tensors.json"),
        target_config=mapping(".target_config.json"),
    )


def _from_json(data: dict[str, Any], where: str) -> Observation:
    if data.get("schema") != SCHEMA:
        raise BadInput(
            f"{where} has the schema {str(data.get('schema'))[:60]!r}, not {SCHEMA}; give a file that --record wrote"
        )
    serve = data.get("serve")
    if not isinstance(serve, dict):
        raise BadInput(
            f"{where} records no service (no `serve` section); take one with `provcheck serve URL --record FILE`"
        )
    return Observation(
        before=_text(serve, "before", MAX_BYTES, where),
        after=_text(serve, "after", MAX_BYTES, where),
        log=cut_log(_text(serve, "log", MAX_RECORD, where)),
        config=_mapping(serve, "config", where) or {},
        drafter_config=_mapping(serve, "drafter_config", where),
        drafter_tensors=_mapping(serve, "drafter_tensors", where),
        target_config=_mapping(serve, "target_config", where),
        window=_mapping(serve, "window", where),
        passive=serve.get("passive") is True,
        host=str(data.get("host") or ""),
        taken=str(data.get("taken") or ""),
    )


def dump(seen: Observation) -> dict[str, Any]:
    """The record of an observation, ready for JSON; secrets were left out when it was observed."""
    serve = {
        "before": seen.before,
        "after": seen.after,
        "log": seen.log,
        "config": seen.config,
        "drafter_config": seen.drafter_config,
        "drafter_tensors": seen.drafter_tensors,
        "target_config": seen.target_config,
        "window": seen.window,
        "passive": seen.passive,
    }
    return {
        "schema": SCHEMA,
        "taken": seen.taken,
        "host": seen.host,
        "sections": [],
        "nvml": None,
        "serve": serve,
    }


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Writes next to the target and renames: a reader never sees half a file. Raises BadInput when it cannot."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n")
        temporary.replace(path)
    except OSError as error:
        raise BadInput(
            f"cannot write {path} ({error.strerror}); name a file in a folder that exists and is yours"
        ) from None
    finally:
        temporary.unlink(missing_ok=True)


def read_text(path: Path, limit: int) -> str:
    """A text file of at most ``limit`` bytes. Raises BadInput when it is larger or unreadable."""
    try:
        size = path.stat().st_size
        if size > limit:
            raise BadInput(
                f"{path} is {size / 2**20:.1f} MiB, a real one is under {limit / 2**20:.0f} MiB; it is not read"
            )
        return path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None


def read_log(path: Path) -> str:
    """The head and the tail of a log of any size, whole lines."""
    try:
        with path.open("rb") as file:
            head = file.read(LOG_HEAD + LOG_TAIL)
            size = path.stat().st_size
            if size > len(head):
                file.seek(size - LOG_TAIL)
                head = head[:LOG_HEAD] + b"\n" + file.read(LOG_TAIL)
    except OSError as error:
        raise BadInput(f"cannot read the log {path}: {error.strerror}") from None
    return head.decode("utf-8", "replace")


def cut_log(text: str | None) -> str | None:
    if text is None or len(text) <= LOG_HEAD + LOG_TAIL:
        return text
    return text[:LOG_HEAD] + "\n" + text[-LOG_TAIL:]


def _json_file(path: Path, limit: int) -> dict[str, Any]:
    text = read_text(path, limit)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path} is no JSON ({str(error)[:120]}); give a file that --record wrote") from None
    if isinstance(data, list):
        data = {str(name): {} for name in data[:100_000]}
    if not isinstance(data, dict):
        raise BadInput(f"{path} holds {type(data).__name__}, not an object")
    return data


def _text(serve: dict[str, Any], key: str, limit: int, where: str) -> str | None:
    value = serve.get(key)
    if isinstance(value, dict):
        value = value.get("metrics", value.get("text"))
    if isinstance(value, list):
        value = "\n".join(str(line) for line in value)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > limit:
        raise BadInput(f"{where}: serve.{key} is no text of under {limit // 2**20} MiB")
    return value


def _mapping(serve: dict[str, Any], key: str, where: str) -> dict[str, Any] | None:
    value = serve.get(key)
    if isinstance(value, list):
        value = {str(name): {} for name in value[:100_000]}
    if value is None or isinstance(value, dict):
        return value
    raise BadInput(f"{where}: serve.{key} is {type(value).__name__}, not an object")
