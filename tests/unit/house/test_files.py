"""Shape of the tree: short files, scripts that run, one version, what the wheel must carry."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import checks
import provision
from checks.data import integrations
from checks.serving import guard

MOST_LINES = 300


def too_long(lines: dict[Path, int]) -> dict[str, int]:
    """Python files over the limit. Tables of data may be longer: they are rows, not ideas."""
    return {
        str(name): n for name, n in sorted(lines.items()) if n > MOST_LINES and "data" not in name.parts[:-1]
    }


def test_a_python_file_has_one_idea_and_at_most_300_lines(texts: dict[Path, str]) -> None:
    ours = {
        n: t.count("\n")
        for n, t in texts.items()
        if n.suffix == ".py" and n.parts[0] in ("provision", "checks")
    }
    assert ours
    assert too_long(ours) == {}


def test_a_long_module_is_found_and_a_long_table_is_not() -> None:
    assert too_long({Path("checks/gpus/judge.py"): 301, Path("checks/data/xid.py"): 900}) == {
        "checks/gpus/judge.py": 301
    }


def _scripts(files: list[Path]) -> list[Path]:
    return [name for name in files if name.parts[0] in ("scripts", ".ci", "test", "demo")]


def test_every_script_can_be_executed_and_parsed(repo_root: Path, files: list[Path]) -> None:
    scripts = _scripts(files)
    assert {str(name) for name in scripts} >= {
        "test",
        "demo",
        ".ci/run",
        "scripts/bootstrap",
        "scripts/check",
    }
    for name in scripts:
        path = repo_root / name
        assert os.access(path, os.X_OK), f"chmod +x {name}"
        first = path.read_text().splitlines()[0]
        assert first in ("#!/usr/bin/env bash", "#!/bin/sh", "#!/usr/bin/env python3"), f"{name}: {first}"
        if "python" not in first:
            subprocess.run(["bash", "-n", path], check=True)


def test_what_lies_outside_the_packages_goes_into_the_wheel(repo_root: Path) -> None:
    toml = tomllib.loads((repo_root / "pyproject.toml").read_text())
    included = toml["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    outside = {"deploy.py", "config.py", "inventories", "templates"}
    handed_out = {f"templates/{name}": f"checks/{guard.PACKED}/{name}" for name in guard.FILES}
    handed_out[f"templates/{integrations.FOLDER}"] = f"checks/{guard.PACKED}/{integrations.FOLDER}"
    whole = {name: target for name, target in included.items() if name not in handed_out}
    assert set(whole) == {name for name in outside if (repo_root / name).exists()}
    assert all(target.startswith("provision/_") for target in whole.values())
    assert {name: included[name] for name in handed_out} == handed_out


def test_there_is_one_version(repo_root: Path) -> None:
    version = tomllib.loads((repo_root / "pyproject.toml").read_text())["project"]["version"]
    assert (provision.__version__, checks.__version__) == (version, version)


def test_the_changelog_keeps_its_form(repo_root: Path) -> None:
    text = (repo_root / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", heading) for heading in headings[1:])
    kinds = set(re.findall(r"^### (.*)$", text, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def missing_paths(text: str, root: Path) -> list[str]:
    """Paths in backticks that are not there; words in capitals stand for something."""
    named = re.findall(r"`((?:provision|checks|tests|scripts|templates|inventories)/[^\s`]*)`", text)
    return [
        path for path in named if not re.search(r"[A-Z]{2}", path) and not list(root.glob(path.rstrip("/")))
    ]


def test_the_map_of_the_house_names_what_is_there(repo_root: Path) -> None:
    text = (repo_root / "CONTRIBUTING.md").read_text().replace("`tests/gpu`", "")
    assert missing_paths(text, repo_root) == []


def test_a_path_that_is_gone_is_found(tmp_path: Path) -> None:
    assert missing_paths("`checks/gone.py` and `tests/NAME`", tmp_path) == ["checks/gone.py"]
