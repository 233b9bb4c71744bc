"""A GPU's way to vfio-pci on a small bus, and the way back of what a hand-over changed in guests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from checks.bdf import Bdf
from provision.acts import assign
from provision.assign.handover import Give, Given
from provision.host.changes import Change, undo_script
from tests.conftest import ROOT
from tests.unit.run.kernel import Machine

GPU, AUDIO, OTHER = "0000:02:00.0", "0000:02:00.1", "0000:01:00.0"
GROUP = 1_000_000 + 2 * os.getpid()
"""Several processes of tests look at who has a group open on this machine: each has its own."""

DOUBLES = ROOT / "tests" / "doubles" / "proxmox"
CONF = "boot: order=scsi0\nhostpci0: 0000:02:00,pcie=1\nname: workstation\n"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    machine.bus.function(GPU, "nvidia", group=GROUP)
    machine.bus.function(AUDIO, "snd_hda_intel", group=GROUP)
    machine.bus.function(OTHER, "nvidia", group=GROUP + 1)
    # No service of the machine is active but those that a test names.
    machine.program("systemctl", 'case "$*" in *is-active*) exit 3;; esac')
    (machine.root / "module" / "nvidia").mkdir(parents=True)
    yield machine
    machine.bus.let_go()


def give(seconds: int = 20) -> str:
    functions = (Given(Bdf.parse(GPU), "nvidia", "9"), Given(Bdf.parse(AUDIO), "snd_hda_intel", "9"))
    script = assign.give_script(Give(Bdf.parse(GPU), functions, (Bdf.parse(OTHER),)))
    return script.replace(f'unbind "$f" {assign.UNBIND_SECONDS}', f'unbind "$f" {seconds}')


def active(machine: Machine, unit: str) -> None:
    machine.program(
        "systemctl", f'case "$*" in "is-active {unit}"*) echo active;; *is-active*) exit 3;; esac'
    )


def test_all_functions_of_the_slot_are_on_vfio_pci_and_stay_there(machine: Machine) -> None:
    done = machine.run(give())
    assert done.returncode == 0, done.stderr
    assert [machine.bus.now(bdf) for bdf in (GPU, AUDIO, OTHER)] == ["vfio-pci", "vfio-pci", "nvidia"]
    assert [machine.bus.override(bdf) for bdf in (GPU, AUDIO, OTHER)] == ["vfio-pci", "vfio-pci", ""]


def test_a_second_time_nothing_moves(machine: Machine) -> None:
    assert machine.run(give()).returncode == 0
    done = machine.run(give())
    assert done.returncode == 0, done.stderr
    assert "was taken from" not in done.stdout


def test_without_the_module_nothing_is_let_go(machine: Machine) -> None:
    active(machine, "nvidia-persistenced.service")
    machine.program("modprobe", 'echo "modprobe: FATAL: Module vfio-pci not found" >&2; exit 1')
    done = machine.run(give())
    assert done.returncode == 1
    assert "vfio-pci cannot be loaded, nothing was touched: modprobe: FATAL" in done.stderr
    assert [machine.bus.now(bdf) for bdf in (GPU, AUDIO)] == ["nvidia", "snd_hda_intel"]
    assert "systemctl stop nvidia-persistenced.service" not in machine.calls


def test_a_gpu_that_is_on_another_driver_meanwhile_is_left(machine: Machine) -> None:
    (machine.bus.folder / "devices" / GPU / "driver").unlink()
    (machine.bus.folder / "devices" / GPU / "driver").symlink_to(machine.bus.folder / "drivers" / "nouveau")
    done = machine.run(give())
    assert done.returncode == 1
    assert f"{GPU} changed under us: it is on nouveau now" in done.stderr
    assert machine.bus.now(AUDIO) == "snd_hda_intel"


def test_who_has_it_open_is_named_and_nothing_is_let_go(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "vfio").mkdir()
    node = tmp_path / "vfio" / str(GROUP)
    node.touch()
    with node.open():
        done = machine.run(give())
    assert done.returncode == 1
    assert f"{GPU} is in use, nothing was touched: pid" in done.stderr
    assert machine.bus.now(GPU) == "nvidia"


def test_an_unbind_that_blocks_leaves_the_functions_after_it(machine: Machine) -> None:
    machine.bus.held(GPU)
    done = machine.run(give(seconds=1))
    assert done.returncode == 1
    assert "did not let go of it" in done.stderr
    assert machine.bus.now(AUDIO) == "snd_hda_intel"


def test_a_function_that_vfio_pci_refuses_is_named(machine: Machine) -> None:
    machine.bus.refuses(AUDIO, "vfio-pci")
    done = machine.run(give())
    assert done.returncode == 1
    assert f"{AUDIO} was not taken by vfio-pci: it is on no driver" in done.stderr


def test_services_that_hold_every_gpu_stop_for_it_and_run_again_for_the_others(machine: Machine) -> None:
    active(machine, "nvidia-persistenced.service")
    assert machine.run(give()).returncode == 0
    calls = [call for call in machine.calls if "is-active" not in call]
    assert "systemctl stop nvidia-persistenced.service" in calls
    assert "systemctl start nvidia-persistenced.service" in calls


def test_they_stay_stopped_where_no_gpu_is_left_on_the_driver(machine: Machine) -> None:
    active(machine, "nvidia-persistenced.service")
    (machine.bus.folder / "drivers" / "nvidia" / OTHER).unlink()
    (machine.bus.folder / "devices" / OTHER / "driver").unlink()
    assert machine.run(give()).returncode == 0
    assert "systemctl start nvidia-persistenced.service" not in machine.calls


def test_they_run_again_after_a_hand_over_that_failed(machine: Machine) -> None:
    active(machine, "nvidia-persistenced.service")
    machine.bus.refuses(GPU, "vfio-pci")
    assert machine.run(give()).returncode == 1
    assert "systemctl start nvidia-persistenced.service" in machine.calls


@pytest.fixture
def proxmox(machine: Machine, tmp_path: Path) -> Path:
    """The programs of Proxmox, with VM 130 and container 202; gives the folder of their state."""
    state = tmp_path / "proxmox"
    subprocess.run(
        [sys.executable, "-c", f"import frame, pathlib; frame.install(pathlib.Path({str(machine.programs)!r}), "
         f"pathlib.Path({str(state)!r}))"], cwd=DOUBLES, check=True,
    )  # fmt: skip
    (state / "pve/nodes/pve/qemu-server").mkdir(parents=True)
    (state / "pve/nodes/pve/qemu-server/130.conf").write_text(CONF)
    (state / "pve/lxc/202.conf").write_text("arch: amd64\nonboot: 0\n")
    return state


def conf(proxmox: Path) -> str:
    return (proxmox / "pve/nodes/pve/qemu-server/130.conf").read_text()


def key(machine: Machine, written: str, before: str, *words: str, name: str = "hostpci0") -> tuple[int, str]:
    change = Change("key", "r1", name, written, id="130", folder="qm", before=before)
    done = machine.run(undo_script((change,)), *words)
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


def test_a_key_that_was_taken_out_is_put_back_as_it_was(machine: Machine, proxmox: Path) -> None:
    (proxmox / "pve/nodes/pve/qemu-server/130.conf").write_text("name: workstation\n")
    assert "would put hostpci0" in key(machine, "", "host=0000:02:00,pcie=1", "--look")[1]
    assert "hostpci0" not in conf(proxmox)
    assert key(machine, "", "host=0000:02:00,pcie=1")[0] == 0
    assert "hostpci0: host=0000:02:00,pcie=1\n" in conf(proxmox)
    code, said = key(machine, "", "0000:02:00,pcie=1")
    assert (code, "as before already" in said) == (0, True)


def test_a_key_that_was_set_goes_again(machine: Machine, proxmox: Path) -> None:
    assert key(machine, "0000:02:00,pcie=1", "")[0] == 0
    assert "hostpci0" not in conf(proxmox)
    assert "name: workstation" in conf(proxmox)


def test_a_running_virtual_machine_is_not_edited_on_the_way_back_either(
    machine: Machine, proxmox: Path
) -> None:
    (proxmox / "vm").mkdir()
    (proxmox / "vm/130").write_text("1\n")
    code, said = key(machine, "0000:02:00,pcie=1", "")
    assert (code, "shut it down" in said) == (1, True)
    assert conf(proxmox) == CONF


def test_a_key_that_somebody_changed_since_is_left(machine: Machine, proxmox: Path) -> None:
    code, said = key(machine, "0000:09:00", "", "r1")
    assert (code, "changed by somebody else" in said) == (1, True)
    assert conf(proxmox) == CONF


def test_a_virtual_machine_that_is_gone_is_said(machine: Machine, proxmox: Path) -> None:
    (proxmox / "pve/nodes/pve/qemu-server/130.conf").unlink()
    code, said = key(machine, "0000:02:00,pcie=1", "")
    assert (code, "does not exist" in said) == (1, True)


def test_a_proxmox_container_runs_again_when_its_run_alone_is_taken_back(
    machine: Machine, proxmox: Path
) -> None:
    changes = (
        Change("running", "r1", id="202"),
        Change("key", "r1", "onboot", "0", id="202", folder="pct", before="1"),
    )
    assert machine.run(undo_script(changes)).returncode == 0
    assert not (proxmox / "run/202").exists()
    assert "onboot: 1" in (proxmox / "pve/lxc/202.conf").read_text()
    assert machine.run(undo_script(changes), "r1").returncode == 0
    assert (proxmox / "run/202").exists()
