"""A sysroot with one recorded file in it, and what the command says of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from provision.cli import main

Document = dict[str, Any]


def place(root: Path, at: str, source: Path) -> None:
    target = root / at
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


def inspected(root: Path) -> Document:
    """The one machine of ``provision inspect --sysroot ROOT --json``."""
    ended = CliRunner().invoke(main, ["inspect", "--sysroot", str(root), "--json"])
    assert ended.exit_code == 0, (ended.output, ended.exception)
    document = json.loads(ended.stdout)
    assert (document["schema"], document["command"], document["exit"]) == ("provision/1", "inspect", 0)
    (machine,) = document["machines"]
    assert isinstance(machine, dict)
    return machine


def found(machine: Document, identity: str) -> list[Document]:
    return [finding for finding in machine["findings"] if finding["id"] == identity]


def said(machine: Document, identity: str) -> str:
    """All words of the findings of one id; fails when there are none."""
    findings = found(machine, identity)
    assert findings, sorted({finding["id"] for finding in machine["findings"]})
    return json.dumps(findings, ensure_ascii=False)
