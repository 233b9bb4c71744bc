"""Devices that are handed to QEMU past Proxmox's and libvirt's own settings: in every spelling of -device."""

from __future__ import annotations

import pytest

from tests.unit.vms.tree import Tree

MINE = [
    "vfio-pci,host=42:00.0",
    "'vfio-pci,host=0000:42:00.0,multifunction=on'",
    '"vfio-pci,id=x,host=42:00.1"',
    "driver=vfio-pci,host=42:00.0",
    "vfio-pci-nohotplug,host=42:00.0",
    "vfio-pci,sysfsdev=/sys/bus/pci/devices/0000:42:00.0",
    "vfio-pci,sysfsdev=/sys/devices/pci0000:40/0000:40:01.1/0000:42:00.0,id=g",
    '\'{"driver":"vfio-pci","host":"0000:42:00.0","id":"g"}\'',
    '\'{"id": "g", "driver": "vfio-pci", "sysfsdev": "/sys/bus/pci/devices/0000:42:00.0"}\'',
    "vfio-pci,host=0000:61:00.0 -device vfio-pci,host=42:00.0",
]
NOT_MINE = [
    "vfio-pci,host=61:00.0",
    "vfio-pci,sysfsdev=/sys/bus/mdev/devices/83b8f4f2-509f-382f-3c1e-e6bfe0fa1001",
    "virtio-net-pci,host=42:00.0",
    '\'{"driver":"virtio-net-pci","host":"0000:42:00.0"}\'',
    "usb-host,hostbus=42,hostaddr=1",
]


@pytest.mark.parametrize("device", MINE)
def test_arguments_of_a_machine_name_the_gpu(tree: Tree, device: str) -> None:
    assert "virtual machine 105 is stopped and lists it" in tree.vm(105, f"args: -device {device}\n").refused


@pytest.mark.parametrize("device", NOT_MINE)
def test_arguments_that_name_another_device_hold_nothing(tree: Tree, device: str) -> None:
    assert tree.vm(105, f"args: -device {device}\n").plan.refusals == ()


def test_an_address_that_is_none_is_told_and_ends_nothing(tree: Tree) -> None:
    assert "names no device" in tree.vm(105, "args: -device vfio-pci,host=1:2:3:4\n").notes


@pytest.mark.parametrize(
    ("value", "refused"), [("vfio-pci,host=42:00.0", True), ("vfio-pci,host=61:00.0", False)]
)
def test_an_argument_of_libvirt_s_own_namespace_names_the_gpu(tree: Tree, value: str, refused: bool) -> None:
    tree.put(
        "/etc/libvirt/qemu/win.xml",
        "<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><name>win</name>"
        f"<qemu:commandline><qemu:arg value='-device'/>\n<qemu:arg value='{value}'/></qemu:commandline></domain>",
    )
    assert ("/etc/libvirt/qemu/win.xml:2" in tree.refused) is refused
