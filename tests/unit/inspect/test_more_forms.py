"""Kernel logs under every time stamp, and lines of configuration that look as if they did something."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checks.bdf import Bdf
from provision.host import boot
from provision.host.release import log
from provision.inspect import kernel_log
from tests.unit.inspect.test_texts import tree
from tests.unit.plan.seen import Seen

GSP = (
    "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:1b38)",
    "NVRM: installed in this system is not supported by open",
    "NVRM: nvidia.ko because it does not include the required GPU",
    "NVRM: System Processor (GSP).",
)
API = (
    "NVRM: API mismatch: the client has the version 570.148.08, but",
    "NVRM: this kernel module has the version 570.148.06.  Please",
    "NVRM: make sure that this kernel module and all NVIDIA driver",
)
STAMPS = (
    "",
    "[  102.112233] ",
    "<3>[  102.112233] ",
    "[Mon Nov 30 12:00:00 2026] ",
    "[  +0.000010] ",
    "[  102.112233 <    0.000010>] ",
    "[Nov30 12:00] ",
    "[  102.112233] [    T1234] ",
    "kern  :err   : [  102.112233] ",
    "2026-11-30T12:00:00,123456+01:00 ",
    "Nov  3 12:00:00 pve kernel: ",
    "Nov 30 12:00:00.123456 pve kernel: ",
    "Nov 30 12:00:00 pve kernel: [  102.112233] ",
    "2026-11-30T12:00:00+0100 pve kernel: ",
    "2026-11-30T12:00:00.123456+01:00 pve kernel: [  102.112233] ",
    "Mon 2026-11-30 12:00:00 CET pve kernel: ",
    "[  102.112233] pve kernel: ",
    "1796000000.123456 pve kernel: ",
    "4,1234,102112233,-;",
)


def identities(text: str) -> set[str]:
    return {one.id for one in kernel_log.told(text)}


@pytest.mark.parametrize("stamp", STAMPS)
@pytest.mark.parametrize(("lines", "identity"), [(GSP, "log.no-gsp"), (API, "log.api-mismatch")])
def test_a_message_of_several_lines_is_one_under_every_stamp(
    stamp: str, lines: tuple[str, ...], identity: str
) -> None:
    blank = " " * max(len(stamp), 2)
    each = "".join(f"{stamp}{line}\n" for line in lines)
    after_the_first = f"{stamp}{lines[0]}\n" + "".join(f"{blank}{line}\n" for line in lines[1:])
    raw = stamp + r"\x0a".join(lines) + "\n"
    assert identities(each) == identities(after_the_first) == identities(raw) == {identity}
    apart = each.replace(lines[1], "NVRM: loading NVIDIA UNIX Open Kernel Module")
    assert identities(apart) == set()


LOST = (
    "Unable to change power state from D3cold to D0, device inaccessible",
    "can't change power state from D3cold to D0 (config space inaccessible)",
    "Refused to change power state, currently in D3",
    "Refused to change power state from D3hot to D0",
    "not ready 65535ms after bus reset; giving up",
)


@pytest.mark.parametrize("said", LOST)
def test_a_gpu_without_power_is_told_in_the_words_of_every_kernel(said: str) -> None:
    line = f"[ 7001.0] vfio-pci 0000:01:00.0: {said}\n"
    assert identities(line) == {"log.d3cold"}
    lines = boot.kernel_log(Seen().cmd("dmesg", line).snapshot)
    assert log.lost_power(lines, Bdf.parse("01:00.0"))
    assert log.lost_power(lines, Bdf.parse("02:00.0")) is None


def test_a_gpu_that_does_not_go_to_sleep_has_its_power() -> None:
    line = "[ 7001.0] nvidia 0000:01:00.0: Refused to change power state from D0 to D3hot\n"
    assert identities(line) == set()
    assert log.lost_power((line,), Bdf.parse("01:00.0")) is None


@pytest.mark.parametrize(
    ("line", "identity"),
    [
        ("NVRM: Xid (0000:06:00): 79, GPU has fallen off the bus.", "log.off-the-bus"),
        ("NVRM: No NVIDIA GPU found.", "log.no-devices-probed"),
        ("NVRM: No NVIDIA graphics adapter found!", "log.no-devices-probed"),
        ("AMD-Vi: Lazy IO/TLB flushing enabled", "log.iommu-amd"),
        ("AMD-Vi: Extended features (0x246577efa2254afa, 0x0): PPR NX GT", "log.iommu-amd"),
        ("modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.17.4-2-pve", "log.module-missing"),
        ("modprobe: FATAL: Module drbd not found in directory /lib/modules/6.17.4-2-pve", None),
        ("AMD-Vi: Completion-Wait loop timed out", None),
    ],
)  # fmt: skip
def test_a_line_gives_its_conclusion(line: str, identity: str | None) -> None:
    assert identities(f"[    1.0] {line}\n") == ({identity} if identity else set())


def findings(root: Path, **files: str) -> dict[str, dict[str, Any]]:
    return {one["id"]: one for one in tree(root, **files)["findings"] if one["kind"] != "note"}


@pytest.mark.parametrize(
    ("line", "typo"),
    [
        ("vfio-pci ids=10de:2230", True),
        ("vfio-pci.ids", True),
        ("vfio-pci.ids=0000:42:00.0", True),
        ("vfio-pci.ids=42:00.0", True),
        ("vfio-pci.ids=10de2230", True),
        ("vfio-pci.ids=42:00.0,10de:2230", False),
    ],
)
def test_a_parameter_without_an_id_is_told(line: str, typo: bool, tmp_path: Path) -> None:
    told = tree(tmp_path, proc__cmdline=f"root=x ro {line} quiet\n")
    assert ("cmdline.typo" in {one["id"] for one in told["findings"]}) is typo
    assert bool(told["host"]["command_line"]["binds"]) is not typo


@pytest.mark.parametrize(
    ("name", "text", "identity"),
    [
        ("etc__modprobe.d__x.conf", "options vfio-pci ids=0000:42:00.0\n", "modprobe.typo"),
        ("etc__modprobe.d__x.conf", "options vfio-pci ids='10de:2230'\n", "modprobe.typo"),
        ("etc__modprobe.d__x.conf", "options vfio-pci ids=10de:2230\n", None),
        ("etc__modules", "options vfio-pci ids=10de:2230\n", "list.typo"),
        ("etc__initramfs-tools__modules", "vfio_pci.ids=10de:2230\n", "list.typo"),
        ("etc__modules", "vfio_pci\n", None),
        ("etc__kernel__cmdline", "root=x quiet\nvfio-pci.ids=10de:2230\n", "cmdline.more-lines"),
        ("etc__kernel__cmdline", "\nroot=x quiet\n\n", None),
    ],
)
def test_a_line_without_effect_is_told(name: str, text: str, identity: str | None, tmp_path: Path) -> None:
    assert set(findings(tmp_path, **{name: text})) == ({identity} if identity else set())


@pytest.mark.parametrize(
    ("name", "text", "identity"),
    [
        ("dkms-build", "Error! Your kernel headers for kernel 6.17.4-2-pve cannot be found at /lib\n", "dkms.make-log"),
        ("apt", "Autoinstall on 7.0.2-7-pve failed for module(s) drbd(10).\n", "dkms.foreign-failed"),
        ("apt", "dpkg: error processing package nvidia-dkms-580 (--configure):\n", "dpkg.half-configured"),
        ("apt", "dpkg: error processing archive /x.deb (--unpack):\n", None),
    ],
)  # fmt: skip
def test_what_did_not_compile_is_told_by_few_words(
    name: str, text: str, identity: str | None, tmp_path: Path
) -> None:
    told = findings(tmp_path, **{f"cmd__{name}": text})
    assert identity in told if identity else not told
    assert "None" not in str([one["next"] + one["subject"] for one in told.values()])


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("  crw-rw-rw- 1 root root 195, 0 Nov 30 12:00 /dev/nvidia0\n", ["/dev/nvidia0"]),
        ("ls: cannot access '/dev/nvidia*': No such file or directory\n", []),
    ],
)
def test_device_nodes_with_blanks_before_them_and_none_at_all(
    text: str, paths: list[str], tmp_path: Path
) -> None:
    nodes = tree(tmp_path, **{"cmd__ls-l-dev-nvidia": text})["host"]["device_nodes"]
    assert [node["path"] for node in nodes] == paths


def test_a_module_that_cannot_be_unloaded_is_no_module_called_permanent(tmp_path: Path) -> None:
    told = tree(tmp_path, proc__modules="nvidia 56598528 1 [permanent], Live 0x0\n")
    assert told["host"]["modules_loaded"]["nvidia"] == {"uses": 1, "held_by_modules": []}


def test_an_underlined_head_of_a_matrix_is_its_head(tmp_path: Path) -> None:
    matrix = "\t\x1b[4mGPU0\tGPU1\tCPU Affinity\x1b[0m\nGPU0\t X \tPIX\t0-31\nGPU1\tPIX\t X \t0-31\n"
    told = tree(tmp_path, cmd__topo=matrix)["findings"]
    assert [(one["id"], one["subject"]) for one in told] == [("pair.pix", "pair 0-1")]
