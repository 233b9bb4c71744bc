"""What the machine itself does with a run that waits for its confirmation. A real shell in a folder of its own."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from pathlib import Path

import pytest

from provision.templates import render
from tests.unit.guest.doubles import Doubles

RUN = "20261129T152000Z-a1b2c3"
UNITS = (
    "kpro-confirm.timer",
    "kpro-confirm.service",
    "kpro-undo.service",
    "timers.target.wants/kpro-confirm.timer",
    "multi-user.target.wants/kpro-confirm.service",
)


class Machine:
    """A machine small enough for a folder; ``boot`` is its boot_id, ``b0`` the one it was armed in."""

    def __init__(self, folder: Path, doubles: Doubles) -> None:
        self.folder, self.doubles = folder, doubles
        self.state, self.run, self.units = folder / "state", folder / "run", folder / "units"
        for made in (
            self.state,
            self.run,
            self.units / "timers.target.wants",
            self.units / "multi-user.target.wants",
        ):
            made.mkdir(parents=True)
        for unit in UNITS:
            (self.units / unit).write_text("")
        self.script = self.state / "confirm.sh"
        self.boot("b1")
        text = render("kpro-confirm.sh.j2")
        for there, here in (
            ("state=/var/lib/kpro", f"state={self.state}"),
            ("units=/etc/systemd/system", f"units={self.units}"),
            ("/run/kpro", str(self.run)),
            ("/proc/sys/kernel/random/boot_id", str(folder / "boot_id")),
        ):
            assert there in text
            text = text.replace(there, here)
        self.script.write_text(text)
        self.undo("printf 'undone %s\\n' \"$1\"")
        doubles.answer("systemctl", '"start --no-block kpro-undo.service") ;;', "reboot) ;;")

    def boot(self, boot_id: str) -> None:
        (self.folder / "boot_id").write_text(f"{boot_id}\n")

    def undo(self, text: str) -> None:
        (self.state / "undo.sh").write_text(
            f"exec >>{self.folder}/undone\n[ $KPRO_RUN = $1 ] || exit 4\n{text}\n"
        )

    def arm(self, boots_left: int = 2, seconds: int = 0) -> None:
        document = {"run": RUN, "boot_id": "b0", "boots_left": boots_left, "seconds": seconds}
        (self.state / "confirm.json").write_text(json.dumps(document) + "\n")

    @property
    def armed(self) -> dict[str, object] | None:
        path = self.state / "confirm.json"
        return json.loads(path.read_text()) if path.exists() else None

    @property
    def undone(self) -> str:
        path = self.folder / "undone"
        return path.read_text() if path.exists() else ""

    @property
    def events(self) -> list[str]:
        path = self.state / "journal" / f"{RUN}.jsonl"
        return [json.loads(line)["event"] for line in path.read_text().splitlines()]

    def command(self, word: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "PATH": f"{self.doubles.folder}:{os.environ['PATH']}"}
        return subprocess.Popen(
            ["sh", str(self.script), word],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def call(self, word: str) -> tuple[int, str]:
        running = self.command(word)
        said, _ = running.communicate(timeout=20)
        return running.returncode, said


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "bin").mkdir()
    return Machine(tmp_path, Doubles(tmp_path / "bin"))


def test_a_run_that_is_not_confirmed_in_time_is_taken_back(machine: Machine) -> None:
    machine.arm()
    code, said = machine.call("late")
    assert (code, machine.undone) == (0, f"undone {RUN}\n"), said
    assert machine.armed is None
    assert machine.events == ["undoing", "undone"]
    assert json.loads((machine.state / "confirm.undone.json").read_text())["run"] == RUN
    assert not any((machine.units / unit).exists() for unit in UNITS)
    assert not machine.script.exists()
    assert machine.doubles.asked == []


def test_a_confirmed_run_is_not_taken_back(machine: Machine) -> None:
    for word in ("boot", "late"):
        assert machine.call(word)[0] == 0
    assert machine.undone == ""


def test_the_machine_takes_nothing_back_before_it_has_booted(machine: Machine) -> None:
    machine.arm(boots_left=1)
    machine.boot("b0")
    for word in ("boot", "late"):
        assert machine.call(word)[0] == 0
    assert machine.undone == ""
    assert machine.armed is not None
    assert machine.armed["boots_left"] == 1


def test_the_first_boot_only_counts(machine: Machine) -> None:
    machine.arm(boots_left=2, seconds=600)
    assert machine.call("boot")[0] == 0
    assert machine.armed == {"run": RUN, "boot_id": "b0", "boots_left": 1, "seconds": 600}
    assert machine.doubles.asked == []
    assert not (machine.run / "taking-back").exists()


def test_the_last_boot_takes_back_at_once_and_leaves_the_driver_alone(machine: Machine) -> None:
    machine.arm(boots_left=1)
    assert machine.call("boot")[0] == 0
    assert machine.doubles.asked == ["systemctl start --no-block kpro-undo.service"]
    assert (machine.run / "taking-back").exists()
    assert machine.undone == ""
    assert machine.call("late")[0] == 0
    assert machine.undone == f"undone {RUN}\n"
    assert not (machine.run / "taking-back").exists()


def test_a_damaged_arm_counts_as_the_last_boot(machine: Machine) -> None:
    (machine.state / "confirm.json").write_text("\n")
    machine.call("boot")
    assert machine.doubles.asked == ["systemctl start --no-block kpro-undo.service"]


def test_it_boots_again_only_when_what_was_undone_needs_it(machine: Machine) -> None:
    machine.arm()
    machine.undo('echo "$1"; (exit 10)')
    assert machine.call("late")[0] == 0
    assert machine.doubles.asked == ["systemctl reboot"]
    assert machine.armed is None, "it must not come round again after that boot"


def test_an_undo_that_fails_is_told_and_not_tried_for_ever(machine: Machine) -> None:
    machine.arm()
    machine.undo('echo "$1"; false')
    assert machine.call("late")[0] == 1
    assert machine.events == ["undoing", "undo-incomplete"]
    assert machine.armed is None
    assert (machine.state / "confirm.undo-incomplete.json").exists()


def test_an_undo_cut_off_by_a_power_failure_is_done_again_at_the_next_boot(machine: Machine) -> None:
    machine.arm(boots_left=0)
    machine.call("boot")
    assert machine.doubles.asked == ["systemctl start --no-block kpro-undo.service"]


def test_a_controller_at_work_that_confirms_in_time_keeps_the_run(machine: Machine) -> None:
    machine.arm(seconds=10)
    with (machine.run / "lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        running = machine.command("late")
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(0.5)
        (machine.state / "confirm.json").unlink()
    said, _ = running.communicate(timeout=20)
    assert (running.returncode, machine.undone) == (0, ""), said


def test_a_controller_that_holds_the_machine_and_never_confirms_does_not_stop_it(machine: Machine) -> None:
    machine.arm(seconds=1)
    with (machine.run / "lock").open("a") as held:
        held.write("somebody\n")
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        code, said = machine.call("late")
    assert (code, machine.undone) == (0, f"undone {RUN}\n")
    assert "under the hands of: somebody" in said
