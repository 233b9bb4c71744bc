"""What a recorded tree lacks is told as that: with the record's next steps, never with those of a machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from provision.inventory import load
from provision.plan import PHASES, RECORD_ANEW, Plan
from provision.run.recorded import plan_recorded


def plan(tree: Path, repo_root: Path) -> Plan:
    (found,) = plan_recorded(load(str(repo_root / "inventories" / "kpro5.py"), names=False), (), PHASES, tree)
    return found


@pytest.fixture
def tree(repo_root: Path, tmp_path: Path) -> Path:
    subprocess.run(["cp", "-a", repo_root / "tests/replay/machines/kpro5", tmp_path / "kpro5"], check=True)
    return tmp_path / "kpro5"


def test_an_empty_tree_gives_no_next_step_of_a_live_machine(repo_root: Path, tmp_path: Path) -> None:
    found = plan(tmp_path, repo_root)
    assert found.refusals
    assert {one.next_step for one in found.refusals} == {RECORD_ANEW}
    assert "the record does not show /tank/models" in {one.seen for one in found.refusals}


def test_a_folder_that_was_looked_at_and_not_there_has_the_next_step_of_a_machine(
    repo_root: Path, tree: Path
) -> None:
    shutil.rmtree(tree / "tank")
    (tree / ".kpro/absent").write_text("/tank/models\n")
    (refused,) = plan(tree, repo_root).refusals
    assert refused.next_step.startswith("mkdir -p /tank/models")


def test_a_plan_says_when_nobody_can_tell_which_kernel_boots_next(repo_root: Path, tree: Path) -> None:
    said = "which kernel boots next cannot be told"
    assert not any(said in note for note in plan(tree, repo_root).notes)
    shutil.rmtree(tree / "boot")
    assert any(said in note and "6.17.13-2-pve alone" in note for note in plan(tree, repo_root).notes)


def test_a_program_that_failed_on_the_machine_is_no_lack_of_its_record(repo_root: Path, tree: Path) -> None:
    (tree / ".kpro/cmd/pct-status-105.rc").write_text("127\n")
    (tree / ".kpro/cmd/pct-status-105.out").write_text("sh: 1: pct: not found\n")
    (refused,) = plan(tree, repo_root).refusals
    assert "pct status 105 ended with 127" in refused.seen
    assert refused.next_step == "look at it: pct status 105"
    (tree / ".kpro/cmd/pct-status-105.out").unlink()
    (refused,) = plan(tree, repo_root).refusals
    assert refused.next_step == RECORD_ANEW
