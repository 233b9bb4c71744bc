"""The undo script after an exchange of the driver: the one that gave way is loaded again, guests run again, last."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.host.changes import Change
from tests.unit.run.kernel import Machine
from tests.unit.run.test_undo import tree, undo, write


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build  (buildd@debian)  Sat Dec 20\n"
OLD, NEW = "535.261.03 open", "580.159.04 open"
EXCHANGE = Change("module", "r2", id="nvidia", before=OLD)


def has_driver(machine: Machine, version: str, after: str = "535.261.03", sticks: bool = False) -> None:
    """A machine on which this version is loaded; when it was unloaded, the boot unit or modprobe brings ``after``."""
    modules = machine.root / "module"
    for name in ("nvidia", "nvidia_uvm", "nvidia_modeset"):
        (modules / name).mkdir(parents=True, exist_ok=True)
    (machine.root / "version").write_text(OPEN.format(version))
    sticking = "[ $1 != nvidia ] || exit 1; " if sticks else ""
    machine.program(
        "rmmod", f"{sticking}rmdir {modules}/$1; [ $1 != nvidia ] || rm -f {machine.root}/version"
    )
    new = OPEN.format(after).strip()
    loads = f"mkdir -p {modules}/nvidia {modules}/nvidia_uvm; echo '{new}' >{machine.root}/version"
    machine.program("modprobe", f"[ $1 != nvidia ] || {{ {loads}; }}")
    machine.program(
        "systemctl",
        f"case \"$*\" in 'restart kpro-devices.service') {loads} ;; is-active*) echo inactive; exit 3 ;; esac",
    )
    machine.program("nvidia-modprobe")


def test_the_driver_that_gave_way_is_loaded_again_after_its_files_are_back(
    machine: Machine, tmp_path: Path
) -> None:
    has_driver(machine, "580.159.04")
    modules = tmp_path / "nvidia.ko"
    modules.write_text("old\n")
    changes = (write(machine, modules, "r2", "new\n"), EXCHANGE)
    machine.program("depmod", f"cat {modules}")
    code, said = undo(machine, changes, "--look", "r2")
    assert (code, f"would load driver {OLD} in place of {NEW}" in said) == (0, True)
    assert not [call for call in machine.calls if call.startswith("rmmod")]
    code, said = undo(machine, changes, "r2")
    assert (code, f"driver {OLD} is loaded again" in said) == (0, True), said
    unloaded = [call for call in machine.calls if call.startswith("rmmod")]
    assert unloaded == ["rmmod nvidia_uvm", "rmmod nvidia_modeset", "rmmod nvidia"]
    assert modules.read_text() == "old\n"
    assert "is loaded already" in undo(machine, changes, "r2")[1]


def test_a_driver_that_was_unloaded_and_never_followed_comes_back(machine: Machine) -> None:
    has_driver(machine, "580.159.04")
    for name in ("nvidia_uvm", "nvidia_modeset", "nvidia"):
        (machine.root / "module" / name).rmdir()
    (machine.root / "version").unlink()
    assert undo(machine, (EXCHANGE,), "r2")[0] == 0
    assert "535.261.03" in (machine.root / "version").read_text()


def test_an_exchange_that_stopped_half_way_gets_its_other_modules_again(machine: Machine) -> None:
    has_driver(machine, "535.261.03")
    (machine.root / "module" / "nvidia_uvm").rmdir()
    code, said = undo(machine, (EXCHANGE,), "r2")
    assert (code, f"driver {OLD} is loaded again" in said) == (0, True), said
    assert not [call for call in machine.calls if call.startswith("rmmod")]


def test_a_driver_that_does_not_let_go_is_left_to_the_reboot(machine: Machine) -> None:
    has_driver(machine, "580.159.04", sticks=True)
    code, said = undo(machine, (EXCHANGE,), "r2")
    assert code == 10
    assert f"driver {NEW} could not be unloaded: the next reboot puts it back" in said


def test_another_driver_than_the_one_that_gave_way_is_no_success(machine: Machine) -> None:
    has_driver(machine, "580.159.04", after="570.26")
    code, said = undo(machine, (EXCHANGE,), "r2")
    assert (code, f"driver {OLD} was not loaded, 570.26 open is" in said) == (1, True)


def test_all_together_no_driver_comes_back_where_none_was(machine: Machine) -> None:
    has_driver(machine, "580.159.04")
    changes = (Change("module", "r1", id="nvidia"), EXCHANGE)
    code, said = undo(machine, changes)
    assert (code, "the NVIDIA modules are unloaded" in said) == (0, True)
    assert "loaded again" not in said


def sleeper(machine: Machine, tmp_path: Path) -> Change:
    """A container that a run stopped; its stand-in starts."""
    folder = tmp_path / "lxc" / "c1"
    folder.mkdir(parents=True)
    (folder / "config").write_text("lxc.start.auto = 1\n")
    state = folder / "state"
    state.write_text("STOPPED\n")
    machine.program("lxc-info", f"cat {state}")
    machine.program("lxc-start", f"echo RUNNING >{state}")
    machine.program("lxc-stop", f"echo STOPPED >{state}")
    machine.program("lxc-attach", 'case "$*" in *is-system-running*) echo running ;; esac')
    return Change(
        "guest",
        "r2",
        id="c1",
        folder=str(folder),
        before="/opt/kpro/nvidia/1/lib",
        names=("kpro-tiny.service",),
    )


def test_a_guest_that_was_stopped_runs_again_last_of_all(machine: Machine, tmp_path: Path) -> None:
    has_driver(machine, "580.159.04")
    asleep = sleeper(machine, tmp_path)
    code, said = undo(machine, (asleep, EXCHANGE), "--look", "r2")
    assert (code, "would start container c1 again" in said) == (0, True)
    code, said = undo(machine, (asleep, EXCHANGE), "r2")
    assert (code, "container c1 runs again, with kpro-tiny.service" in said) == (0, True), said
    calls = [call.split()[0] for call in machine.calls]
    assert calls.index("rmmod") < calls.index("lxc-start")
    asked = "\n".join(machine.calls).partition("lxc-start")[2]
    assert "/opt/kpro/nvidia/1/lib" in asked
    assert "kpro-tiny.service" in asked


def test_a_guest_that_runs_with_the_new_driver_is_stopped_before_the_old_one_comes(
    machine: Machine, tmp_path: Path
) -> None:
    has_driver(machine, "580.159.04")
    asleep = sleeper(machine, tmp_path)
    (tmp_path / "lxc" / "c1" / "state").write_text("RUNNING\n")
    assert undo(machine, (asleep, EXCHANGE), "r2")[0] == 0
    calls = [call.split()[0] for call in machine.calls]
    assert calls.index("lxc-stop") < calls.index("rmmod") < calls.index("lxc-start")


def test_a_guest_that_does_not_start_again_is_no_success(machine: Machine, tmp_path: Path) -> None:
    asleep = sleeper(machine, tmp_path)
    machine.program("lxc-start", "exit 1")
    code, said = undo(machine, (asleep,), "r2")
    assert (code, "container c1 does not start" in said) == (1, True)


def test_a_container_of_kpros_that_goes_is_not_started_again(machine: Machine, tmp_path: Path) -> None:
    asleep = sleeper(machine, tmp_path)
    made = Change("container", "r1", id="c1", folder=asleep.folder)
    # Of what is taken back after it nothing may make it forgotten.
    put = tree(machine, tmp_path, {tmp_path / "one.ko": "1\n"})
    code, said = undo(machine, (put, made, asleep))
    assert (code, "runs again" in said) == (0, False), said
    assert not [call for call in machine.calls if call.startswith("lxc-start")]


def test_nvidias_daemon_rests_for_it_and_starts_once_a_driver_is_loaded(machine: Machine) -> None:
    has_driver(machine, "580.159.04")
    (machine.root / "daemons").write_text("nvidia-dcgm.service\nnvidia-persistenced.service\n")
    assert undo(machine, (EXCHANGE,), "r2")[0] == 0
    calls = machine.calls
    first, second = (
        calls.index(f"systemctl start {name}.service") for name in ("nvidia-persistenced", "nvidia-dcgm")
    )
    assert calls.index("modprobe nvidia") < first < second
    assert not (machine.root / "daemons").exists()
