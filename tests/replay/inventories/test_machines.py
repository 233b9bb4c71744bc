"""The recorded machines are shaped like sysfs and procfs: what is told twice there agrees."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from checks.bdf import Bdf
from provision.host import view
from provision.host.observe import observe_tree
from provision.planner import requests
from provision.spec import Machine

TREES = sorted((Path(__file__).resolve().parent.parent / "machines").iterdir())
GPUS = [Bdf.parse("42:00.0"), Bdf.parse("61:00.0")]

pytestmark = pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)


def test_every_link_leads_to_something_inside_the_tree(tree: Path) -> None:
    for path in tree.rglob("*"):
        if path.is_symlink():
            assert path.exists(), path
            assert path.resolve().is_relative_to(tree), path


def test_every_device_of_the_bus_is_told_the_same_from_all_sides(tree: Path) -> None:
    devices = list((tree / "sys/bus/pci/devices").iterdir())
    assert devices
    for device in devices:
        assert str(Bdf.parse(device.name)) == device.name
        assert device.is_symlink()
        assert re.fullmatch(r"0x[0-9a-f]{4}\n", (device / "vendor").read_text())
        assert re.fullmatch(r"0x[0-9a-f]{4}\n", (device / "device").read_text())
        assert re.fullmatch(r"0x[0-9a-f]{6}\n", (device / "class").read_text())
        if (device / "driver").exists():
            driver = (device / "driver").resolve()
            assert driver.parent.name == "drivers"
            assert (driver / device.name).resolve() == device.resolve()
        if (device / "iommu_group").exists():
            group = (device / "iommu_group").resolve()
            assert (group / "devices" / device.name).resolve() == device.resolve()
            assert (group / "type").read_text() == "identity\n"


def test_lspci_and_sysfs_name_the_same_drivers(tree: Path) -> None:
    text = (tree / ".kpro/cmd/lspci-Dnnk.out").read_text()
    blocks = re.split(r"\n(?=\S)", text)
    for block in filter(str.strip, blocks):
        bdf = block.split()[0]
        vendor, device = re.findall(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]", block.splitlines()[0])[0]
        folder = tree / "sys/bus/pci/devices" / bdf
        assert (folder / "vendor").read_text().strip() == f"0x{vendor}"
        assert (folder / "device").read_text().strip() == f"0x{device}"
        used = re.search(r"Kernel driver in use: (\S+)", block)
        assert (folder / "driver").resolve().name == (used[1] if used else "driver")


def test_every_command_has_an_output_and_an_exit_code(tree: Path) -> None:
    folder = tree / ".kpro" / "cmd"
    outputs = {path.stem for path in folder.glob("*.out")} - {"tools"}
    assert {path.stem for path in folder.glob("*.rc")} == outputs
    for name in outputs:
        assert (folder / f"{name}.rc").read_text().strip().isdecimal()
    kernel = (folder / "uname-r.out").read_text().strip()
    assert (tree / "proc/sys/kernel/osrelease").read_text().strip() == kernel
    tools = (folder / "tools.out").read_text().split("\n")[:-1]
    assert tools == sorted(set(tools))
    assert ("pct" in tools) == (tree / "etc/pve").exists()


def test_the_planner_sees_the_machine_that_its_name_promises(tree: Path) -> None:
    machine = Machine(name="any")
    snapshot = observe_tree(tree, requests(machine))
    gpus = [function for function in view.pci_functions(snapshot) if function.is_gpu]
    if tree.name == "plain":
        assert gpus == []
        assert view.driver(snapshot) is None
    else:
        assert [gpu.bdf for gpu in gpus] == GPUS
        locked = tree.name == "kpro5-locked"
        assert {gpu.driver for gpu in gpus} == {"vfio-pci" if locked else "nvidia"}
        assert view.driver(snapshot) == (None if locked else ("580.159.04", "open"))
        assert list(view.minors(snapshot)) == ([] if locked else GPUS)
    assert 22 in view.listeners(snapshot)
