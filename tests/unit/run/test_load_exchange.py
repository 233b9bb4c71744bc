"""Loading a driver in place of another one: what is unloaded, in which order, and who rests meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.acts.load import load_script
from tests.unit.run.kernel import Machine
from tests.unit.run.test_load import GPU, LOAD, SECOND, VERSION, takes_all

CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Wed Mar 25 15:26:15 UTC 2026\n"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    for bdf in (GPU, SECOND):
        machine.bus.function(bdf, "nvidia")
    return machine


def holds(machine: Machine, line: str, comes: str, sticks: bool = False) -> None:
    """This driver is loaded; after its end the named one is."""
    modules, version = machine.root / "module", machine.root / "version"
    for name in ("nvidia_peermem", "nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia"):
        (modules / name).mkdir(parents=True)
    version.write_text(line)
    gone = f"rm -f {machine.bus.folder}/devices/*/driver; echo '{comes.strip()}' >{version}"
    stuck = "[ $1 != nvidia ] || exit 1; " if sticks else ""
    machine.program("rmmod", f"{stuck}rmdir {modules}/$1; [ $1 != nvidia ] || {{ {gone}; }}")
    takes_all(machine)
    modprobe = machine.programs / "modprobe"
    modprobe.write_text(f"{modprobe.read_text()}\nmkdir -p {modules}/nvidia\n")
    active = "case \"$*\" in 'is-active nvidia-persistenced.service') echo active ;; is-active*) echo inactive ;; esac"
    machine.program("systemctl", active)


@pytest.mark.parametrize(
    "line", [VERSION.format("550.163.01"), CLOSED.format("535.261.03")], ids=["version", "flavour"]
)
def test_another_version_or_flavour_gives_way_module_by_module(machine: Machine, line: str) -> None:
    holds(machine, line, VERSION.format("535.261.03"))
    done = machine.run(load_script(LOAD))
    assert done.returncode == 0, done.stdout
    unloaded = [call.split()[1] for call in machine.calls if call.startswith("rmmod")]
    assert unloaded == ["nvidia_peermem", "nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia"]
    assert machine.bus.now(GPU) == machine.bus.now(SECOND) == "nvidia"


def test_the_pinned_driver_is_not_unloaded(machine: Machine) -> None:
    holds(machine, VERSION.format("535.261.03"), "")
    assert machine.run(load_script(LOAD)).returncode == 0
    assert not [call for call in machine.calls if call.startswith(("rmmod", "systemctl stop"))]


@pytest.mark.parametrize("sticks", [False, True])
def test_nvidias_daemon_rests_meanwhile_and_starts_whatever_comes_of_it(
    machine: Machine, sticks: bool
) -> None:
    holds(machine, VERSION.format("550.163.01"), VERSION.format("535.261.03"), sticks)
    done = machine.run(load_script(LOAD))
    calls = machine.calls
    stopped = calls.index("systemctl stop nvidia-persistenced.service")
    assert stopped < calls.index("rmmod nvidia")
    assert done.returncode == (4 if sticks else 0)
    assert stopped < calls.index("systemctl start nvidia-persistenced.service")
    assert ("modprobe nvidia" in calls) is not sticks
    assert not (machine.root / "daemons").exists()
