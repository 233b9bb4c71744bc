"""udev rules and driverctl's files that keep functions from their own driver: keys, events, any foreign driver."""

from __future__ import annotations

import pytest

from provision.host.release import driverctl, udev
from tests.unit.holders.test_families import AUDIO, GPU, TARGET, TWIN

B = 'ATTR{driver_override}="vfio-pci"'
NEW = "10de 2230 > /sys/bus/pci/drivers/vfio-pci/new_id"


def held(rule: str) -> list[bool]:
    found = udev.find("/x", f"{rule}\n")
    return [any(holder.holds(one) for holder in found) for one in (GPU, AUDIO, TWIN)]


@pytest.mark.parametrize(
    ("rule", "gpu", "audio", "twin"),
    [
        ('KERNEL=="0000:42:00.0", ATTR{driver_override}="none"', 1, 0, 0),
        ('KERNEL=="0000:42:00.0", ATTR{driver_override}="uio_pci_generic"', 1, 0, 0),
        ('KERNEL=="0000:42:00.0", ATTR{driver_override}="nouveau"', 1, 0, 0),
        ('KERNEL=="0000:42:00.1", ATTR{driver_override}="snd_hda_intel"', 0, 0, 0),
        ('KERNEL=="0000:42:00.0", ATTR{driver_override}=""', 0, 0, 0),
        (f'ATTR{{vendor}}=="0x10DE", {B}', 0, 0, 0),
        (f'ATTR{{vendor}}==i"0x10DE", ATTR{{device}}=="0x2230", {B}', 1, 0, 1),
        (f'ENV{{PCI_CLASS}}=="30000", {B}', 1, 0, 1),
        (f'ENV{{PCI_CLASS}}=="403*", {B}', 0, 1, 0),
        (f'DEVPATH=="*/0000:42:00.?", {B}', 1, 1, 0),
        (f'DEVPATH=="/devices/pci0000:60/0000:60:01.1/0000:61:00.0", {B}', 0, 0, 1),
        (f'ENV{{MODALIAS}}=="pci:v000010DEd*bc03*", {B}', 1, 0, 1),
        (f'ACTION=="remove", KERNEL=="0000:42:00.0", {B}', 0, 0, 0),
        (f'ACTION=="add|change", KERNEL=="0000:42:00.0", {B}', 1, 0, 0),
        (f'ACTION!="remove", KERNEL=="0000:42:00.0", {B}', 1, 0, 0),
        (f'SUBSYSTEM=="usb", KERNEL=="1-1", RUN+="/bin/sh -c \'echo {NEW}\'"', 1, 0, 1),
        (f'SUBSYSTEM=="module", KERNEL=="vfio_pci", RUN+="/bin/sh -c \'echo {NEW}\'"', 1, 0, 1),
        ('SUBSYSTEM=="drivers", KERNEL=="vfio-pci", ATTR{new_id}="10de 2230"', 1, 0, 1),
        ('SUBSYSTEM=="drivers", KERNEL=="vfio-pci", RUN+="/usr/local/bin/vfio-bind"', 1, 1, 1),
        ('SUBSYSTEM=="net", KERNEL=="eth0", RUN+="/usr/local/bin/vfio-bind"', 0, 0, 0),
        ('KERNEL=="0000:61:00.0", RUN+="/sbin/driverctl set-override 0000:42:00.0 vfio-pci"', 1, 0, 1),
        ('KERNEL=="0000:42:00.0", ENV{SYSTEMD_WANTS}+="vfio-bind@%k.service"', 1, 0, 0),
        ('KERNEL=="0000:42:00.0", ENV{SYSTEMD_WANTS}+="driverctl@%k.service"', 0, 0, 0),
    ],
)
def test_what_a_rule_takes(rule: str, gpu: int, audio: int, twin: int) -> None:
    assert held(rule) == [bool(gpu), bool(audio), bool(twin)]
    left = udev.clean(f"{rule}\n", TARGET)
    assert (left != f"{rule}\n") is bool(gpu or audio)
    assert not any(held(left)[:2])


@pytest.mark.parametrize(
    ("driver", "gone"),
    [
        ("vfio-pci\n", True),
        ("none\n", True),
        ("nouveau", True),
        ("uio_pci_generic\n", True),
        ("pci-pf-stub\n", True),
        ("nvgrace_gpu_vfio_pci\n", True),
        ("nvidia\n", False),
        ("\n", False),
    ],
)
def test_an_override_of_driverctl_by_any_other_driver_goes(driver: str, gone: bool) -> None:
    path = "/etc/driverctl.d/pci-0000:42:00.0"
    assert driverctl.clean(path, driver, TARGET) == (None if gone else driver)
    assert driverctl.clean(path.replace("42", "61"), driver, TARGET) == driver


def test_a_companion_s_own_driver_is_no_foreign_one() -> None:
    path = "/etc/driverctl.d/pci-0000:42:00.1"
    assert driverctl.clean(path, "snd_hda_intel\n", TARGET) == "snd_hda_intel\n"
    assert driverctl.clean(path, "none\n", TARGET) is None
