"""Arguments of recorded servers that did start: the version that took them must be judged so."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

from checks.flags.assess import report
from checks.model import Status


def words(arguments: dict[str, object]) -> list[str]:
    """The command line that the engine's own list of non-default arguments stands for."""
    out = ["vllm", "serve", str(arguments.pop("model_tag"))]
    arguments.pop("model", None)
    for name, value in arguments.items():
        option = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            out.append(option if value else f"--no-{option[2:]}")
        elif isinstance(value, list):
            out += [option, *map(str, value)]
        else:
            out += [option, json.dumps(value) if isinstance(value, dict) else str(value)]
    return out


def test_every_recorded_server_started_with_a_line_that_its_version_takes(shared: Path) -> None:
    judged = 0
    for log in sorted((shared / "fixtures" / "spec").glob("*.log.txt")):
        text = log.read_text()
        found = re.search(r"non-default args: (\{.*\})", text)
        version = re.search(r"version (\d+\.\d+\.\d+)", text)
        if not found or not version:
            continue
        line = words(ast.literal_eval(found[1]))
        result = report(f"vllm=={version[1]}", line, parser="table")
        assert [f.message for f in result.findings if f.status is Status.FAIL] == [], log.name
        judged += 1
    assert judged > 20
