"""The commands themselves, in processes of their own: they end with a report whatever their end is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from provision.run import journal

INVENTORY = """
from provision.spec import Gpu, Machine
machine = Machine(name="box", ssh=None, gpus=[Gpu(bdf="7f:1f.0", model="RTX A6000")], gpu_count=1)
metal, guests = machine.pyinfra_groups()
"""
CONNECTED = """
import pyinfra_cli
from pathlib import Path
from provision.run import runner
from provision.run.errors import Locked
from provision.run.session import say_on_stderr
try:
    with runner.connected(Path({path!r}), phases=(), reason="apply box", say=say_on_stderr) as run:
        run.session.open_journal()
        raise {error}
except BaseException as error:
    print(type(error).__name__)
"""


@pytest.fixture
def box(tmp_path: Path) -> Path:
    (tmp_path / "box.py").write_text(INVENTORY)
    return tmp_path / "box.py"


def python(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=120, check=False
    )


def reports() -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(journal.runs_folder().glob("*/report.json"))]


def test_a_refused_apply_has_a_report_with_every_next_step(box: Path) -> None:
    done = python("from provision.cli import main; main()", "apply", str(box), "--yes")
    assert done.returncode == 3, done.stderr
    (found,) = reports()
    assert (found["outcome"]["state"], found["asked"]["machines"]) == ("refused", ["box"])
    assert [one["where"] for one in found["refusals"]] == ["machine.gpu_count", "machine.gpus[0].bdf"]
    assert all("correct the inventory" in one["next"] for one in found["refusals"])
    assert (found["changes"], found["back"]) == ([], [])
    assert f"report: {journal.runs_folder() / found['run'] / 'report.html'}" in done.stderr


def test_a_plan_leaves_no_run_behind(box: Path) -> None:
    assert python("from provision.cli import main; main()", "plan", str(box)).returncode == 3
    assert not journal.runs_folder().exists()


@pytest.mark.parametrize(
    ("error", "state", "code", "why"),
    [
        ("KeyboardInterrupt", "interrupted", 130, []),
        ("Locked('box is locked by somebody')", "locked", 4, ["box is locked by somebody"]),
        ("OSError('gone')", "failed", 1, ["gone"]),
    ],
)
def test_a_run_that_ends_early_says_how_and_why(
    box: Path, error: str, state: str, code: int, why: list[str]
) -> None:
    done = python(CONNECTED.format(path=str(box), error=error))
    assert done.stdout.strip() == error.split("(")[0], done.stderr
    (found,) = reports()
    assert (found["outcome"]["state"], found["outcome"]["exit"], found["outcome"]["why"]) == (
        state,
        code,
        why,
    )
