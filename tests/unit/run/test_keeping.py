"""The undo script: what it puts back, what it leaves alone. Run by a real shell in a folder of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from provision.host.keeping import Change, dump, parse, undo_script, with_change
from provision.stack.desired import sha256


class Machine:
    """A machine small enough for a folder: /var/lib/kpro is beside the file."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        (self.state / "originals").mkdir(parents=True)
        self.file = folder / "with space" / "config"
        self.file.parent.mkdir()
        self.changes: tuple[Change, ...] = ()

    def write(self, text: str) -> None:
        """As an act does it: the original is kept once, then the new text is put."""
        change = Change("file", "run", str(self.file), sha256(text))
        if self.file.exists():
            kept = self.state / "originals" / "o1"
            if not kept.exists():
                kept.write_text(self.file.read_text())
            owner = f"{os.getuid()}:{os.getgid()}"
            change = Change("file", "run", str(self.file), sha256(text), "o1", "640", owner)
        self.changes = with_change(self.changes, change)
        self.file.write_text(text)

    def undo(self) -> subprocess.CompletedProcess[str]:
        script = undo_script(self.changes).replace("state=/var/lib/kpro", f"state={self.state}")
        script = script.replace("/run/kpro", f"{self.state}/run")
        return subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_replaced_file_is_the_original_again(machine: Machine) -> None:
    machine.file.write_text("mine\n")
    machine.write("ours\n")
    assert machine.undo().returncode == 0
    assert machine.file.read_text() == "mine\n"
    assert machine.file.stat().st_mode & 0o777 == 0o640


def test_two_changes_go_back_to_what_was_there_before_the_first(machine: Machine) -> None:
    machine.file.write_text("mine\n")
    machine.write("ours\n")
    machine.write("ours again\n")
    assert len(machine.changes) == 1
    assert machine.undo().returncode == 0
    assert machine.file.read_text() == "mine\n"


def test_a_file_that_was_not_there_is_removed(machine: Machine) -> None:
    machine.write("ours\n")
    assert machine.undo().returncode == 0
    assert not machine.file.exists()


def test_undo_twice_is_harmless(machine: Machine) -> None:
    machine.file.write_text("mine\n")
    machine.write("ours\n")
    assert machine.undo().returncode == 0
    again = machine.undo()
    assert again.returncode == 0
    assert "already" in again.stdout
    assert machine.file.read_text() == "mine\n"


def test_undo_leaves_alone_what_somebody_changed_since(machine: Machine) -> None:
    machine.file.write_text("mine\n")
    machine.write("ours\n")
    machine.file.write_text("theirs\n")
    done = machine.undo()
    assert done.returncode == 1
    assert "changed by somebody else" in done.stdout
    assert machine.file.read_text() == "theirs\n"


def test_a_container_that_is_gone_is_said_to_be(machine: Machine, tmp_path: Path) -> None:
    machine.changes = (Change("container", "run", id="c1", folder=str(tmp_path / "nowhere")),)
    done = machine.undo()
    assert (done.returncode, done.stdout) == (0, "container c1 is gone already\n")


def test_a_container_made_anew_has_no_original_of_the_one_before() -> None:
    old = (
        Change("container", "r1", id="c", folder="/lxc/c"),
        Change("file", "r2", "/lxc/c/config", "0" * 64, "o"),
    )
    assert with_change(old, Change("container", "r3", id="c", folder="/lxc/c")) == (
        Change("container", "r3", id="c", folder="/lxc/c"),
    )


def test_a_manifest_is_read_back_as_written() -> None:
    changes = (
        Change("container", "r", id="c", folder="/f"),
        Change("file", "r", "/p", "0" * 64, "o", "600", "0:0"),
    )
    assert parse(dump(changes)) == changes


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "other/1", "changes": []}', "{cut"])
def test_a_manifest_that_is_none_is_an_error_and_never_taken_for_empty(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse(text)
