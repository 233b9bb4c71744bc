"""``--host``: the same question asked on the machine that holds the folders; the report comes back as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from checks.bounded_json import BadJson, parse_object
from checks.drafter.run import Request, answer
from checks.errors import BadInput, Unreachable
from checks.model import Finding, Report, Status

DEADLINE = 60.0
"""Seconds: relatives may be asked from there, 30 s at most."""


def answer_from(host: str, request: Request) -> Report:
    """The report of another machine; where it cannot be asked, a report that says so and is not green."""
    from checks.remote import call

    try:
        printed = call(host, ["_probe", "drafter", json.dumps(asdict(request))], DEADLINE)
        return _report(printed, host)
    except Unreachable as error:
        finding = Finding(
            "node.reachable", Status.UNKNOWN, "host", str(error), cause=error.cause, fix=error.fix
        )
        return Report("drafter", (finding,), facts={"host": host})


def main(args: Sequence[str]) -> int:
    """The far end: one request as JSON in, a report or the reason for none as JSON out. Raises BadInput."""
    if len(args) != 1:
        raise BadInput("_probe drafter takes one request")
    try:
        raw = parse_object(args[0].encode(), what="the request")
        said: dict[str, Any] = {"report": answer(Request(**raw)).as_dict()}
    except (BadJson, TypeError) as error:
        raise BadInput(f"_probe drafter: {error}") from None
    except BadInput as error:
        said = {"bad_input": str(error)}
    print(json.dumps(said))  # noqa: T201
    return 0


def _report(printed: bytes, host: str) -> Report:
    try:
        said = parse_object(printed, what=f"the answer of {host}")
        if isinstance(said.get("bad_input"), str):
            raise BadInput(f"{host}: {said['bad_input']}")
        report = said["report"]
        names = {field.name for field in fields(Finding)}
        findings = tuple(
            Finding(**{**{k: v for k, v in item.items() if k in names}, "status": Status(item["status"])})
            for item in report["findings"]
        )
        return Report("drafter", findings, facts={**report["facts"], "host": host})
    except (BadJson, KeyError, TypeError, ValueError) as error:
        raise Unreachable(f"{host} sent no report: {error}", cause="a login script there may print") from None
