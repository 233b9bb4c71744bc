"""Rows of what keeps a GPU from being switched while the machine runs: each one fires, and does not fire."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checks.bdf import Bdf
from provision.host.boot import Module, Opener
from provision.host.release.reasons import ROWS, Look
from provision.host.view import PciFunction

GPU = PciFunction(
    Bdf.parse("42:00.0"),
    "0x2230",
    "0x030000",
    "vfio-pci",
    "25",
    None,
    config="de103022",
    power_state="D3hot",
    bar1=64 << 30,
)
PIN = ("580.159.04", "open")
LOOK = Look("quiet", "6.1.0-50-amd64", ("6.1.0-50-amd64",), {}, (), "0 simpledrmdrmfb\n", (), None, PIN)
OLD = replace(LOOK, driver=("550.163.01", "open"))
PERSISTENCED = Opener(77, "/dev/nvidia0", "nvidia-persistenced")
WRITER = Opener(88, "/sys/bus/pci/drivers/vfio-pci/unbind", "sh -c echo 0000:42:00.0 > unbind")
XID = "[12346.0] NVRM: Xid (PCI:{}): {}, GPU recovery action changed from 0x0 (None) to {}"
REBOOT = "0x2 (Node Reboot Required)"
NOUVEAU = replace(GPU, driver="nouveau")
BLACKWELL = replace(GPU, device="0x2bb1")

REMOVING = "NVRM: Attempting to remove device 0000:42:00.0 with non-zero usage count!"
REMOVED = "NVRM: Continuing with GPU removal for device 0000:42:00.0"
AFTER = "NVRM: Xid (PCI:0000:42:00): 154, GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)"


def said(*lines: str) -> Look:
    return replace(LOOK, kernel_log=tuple(f"[ 7001.000000] {line}" for line in lines))


FIRES: list[tuple[str, Look, PciFunction]] = [
    ("config-ff", LOOK, replace(GPU, config="ffffffff")),
    ("d3cold", LOOK, replace(GPU, power_state="D3cold")),
    ("nouveau-console", LOOK, replace(NOUVEAU, boot_vga=True)),
    ("nouveau-console", replace(LOOK, framebuffers="0 nouveaudrmfb\n"), NOUVEAU),
    ("other-driver-in-use", replace(OLD, openers=(PERSISTENCED,)), GPU),
    ("other-driver-in-use", replace(OLD, modules={"nvidia": Module("nvidia", 3, ("nvidia_uvm",))}), GPU),
    ("other-driver-in-use", replace(LOOK, driver=(PIN[0], "proprietary"), openers=(PERSISTENCED,)), GPU),
    ("d3cold", LOOK, replace(GPU, power_state="unknown")),
    ("d3cold", said("vfio-pci 0000:42:00.0: not ready 65535ms after resume; giving up"), GPU),
    (
        "d3cold",
        said("vfio-pci 0000:42:00.0: Unable to change power state from D3cold to D0, device lost"),
        GPU,
    ),
    ("bar1-zero", LOOK, replace(GPU, bar1=0)),
    ("bar1-zero", said("NVRM: BAR1 is 0M @ 0x0 (PCI:0000:42:00.0)"), replace(GPU, driver=None)),
    ("blackwell-after-vm", LOOK, BLACKWELL),
    ("blackwell-after-vm", said("vfio-pci 0000:42:00.0: reset done"), replace(BLACKWELL, driver=None)),
    ("xid-154", said(XID.format("0000:42:00", 154, REBOOT)), GPU),
    ("unbind-stuck", replace(LOOK, openers=(WRITER,)), GPU),
    ("unbind-stuck", said(REMOVING), replace(GPU, driver="nvidia")),
    ("unbind-stuck", LOOK, replace(GPU, locked=True)),
    ("module-blacklist", replace(LOOK, running_cmdline="quiet module_blacklist=radeon,nvidia"), GPU),
    ("kernel-without-modules", replace(LOOK, module_trees=("6.1.0-51-amd64",)), GPU),
]
QUIET: list[tuple[str, Look, PciFunction]] = [
    ("config-ff", LOOK, replace(GPU, config="de10ffff")),
    ("d3cold", LOOK, GPU),
    ("nouveau-console", LOOK, NOUVEAU),
    ("nouveau-console", replace(LOOK, framebuffers="0 nouveaudrmfb\n"), replace(GPU, boot_vga=True)),
    ("other-driver-in-use", OLD, GPU),
    ("other-driver-in-use", replace(OLD, openers=(WRITER,)), GPU),
    ("other-driver-in-use", replace(LOOK, driver=PIN, openers=(PERSISTENCED,)), GPU),
    ("other-driver-in-use", replace(OLD, modules={"nvidia": Module("nvidia", 1, ("nvidia_uvm",))}), GPU),
    ("d3cold", LOOK, replace(GPU, power_state="unknown", driver=None)),
    ("d3cold", said("vfio-pci 0000:43:00.0: not ready 65535ms after resume; giving up"), GPU),
    ("d3cold", said("vfio-pci 0000:42:00.0: not ready 1023ms after resume; waiting"), GPU),
    ("bar1-zero", said("NVRM: BAR1 is 0M @ 0x0 (PCI:0000:43:00.0)"), GPU),
    ("bar1-zero", LOOK, GPU),
    ("bar1-zero", LOOK, replace(GPU, bar1=None)),
    ("blackwell-after-vm", LOOK, replace(BLACKWELL, driver=None)),
    ("blackwell-after-vm", said("vfio-pci 0000:43:00.0: reset done"), replace(BLACKWELL, driver=None)),
    ("blackwell-after-vm", said("vfio-pci 0000:42:00.0: reset done"), replace(BLACKWELL, driver="nvidia")),
    ("blackwell-after-vm", LOOK, GPU),
    ("xid-154", said(XID.format("0000:42:00", 154, REBOOT), AFTER), GPU),
    ("unbind-stuck", said(REMOVING, REMOVED), replace(GPU, driver=None)),
    ("unbind-stuck", said(REMOVING.replace("42", "8a")), replace(GPU, driver="nvidia")),
    ("xid-154", replace(LOOK, kernel_log=(XID.format("0000:43:00", 154, REBOOT),)), GPU),
    ("xid-154", replace(LOOK, kernel_log=(XID.format("0000:42:00", 154, "0x0 (None)"),)), GPU),
    ("xid-154", replace(LOOK, kernel_log=(XID.format("0000:42:00", 79, REBOOT),)), GPU),
    ("unbind-stuck", replace(LOOK, openers=(PERSISTENCED,)), GPU),
    (
        "module-blacklist",
        replace(LOOK, running_cmdline="module_blacklist=radeon modprobe.blacklist=nvidia"),
        GPU,
    ),
    ("kernel-without-modules", LOOK, GPU),
]
BY_ID = {row.id: row for row in ROWS}


@pytest.mark.parametrize(("row", "look", "gpu"), FIRES)
def test_a_row_says_what_was_seen(row: str, look: Look, gpu: PciFunction) -> None:
    assert BY_ID[row].seen(look, gpu)
    assert not [other.id for other in ROWS if other.id != row and other.seen(look, gpu)]


@pytest.mark.parametrize(("row", "look", "gpu"), QUIET)
def test_a_row_keeps_quiet_without_its_sign(row: str, look: Look, gpu: PciFunction) -> None:
    assert BY_ID[row].seen(look, gpu) is None


def test_every_row_has_a_case_of_both_kinds_and_a_source() -> None:
    assert set(BY_ID) == {row for row, _, _ in FIRES} == {row for row, _, _ in QUIET}
    assert len(BY_ID) == len(ROWS)
    assert all(row.why and row.next_step and row.source for row in ROWS)
