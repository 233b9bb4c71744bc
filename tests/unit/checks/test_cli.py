"""The command line: help that teaches, usage errors of one line, nothing imported that is not used."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import checks
from checks.cli import COMMANDS
from checks.data.catalogue import CATALOGUE
from checks.model import Status

IDENTITY = re.compile(r"(gpu|nvlink|pcie|fabric|driver|node|nccl|load|drafter|flags|fit|serve)\.[a-z0-9_]+")


def test_none_wanted_passes_zero_of_zero(provcheck: Callable[..., Any]) -> None:
    said = provcheck("gpus", "--expect", 0, "--json")
    assert (said.code, said.report["verdict"], said.status("gpu.count", "host")) == (0, "pass", "pass")
    assert {f["status"] for f in said.report["findings"] if f["id"] != "gpu.count"} == {"skip"}


@pytest.mark.parametrize(
    "args",
    [
        ("nonsense",),
        ("gpus", "--expect", "two"),
        ("gpus", "--expect", "-1"),
        ("gpus", "--nonsense"),
        ("gpus", "surplus"),
        ("gpus", "--format", "pdf"),
        ("gpus", "--json", "--format", "table"),
        ("gpus", "--deadline", "0"),
        ("gpus", "--host", "-oProxyCommand=id"),
        ("gpus", "--host", ""),
        ("gpus", "--replay", "x", "--record", "y"),
        ("gpus", "--replay", "x", "--host", "y"),
        ("gpus", "--record", "/no/such/folder/file"),
        ("gpus", "--silences", "/no/such/file"),
        ("explain",),
        ("explain", "gpu.nonsense"),
        ("explain", "gpu.ecc", "--list"),
        ("_probe", "nonsense"),
        ("_probe", "record"),
    ],
)
def test_wrong_use_is_one_line_and_exit_2(args: tuple[str, ...], provcheck: Callable[..., Any]) -> None:
    said = provcheck(*args)
    assert (said.code, said.out) == (2, "")
    assert len(said.err.splitlines()) == 1


def test_help_shows_examples_and_exit_codes_and_hides_the_children(provcheck: Callable[..., Any]) -> None:
    said = provcheck("--help")
    assert said.code == 0
    for text in ("provcheck gpus --expect 2", "3 could not check", "explain"):
        assert text in said.out
    assert "_generate" not in said.out
    assert "--replay" in provcheck("gpus", "--help").out
    assert provcheck("_generate", "--help").code == 0


@pytest.mark.parametrize("args", [["--help"], ["explain", "--list"]])
def test_heavy_modules_are_imported_only_where_they_are_used(args: list[str], repo_root: Path) -> None:
    code = (
        "import sys; from checks.cli import main; main(sys.argv[1:]); "
        "print([m for m in ('rich', 'pynvml', 'prometheus_client', 'checks.gpus.command') if m in sys.modules])"
    )
    command = [sys.executable, "-c", code, *args]
    ran = subprocess.run(command, cwd=repo_root, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_a_child_imports_no_click(repo_root: Path) -> None:
    code = "import sys; from checks.cli import main; main(['_probe', 'nvml']); print('click' in sys.modules)"
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, cwd=repo_root, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.splitlines()[-1] == "False"


def test_every_command_of_the_table_is_there(provcheck: Callable[..., Any]) -> None:
    for name in COMMANDS:
        assert provcheck(name, "--help").code == 0


def identities_in_the_code(root: Path) -> set[str]:
    found = set()
    for path in sorted((root / "checks").rglob("*.py")):
        if path.name.endswith("catalogue.py"):
            continue
        for item in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(item, ast.Constant)
                and isinstance(item.value, str)
                and IDENTITY.fullmatch(item.value)
            ):
                found.add(item.value)
    return found


def test_every_finding_is_in_the_catalogue_and_nothing_else(repo_root: Path) -> None:
    assert identities_in_the_code(repo_root) == set(CATALOGUE)


def test_catalogue_examples_start_with_status_subject_and_their_own_id() -> None:
    for identity, entry in CATALOGUE.items():
        status, subject, name = re.sub(r"pair (\d+-\d+)", r"pair:\1", entry.example).split()[:3]
        assert status in {status.value for status in Status}
        assert re.fullmatch(
            r"host|gpu\d+|engine|drafter|target|rank|rank\d+|pair:\d+-\d+|pair|node\d*|0000:01:00\.0", subject
        )
        assert name == identity
        assert all(entry)


def test_explain_reads_like_a_page(provcheck: Callable[..., Any]) -> None:
    said = provcheck("explain", "gpu.row_remap")
    assert said.code == 0
    for heading in ("Why it matters", "Example", "How to mend it", "Source"):
        assert heading in said.out
    assert set(json.loads(provcheck("explain", "--list", "--json").out)) == set(CATALOGUE)
    assert "perhaps gpu.ecc" in provcheck("explain", "gpu.ec").err


@pytest.mark.parametrize(
    ("where", "code", "said"),
    [(">&-", {0, 3}, ""), (">/dev/full", {3}, "could not be printed: No space left"), ("| true", {0, 3}, "")],
)
def test_a_report_that_nobody_can_read_leaves_the_verdict_and_no_traceback(
    where: str, code: set[int], said: str
) -> None:
    command = f"set -o pipefail; {sys.executable} -m checks gpus --expect 0 {where}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode in code
    assert "Traceback" not in done.stderr
    assert said in done.stderr


def test_a_machine_that_has_no_file_left_is_no_verdict_and_no_traceback() -> None:
    command = f"ulimit -n 7; exec {sys.executable} -m checks nccl --library {sys.executable}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("gpus", "--deadline", "nan"),
        ("load", "--seconds", "nan"),
        ("nccl", "--size-deadline", "nan"),
        ("nccl", "--init-deadline", "inf"),
    ],
)
def test_a_deadline_that_is_no_number_is_refused(
    provcheck: Callable[..., Any], words: tuple[str, ...]
) -> None:
    assert provcheck(*words).code == 2


def test_every_number_of_a_command_is_a_finite_one() -> None:
    for path in Path(checks.__file__).parent.rglob("*.py"):
        if path.name != "ranges.py":
            assert "click.FloatRange" not in path.read_text(), path
