"""Observations from files: a ``provcheck-record/1``, or a prefix of recorded parts. All of it is bounded.

A prefix ``<case>`` stands for ``<case>.metrics.txt``, ``.log.txt``, ``.drafter_config.json`` (one scrape: counts
since start); ``.before.txt``, ``.config.json``, ``.target_config.json`` and ``.drafter_tensors.json`` are taken
where present.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checks import record as records
from checks.errors import BadInput
from checks.model import Finding, Status
from checks.serving.metrics import MAX_BYTES
from checks.serving.observation import Observation

MAX_CONFIG = 2 << 20
LOG_HEAD, LOG_TAIL = 1 << 20, 2 << 20
SUFFIXES = (".metrics.txt", ".log.txt", ".drafter_config.json")


def load(where: str) -> Observation:
    """Reads a record file or a prefix. Raises BadInput when nothing is there or it cannot be one."""
    path = Path(where)
    if path.is_file():
        return of_record(records.load(path), where)
    stem = where.removesuffix(".")
    if any(Path(stem + suffix).is_file() for suffix in SUFFIXES):
        return _of_prefix(stem)
    looked = ", ".join(stem + suffix for suffix in SUFFIXES)
    raise BadInput(
        f"no record at {where}: neither that file nor any of {looked} exists. "
        "Give a file that --record wrote."
    )


def of_record(record: records.Record, where: str) -> Observation:
    """The service's part of a record. Raises BadInput when it has none or a part is of a wrong type."""
    serve = record.serve
    if serve is None:
        raise BadInput(
            f"{where} records no service (no `serve` section); take one with `provcheck serve URL --record"
            " FILE`"
        )
    config = _mapping(serve, "config", where)
    return Observation(
        before=_text(serve, "before", where),
        after=_text(serve, "after", where),
        log=_text(serve, "log", where),
        config=config or {},
        drafter_config=_mapping(serve, "drafter_config", where),
        drafter_tensors=_tensors(serve.get("drafter_tensors"), where),
        target_config=_mapping(serve, "target_config", where),
        **_mask(serve.get("mask_token")),
        window=_window(serve, where),
        passive=serve.get("passive") is True,
        findings=_findings(serve, where),
        host=record.host or "",
        taken=record.taken or "",
    )


def to_record(seen: Observation) -> records.Record:
    """The record of an observation; secrets were left out when it was observed."""
    serve = {
        "before": seen.before,
        "after": seen.after,
        "log": seen.log,
        "config": seen.config,
        "drafter_config": seen.drafter_config,
        "drafter_tensors": seen.drafter_tensors,
        "target_config": seen.target_config,
        "mask_token": {"ordinary": seen.mask_ordinary, "text": seen.mask_text},
        "window": seen.window,
        "passive": seen.passive,
        "findings": [finding.as_dict() for finding in seen.findings],
    }
    return records.Record(host=seen.host or None, taken=seen.taken or None, serve=serve)


def _mask(told: Any) -> dict[str, Any]:
    """What the target's tokenizer said of the mask token; anything else counts as not recorded."""
    told = told if isinstance(told, dict) else {}
    ordinary, text = told.get("ordinary"), told.get("text")
    return {
        "mask_ordinary": ordinary if isinstance(ordinary, bool) else None,
        "mask_text": text[:200] if isinstance(text, str) else None,
    }


def _of_prefix(stem: str) -> Observation:
    def page(suffix: str) -> str | None:
        path = Path(stem + suffix)
        return read_text(path, MAX_BYTES) if path.is_file() else None

    def mapping(suffix: str) -> dict[str, Any] | None:
        path = Path(stem + suffix)
        return read_object(path, MAX_CONFIG) if path.is_file() else None

    log = Path(stem + ".log.txt")
    return Observation(
        before=page(".before.txt"),
        after=page(".metrics.txt"),
        log=read_log(log) if log.is_file() else None,
        config=mapping(".config.json") or {},
        drafter_config=mapping(".drafter_config.json"),
        drafter_tensors=_tensors(mapping(".drafter_tensors.json"), stem),
        target_config=mapping(".target_config.json"),
    )


def read_text(path: Path, limit: int) -> str:
    """A text file of at most ``limit`` bytes. Raises BadInput when it is larger or unreadable."""
    try:
        with path.open("rb") as file:
            raw = file.read(limit + 1)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    if len(raw) > limit:
        raise BadInput(f"{path} is larger than {limit / 2**20:.0f} MiB, no real one is; it is not read")
    return raw.decode("utf-8", "replace")


def read_log(path: Path) -> str:
    """The head and the tail of a log of any size: settings stand at the start, failures at the end."""
    try:
        with path.open("rb") as file:
            raw = file.read(LOG_HEAD + LOG_TAIL)
            size = path.stat().st_size
            if size > len(raw):
                file.seek(size - LOG_TAIL)
                raw = raw[:LOG_HEAD] + b"\n" + file.read(LOG_TAIL)
    except OSError as error:
        raise BadInput(f"cannot read the log {path}: {error.strerror}") from None
    return raw.decode("utf-8", "replace")


def read_object(path: Path, limit: int) -> dict[str, Any]:
    """A JSON object; a list of names counts as an object with empty values. Raises BadInput otherwise."""
    try:
        data = json.loads(read_text(path, limit), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path} is no JSON ({str(error)[:120]})") from None
    return _object(data, str(path)) or {}


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _window(serve: Mapping[str, Any], where: str) -> dict[str, Any] | None:
    """What the client measured, every part of the type that the judges rely on. Raises BadInput otherwise."""
    window = _mapping(serve, "window", where)
    for key, value in (window or {}).items():
        if key in ("tok_s", "output", "kinds", "speculation") and not isinstance(value, dict):
            raise BadInput(f"{where}: serve.window.{key} is {type(value).__name__}, not an object")
        for inner in value.values() if isinstance(value, dict) else (value,):
            if isinstance(inner, (int, float)) and not 0 <= inner < 1e12:
                raise BadInput(f"{where}: serve.window.{key} holds a number that nobody measures")
    for key in ("faults", "odd"):
        if window and not isinstance((window.get("output") or {}).get(key, []), list):
            raise BadInput(f"{where}: serve.window.output.{key} is no list")
    histogram = ((window or {}).get("speculation") or {}).get("histogram", [])
    if not isinstance(histogram, list) or len(histogram) > 512:
        raise BadInput(f"{where}: serve.window.speculation.histogram is no list of a drafter's positions")
    return window


def _findings(serve: Mapping[str, Any], where: str) -> tuple[Finding, ...]:
    """What only the live look could find. Raises BadInput when it is none of provcheck's."""
    rows = serve.get("findings") or []
    if not isinstance(rows, list) or len(rows) > 20:
        raise BadInput(f"{where}: serve.findings is no list of a few findings")
    found: list[Finding] = []
    for row in rows:
        texts = [row.get(key) for key in ("id", "subject", "message")] if isinstance(row, dict) else [None]
        if not all(isinstance(text, str) and len(text) < 4096 for text in texts):
            raise BadInput(f"{where}: serve.findings holds what is no finding")
        try:
            status = Status(row.get("status"))
        except ValueError:
            raise BadInput(
                f"{where}: serve.findings holds the status {str(row.get('status'))[:40]!r}"
            ) from None
        fix = row.get("fix") if isinstance(row.get("fix"), str) else None
        owner = "node" if row.get("owner") == "node" else "user"
        ident, subject, message = (str(text) for text in texts)
        found.append(Finding(ident, status, subject, message, fix=fix, owner=owner))
    return tuple(found)


def _tensors(value: Any, where: str) -> dict[str, Any] | None:
    """Tensor names with what is known of each, from a header, a list of names, or a list of rows with a name."""
    if isinstance(value, list) and all(isinstance(row, dict) and "name" in row for row in value):
        value = {str(row["name"]): row for row in value}
    tensors = _object(value, f"{where}: serve.drafter_tensors")
    found = {name: entry for name, entry in (tensors or {}).items() if name != "__metadata__"}
    return found or None


def _text(serve: Mapping[str, Any], key: str, where: str) -> str | None:
    value = serve.get(key)
    if isinstance(value, dict):
        value = value.get("metrics", value.get("text"))
    if isinstance(value, list):
        value = "\n".join(str(line) for line in value)
    if value is None or isinstance(value, str):
        return value
    raise BadInput(f"{where}: serve.{key} is {type(value).__name__}, not text")


def _mapping(serve: Mapping[str, Any], key: str, where: str) -> dict[str, Any] | None:
    return _object(serve.get(key), f"{where}: serve.{key}")


def _object(value: Any, name: str) -> dict[str, Any] | None:
    if isinstance(value, list):
        return {str(item): {} for item in value}
    if value is None or isinstance(value, dict):
        return value
    raise BadInput(f"{name} is {type(value).__name__}, not an object")
