"""Reads a report that another provcheck printed (schema ``provcheck/1``), as hostile input.

Bounded in size and depth, every part of the type it must have, and its verdict must be that of its findings:
a report that calls itself green over a failure is refused. Fields that a later version added are left aside.
"""

from __future__ import annotations

import re
from typing import Any

from checks.bounded_json import BadJson, parse_object
from checks.errors import BadInput
from checks.model import Finding, Report, Silence, Status

SIZE_LIMIT = 8 << 20
_MOST_FINDINGS = 50_000
_LONGEST = 20_000
_ID = re.compile(r"[a-z][a-z0-9_]{0,40}\.[a-z0-9_]{1,60}")
_COMMAND = re.compile(r"[a-z][a-z0-9_-]{0,30}")


def parse(raw: bytes, name: str) -> Report:
    """The report in ``raw``; ``name`` is what errors call it. Raises BadInput when it is none."""
    if len(raw) > SIZE_LIMIT:
        raise BadInput(f"{name} sent more than {SIZE_LIMIT >> 20} MiB: no report of provcheck is so large")
    try:
        data = parse_object(raw, what=name)
    except BadJson as error:
        raise BadInput(str(error)) from None
    if data.get("schema") != "provcheck/1":
        raise BadInput(
            f"{name} has schema {str(data.get('schema'))[:60]!r}; this provcheck reads 'provcheck/1'"
        )
    findings = data.get("findings")
    if not isinstance(findings, list) or len(findings) > _MOST_FINDINGS:
        raise BadInput(f"{name}: findings must be a list of at most {_MOST_FINDINGS}")
    evidence = data.get("evidence")
    if evidence not in ("live", "replayed"):
        raise BadInput(f"{name}: evidence must be live or replayed")
    facts = data.get("facts", {})
    if not isinstance(facts, dict):
        raise BadInput(f"{name}: facts must be an object")
    report = Report(
        _matching(data, "command", _COMMAND, name),
        tuple(_finding(one, f"{name}, finding {number}") for number, one in enumerate(findings, 1)),
        evidence,
        facts,
    )
    if data.get("verdict") != report.verdict.value:
        raise BadInput(
            f"{name} says {str(data.get('verdict'))[:20]!r} over findings that make {report.verdict.value!r}:"
            " it is damaged, or of another version"
        )
    return report


def _finding(one: Any, where: str) -> Finding:
    if not isinstance(one, dict):
        raise BadInput(f"{where}: not an object")
    try:
        status = Status(one.get("status"))
    except ValueError:
        raise BadInput(f"{where}: no such status {str(one.get('status'))[:20]!r}") from None
    return Finding(
        _matching(one, "id", _ID, where),
        status,
        _text(one, "subject", where) or _missing("subject", where),
        _text(one, "message", where) or "",
        value=one.get("value"),
        limit=one.get("limit"),
        unit=_text(one, "unit", where),
        cause=_text(one, "cause", where),
        fix=_text(one, "fix", where),
        owner=_text(one, "owner", where) or "node",
        silence=_silence(one.get("silence"), where),
        command=None if one.get("command") is None else _matching(one, "command", _COMMAND, where),
    )


def _silence(given: Any, where: str) -> Silence | None:
    if given is None:
        return None
    if not isinstance(given, dict):
        raise BadInput(f"{where}: silence must be an object")
    parts = [_text(given, key, where) or _missing(key, where) for key in ("owner", "reason", "until")]
    return Silence(*parts)


def _text(data: dict[str, Any], key: str, where: str) -> str | None:
    value = data.get(key)
    if value is not None and (not isinstance(value, str) or len(value) > _LONGEST):
        raise BadInput(f"{where}: {key} must be a text of at most {_LONGEST} characters")
    return value


def _matching(data: dict[str, Any], key: str, form: re.Pattern[str], where: str) -> str:
    value = data.get(key)
    if not isinstance(value, str) or not form.fullmatch(value):
        raise BadInput(f"{where}: {key} is {str(value)[:40]!r}, which is none")
    return value


def _missing(key: str, where: str) -> str:
    raise BadInput(f"{where}: {key} is missing")
