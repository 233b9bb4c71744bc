"""What import-linter cannot say: which packages `checks` may need at all, and that a probe starts light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

# Pure Python, so that one zipapp holds them for every Python and processor.
ALLOWED_IN_CHECKS = {"checks", "click", "rich", "pynvml", "packaging", "prometheus_client"}
HEAVY = {"click", "rich", "pynvml", "prometheus_client"}


def imported(source: str) -> set[str]:
    """Top-level names of everything that a module imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module.split(".")[0])
    return found


def strangers(sources: dict[Path, str]) -> dict[str, set[str]]:
    allowed = ALLOWED_IN_CHECKS | sys.stdlib_module_names
    return {str(name): odd for name, text in sources.items() if (odd := imported(text) - allowed)}


def test_checks_needs_only_the_packages_that_a_zipapp_can_carry(texts: dict[Path, str]) -> None:
    sources = {n: t for n, t in texts.items() if n.parts[0] == "checks" and n.suffix == ".py"}
    assert sources
    assert strangers(sources) == {}


def test_a_package_that_a_zipapp_cannot_carry_is_found_also_inside_a_function() -> None:
    assert strangers({Path("a.py"): "import json\ndef f():\n    from pydantic.fields import Field\n"}) == {
        "a.py": {"pydantic"}
    }


@pytest.mark.parametrize(
    "module", ["checks", "checks.model", "checks.snapshot", "checks.bdf", "checks.__main__"]
)
def test_what_a_host_runs_starts_without_the_heavy_packages(module: str) -> None:
    code = f"import sys, {module}; print(*sorted(set(sys.modules) & {HEAVY!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
