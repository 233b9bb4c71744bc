"""What every boot does for the GPUs: the script by a real shell over a small sysfs. Nodes need root: their making is
looked at through a double of mknod."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from provision.templates import render
from tests.unit.guest.doubles import Doubles

A, B, C = "0000:01:00.0", "0000:02:00.0", "0000:03:00.0"
DEVICES = "Character devices:\n  1 mem\n195 nvidia\n511 nvidia-uvm\n\nBlock devices:\n  8 nvidia\n"


class Machine:
    """``gpus`` and their drivers ("" is none). modprobe does as the kernel: nvidia takes each free GPU."""

    def __init__(self, folder: Path, doubles: Doubles) -> None:
        self.root, self.doubles = folder / "root", doubles
        self.pci = self.root / "sys/bus/pci"
        for made in ("sys/bus/pci/devices", "sys/bus/pci/drivers/nvidia", "proc/driver/nvidia/gpus", "dev"):
            (self.root / made).mkdir(parents=True)
        (self.pci / "drivers_probe").write_text("")
        (self.root / "proc/devices").write_text(DEVICES)
        doubles.answer("udevadm", '"settle --timeout=30") ;;')
        take = (
            f'for d in {self.pci}/devices/*; do [ ! -e $d/driver ] && case $(cat $d/driver_override) in ""|nvidia) '
            f"ln -s {self.pci}/drivers/nvidia $d/driver;; esac; done; true"
        )
        doubles.answer("modprobe", f"nvidia) {take};;", "nvidia-uvm) ;;")
        doubles.answer("mknod", '"-m 0666 "*) : >"$3.made"; ln -sf "$3.made" "$3";;')

    def gpu(self, bdf: str, driver: str = "", minor: int | None = None) -> None:
        device = self.pci / "devices" / bdf
        device.mkdir()
        (device / "driver_override").write_text("")
        if driver:
            (self.pci / "drivers" / driver).mkdir(exist_ok=True)
            (device / "driver").symlink_to(self.pci / "drivers" / driver)
        if minor is not None:
            entry = self.root / "proc/driver/nvidia/gpus" / bdf
            entry.mkdir()
            (entry / "information").write_text(f"Model: \t NVIDIA RTX A6000\nDevice Minor: \t {minor}\n")

    def driver(self, bdf: str) -> str:
        link = self.pci / "devices" / bdf / "driver"
        return link.readlink().name if link.is_symlink() else ""

    def override(self, bdf: str) -> str:
        return (self.pci / "devices" / bdf / "driver_override").read_text().strip()

    def boot(self, wanted: str, kept: str = "") -> tuple[int, str]:
        script = render("kpro-devices.sh.j2", machine="box", wanted=wanted, kept=kept, root=str(self.root))
        environment = {**os.environ, "PATH": f"{self.doubles.folder}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["sh", "-c", script],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    @property
    def nodes(self) -> list[str]:
        """Each mknod, as ``name major minor``."""
        made = [line.split() for line in self.doubles.asked if line.startswith("mknod")]
        return [f"{Path(words[3]).name.removesuffix('.kpro')} {words[5]} {words[6]}" for words in made]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "bin").mkdir()
    return Machine(tmp_path, Doubles(tmp_path / "bin"))


def test_every_named_gpu_gets_the_driver_and_its_node_by_its_own_minor(machine: Machine) -> None:
    machine.gpu(A, minor=1)
    machine.gpu(B, minor=0)
    code, said = machine.boot(f"{A} {B}")
    assert code == 0, said
    assert [machine.driver(bdf) for bdf in (A, B)] == ["nvidia", "nvidia"]
    assert machine.nodes == [
        "nvidia1 195 1",
        "nvidia0 195 0",
        "nvidiactl 195 255",
        "nvidia-uvm 511 0",
        "nvidia-uvm-tools 511 1",
    ]


def test_a_gpu_kept_for_virtual_machines_is_held_before_the_driver_is_loaded(machine: Machine) -> None:
    machine.gpu(A, minor=0)
    machine.gpu(B)
    code, said = machine.boot(A, kept=B)
    assert code == 0, said
    assert (machine.driver(B), machine.override(B)) == ("", "vfio-pci")


def test_a_kept_gpu_that_the_driver_has_already_is_told_and_left(machine: Machine) -> None:
    machine.gpu(A, minor=0)
    machine.gpu(B, "nvidia")
    code, said = machine.boot(A, kept=B)
    assert code == 1
    assert f"{B} is kept for virtual machines and nvidia has it" in said
    assert machine.driver(B) == "nvidia"


def test_a_gpu_on_another_driver_is_named_and_left_and_the_others_are_served(machine: Machine) -> None:
    machine.gpu(A, "vfio-pci")
    machine.gpu(B, minor=0)
    code, said = machine.boot(f"{A} {B}")
    assert code == 1
    assert f"{A} is on vfio-pci" in said
    assert machine.driver(A) == "vfio-pci"
    assert "nvidia0 195 0" in machine.nodes


def test_without_any_gpu_to_serve_no_driver_is_loaded(machine: Machine) -> None:
    machine.gpu(A, "vfio-pci")
    code, said = machine.boot(f"{A} {C}")
    assert code == 1
    assert f"{C} is not on the bus" in said
    assert not any(line.startswith("modprobe") for line in machine.doubles.asked)


def test_a_gpu_that_the_driver_refuses_is_named_and_its_override_is_cleared(machine: Machine) -> None:
    machine.gpu(A)
    machine.doubles.answer("modprobe", "nvidia) ;;", "nvidia-uvm) ;;")
    code, said = machine.boot(A)
    assert code == 1
    assert f"{A} did not get the nvidia driver" in said
    assert (machine.pci / "drivers_probe").read_text() == A
    assert machine.override(A) == "", "left behind it would keep a virtual machine from taking the GPU"


def test_a_module_that_cannot_be_loaded_is_quoted(machine: Machine) -> None:
    machine.gpu(A)
    machine.doubles.answer(
        "modprobe", 'nvidia) echo "Key was rejected by service"; exit 1;;', "nvidia-uvm) ;;"
    )
    code, said = machine.boot(A)
    assert code == 1
    assert "<3>modprobe nvidia: Key was rejected by service" in said


def test_a_regular_file_in_the_place_of_a_node_is_named_and_kept(machine: Machine) -> None:
    machine.gpu(A, minor=0)
    (machine.root / "dev/nvidia0").write_text("what?")
    code, said = machine.boot(A)
    assert code == 1
    assert "nvidia0 is a regular file of 5 bytes" in said
    assert (machine.root / "dev/nvidia0").read_text() == "what?"


def test_nvidias_own_tool_is_called_twice_and_what_it_does_not_make_is_made(machine: Machine) -> None:
    machine.gpu(A, minor=0)
    machine.doubles.answer("nvidia-modprobe", '"-c 0") ;;', '"-u -c 0") exit 1;;')
    code, said = machine.boot(A)
    assert code == 0, said
    assert [line for line in machine.doubles.asked if line.startswith("nvidia-modprobe")] == [
        "nvidia-modprobe -c 0",
        "nvidia-modprobe -u -c 0",
    ]
    assert len(machine.nodes) == 4


def test_without_the_majors_no_node_is_guessed(machine: Machine) -> None:
    machine.gpu(A, minor=0)
    (machine.root / "proc/devices").write_text(
        "Character devices:\n195 nvidia-frontend\n\nBlock devices:\n 9 nvidia-uvm\n"
    )
    code, said = machine.boot(A)
    assert code == 1
    assert machine.nodes == ["nvidia0 195 0", "nvidiactl 195 255"]
    assert "nvidia-uvm: /proc/devices has no major" in said
