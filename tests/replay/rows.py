"""INDEX.tsv of a folder of records: file, arguments, exit code, and the findings that must be so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checks.cli import main


def rows(folder: Path) -> list[list[str]]:
    """The rows below the heading, each of four texts."""
    return [line.split("\t") for line in (folder / "INDEX.tsv").read_text().splitlines()[1:]]


def names(folder: Path) -> list[str]:
    """How pytest calls each row."""
    return [f"{row[0]} {row[1]}" for row in rows(folder)]


def holds(findings: list[dict[str, Any]], wanted: str) -> bool:
    """``gpu.ecc@gpu1=fail``; the subject ``gpu*`` means every GPU, and at least one; ``~`` is a space."""
    name, _, status = wanted.partition("=")
    identity, _, subject = name.partition("@")
    found = [
        f["status"]
        for f in findings
        if f["id"] == identity
        and (f["subject"] == subject.replace("~", " ") or (subject == "gpu*" and f["subject"] != "host"))
    ]
    return bool(found) and set(found) <= set(status.split("|"))


def all_of(findings: list[dict[str, Any]]) -> set[str]:
    """The findings as an index writes them that names every one."""
    return {f"{f['id']}@{f['subject'].replace(' ', '~')}={f['status']}" for f in findings}


def replay(
    command: str, path: Path, args: list[str], capsys: pytest.CaptureFixture[str]
) -> tuple[int, dict[str, Any]]:
    """Exit code and report of ``provcheck COMMAND --replay PATH ARGS``."""
    code = main([command, "--replay", str(path), "--json", *args])
    return code, json.loads(capsys.readouterr().out)


def as_indexed(command: str, folder: Path, row: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Holds one record against its row, whose findings are all that there are."""
    name, args, code, wanted = row
    assert args == ""
    seen, report = replay(command, folder / f"{name}.json", [], capsys)
    assert seen == int(code)
    assert report["evidence"] == "replayed"
    assert all_of(report["findings"]) == set(wanted.split())


def recorded(folder: Path) -> set[str]:
    """The names of the records that lie there."""
    return {path.stem for path in folder.glob("*.json")}
