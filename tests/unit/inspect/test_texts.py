"""Listings and outputs in all their spellings, and what they are told by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from provision.data.chips import architecture_of_name
from provision.data.kernel_says import ROWS
from provision.host.tree import observe_tree
from provision.inspect import kernel_log, loaders, lspci, texts
from provision.inspect.examine import examine
from provision.inspect.look import Look
from provision.inspect.requests import once, requests
from provision.inspect.texts import Output, Texts


def tree(root: Path, **files: str) -> dict[str, Any]:
    """The examination of a tree; a name is a path with ``__`` for slashes, ``cmd__x`` an output."""
    for name, text in files.items():
        path = root / (f".kpro/cmd/{name[5:]}.out" if name.startswith("cmd__") else name.replace("__", "/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return examine(observe_tree(root, requests(recorded=True)), recorded=True).as_dict()


GPU = "VGA compatible controller"


@pytest.mark.parametrize(
    ("line", "device", "driver"),
    [
        (
            f"0000:42:00.0 {GPU} [0300]: NVIDIA Corporation GA102GL [RTX A6000] [10de:2230] (rev a1)",
            "2230",
            None,
        ),
        (
            f"42:00.0 {GPU} [0300]: NVIDIA Corporation Device [10de:2230] (rev a1) (prog-if 00 [VGA])",
            "2230",
            None,
        ),
        (f"42:00.0 {GPU}: NVIDIA Corporation GA102GL [RTX A6000] (rev a1)", None, None),
        ("42:00.0 0300: 10de:2230 (rev a1)", "2230", None),
        (
            f"IOMMU Group 25 42:00.0 {GPU} [0300]: NVIDIA Corporation X [10de:2230] (driver: nvidia)",
            "2230",
            "nvidia",
        ),
        (f"IOMMU Group 25:\n\t42:00.0 {GPU} [0300]: NVIDIA Corporation X [10de:2230]", "2230", None),
    ],
)
def test_a_gpu_is_one_in_every_spelling_of_lspci(line: str, device: str | None, driver: str | None) -> None:
    (one,) = lspci.parse(line)
    assert (str(one.bdf), one.class_code, one.device, one.driver) == ("0000:42:00.0", "0300", device, driver)
    assert one.is_nvidia
    assert one.group == ("25" if "IOMMU" in line else None)


@pytest.mark.parametrize(
    "line", ["", "42:00.0", "nothing", "zz:00.0 VGA: x", "42:3f.0 VGA compatible controller: x"]
)
def test_what_is_no_function_is_none(line: str) -> None:
    assert lspci.parse(line) == ()


def test_no_driver_is_told_only_by_a_listing_that_tells_drivers() -> None:
    text = f"42:00.0 {GPU} [0300]: NVIDIA Corporation X [10de:2230]\n"
    (plain,) = lspci.parse(text)
    assert not plain.driver_told
    (asked,) = lspci.parse(text, tells_drivers=True)
    assert (asked.driver_told, asked.driver) == (True, None)


def test_a_gpu_of_a_listing_without_drivers_has_an_unknown_driver(tmp_path: Path) -> None:
    told = tree(tmp_path, **{"cmd__lspci-nn": f"42:00.0 {GPU} [0300]: NVIDIA Corporation X [10de:2230]\n"})
    assert told["gpus"][0]["driver"] == "unknown"


def test_other_makers_switches_and_sound_are_no_gpus(tmp_path: Path) -> None:
    text = (
        f"01:00.0 {GPU} [0300]: Advanced Micro Devices [AMD/ATI] X [1002:73bf]\n"
        "02:00.0 Bridge [0680]: NVIDIA Corporation Y [10de:1af1]\n"
        "03:00.0 Audio device [0403]: NVIDIA Corporation Z [10de:22e8]\n"
    )
    told = tree(tmp_path, **{"cmd__lspci-Dnnk": text})
    assert told["gpus"] == []
    assert told["host"]["fabric_manager"].startswith("needed")


@pytest.mark.parametrize(
    ("name", "architecture"),
    [
        ("NVIDIA Corporation GA106 [GeForce RTX 3060]", "ampere"),
        ("NVIDIA Corporation TU104GL [Tesla T4]", "turing"),
        ("NVIDIA Corporation GB202GL [RTX PRO 6000]", "blackwell"),
        ("NVIDIA Corporation AD102 [GeForce RTX 4090]", "ada"),
        ("NVIDIA Corporation GR100", "newer than the table"),
        ("NVIDIA Corporation Device", None),
    ],
)
def test_a_chip_s_name_tells_its_architecture(name: str, architecture: str | None) -> None:
    row = architecture_of_name(name)
    assert (row.name if row else None) == architecture


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("x", "nvidia/580.119.02, 6.17.4-2-pve, x86_64: installed\n", "dkms"),
        ("x", "[ 1.0] NVRM: No NVIDIA devices probed.\n", "dmesg"),
        ("x", "nvidia 56598528 147 nvidia_uvm,gdrdrv\n", "lsmod"),
        ("x", "System currently booted with uefi\n", "proxmox-boot-tool"),
        ("x", "BootCurrent: 0009\n", "efibootmgr"),
        ("x", "crw-rw-rw- 1 root root 195, 0 Jan 1 00:00 /dev/nvidia0\n", "device-nodes"),
        ("x", "SecureBoot enabled\n", "mokutil"),
        ("x", "dpkg: error processing package a (--configure):\n", "build"),
        ("x", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.78  Sun\n", "driver-version"),
        ("x", "42:00.0 VGA compatible controller: NVIDIA Corporation X\n", "lspci"),
        ("dmesg", "all is quiet\n", None),
        ("x", "all is quiet\n", None),
    ],
)
def test_an_output_is_told_by_its_lines(name: str, text: str, kind: str | None) -> None:
    found = texts.kinds_of(Output(name, text))
    assert (kind in found) if kind else not found


def test_a_program_that_is_not_there_prints_no_output_of_its_own() -> None:
    assert texts.kinds_of(Output("lspci-Dnnk", "sh: 1: lspci: not found\n", 127)) == []


def test_an_output_that_nothing_reads_is_said_to_be_unread(tmp_path: Path) -> None:
    told = tree(tmp_path, cmd__whatever="hello\n")
    (finding,) = told["findings"]
    assert (finding["id"], finding["subject"]) == ("text.unread", "whatever")


_OLD = "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:1b38)\n NVRM: installed in this system is not supported by open"
_OLDER = "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:0ff3)\nNVRM: installed in this system is not supported by the"
_RECOVERY = "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
SAID = {
    "probe-not-called": "NVRM: The NVIDIA probe routine was not called for 2 device(s).",
    "no-devices-probed": "NVRM: No NVIDIA devices probed.",
    "no-gsp": f"{_OLD}\n NVRM: nvidia.ko because it does not include the required GPU",
    "not-supported": f"{_OLDER} NVIDIA 580.159.04\nNVRM: driver release.",
    "probe-failed": "NVRM: The NVIDIA probe routine failed for 1 device(s).",
    "api-mismatch": "NVRM: API mismatch: the client 'x' (pid 7) has the version 595.84, but\n"
    "NVRM: this kernel module has the version 550.78.  Please",
    "off-the-bus": "NVRM: GPU 0000:06:00.0: GPU has fallen off the bus.",
    "node-reboot-required": f"NVRM: Xid (PCI:0000:06:00): 154, {_RECOVERY}",
    "gpu-reset-required": "NVRM: Xid (PCI:0000:06:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 "
    "(GPU Reset Required)",
    "drain-required": "NVRM: Xid (PCI:0000:06:00): 154, GPU recovery action changed from 0x0 (None) to 0x3 "
    "(Drain P2P)",
    "open-only": "NVRM: The NVIDIA GPU 0000:02:00.0 (PCI ID: 10de:2bb1)\n"
    "NVRM: installed in this system requires use of the NVIDIA open kernel modules.",
    "legacy": "NVRM: The NVIDIA GeForce GTX 680 GPU installed in this system is\n"
    "NVRM: supported through the NVIDIA 470.xx Legacy drivers. Please",
    "no-such-device": "modprobe: ERROR: could not insert 'nvidia': No such device",
    "module-missing": "modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.17.4-2-pve",
    "probe-refused": "sh: 1: echo: /sys/bus/pci/drivers_probe: Invalid argument",
    "removed-while-used": "NVRM: Attempting to remove device 0000:8a:00.0 with non-zero usage count!",
    "vfio-in-use": "vfio-pci 0000:5c:00.0: Relaying device request to user (#0)",
    "d3cold": "vfio-pci 0000:01:00.0: Unable to change power state from D3cold to D0, device inaccessible",
    "adapter-init": "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x30:0xffff:1234)",
    "vbios": "NVRM: kgspExtractVbiosFromRom_TU102: did not find valid ROM signature",
    "no-window": "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:01:00.0)",
    "key-rejected": "Loading of module with unavailable key is rejected",
    "taints": "nvidia: module verification failed: signature and/or required key missing - tainting kernel",
    "iommu-amd": "AMD-Vi: Interrupt remapping enabled",
    "iommu-intel": "DMAR: IOMMU enabled",
    "iommu-groups": "pci 0000:61:00.0: Adding to iommu group 10",
}


def test_every_row_of_the_kernel_s_words_has_a_line() -> None:
    assert SAID.keys() == {row.id for row in ROWS}


@pytest.mark.parametrize("stamp", ["", "[ 4321.000001] ", "Nov 30 02:00:00 box kernel: "])
@pytest.mark.parametrize("identity", SAID)
def test_a_line_of_the_kernel_s_log_fires_its_row_and_no_other(identity: str, stamp: str) -> None:
    lines = [line if line.startswith(" ") else stamp + line for line in SAID[identity].split("\n")]
    output = Output("dmesg", "\n".join(lines) + "\n", 0)
    found = kernel_log.findings(Texts({"dmesg": (output,)}))
    assert [finding.id for finding in found] == [f"log.{identity}"]


def test_a_quiet_log_says_nothing() -> None:
    quiet = Output(
        "dmesg", "[ 1.0] usb 1-1: new device\n[ 2.0] NVRM: loading NVIDIA UNIX Open Kernel Module\n", 0
    )
    assert kernel_log.findings(Texts({"dmesg": (quiet,)})) == ()


@pytest.mark.parametrize(
    ("status", "names"),
    [
        ("0A-01 is configured with: uefi (versions: 6.8.12-4-pve)\n", ["systemd-boot"]),
        ("0A-01 is configured with: uefi (versions: a), grub (versions: a)\n", ["systemd-boot", "grub"]),
        ("E: /etc/kernel/proxmox-boot-uuids does not exist.\n", ["grub"]),
    ],
)
def test_both_loaders_are_edited_where_both_are_configured(
    status: str, names: list[str], tmp_path: Path
) -> None:
    look = Look(observe_tree(tmp_path, requests(recorded=True)), recorded=True)
    found = loaders.loaders(look, Texts({"proxmox-boot-tool": (Output("pbt", status, 0),)}))
    assert [loader.name for loader in found] == names


def test_an_id_in_a_list_is_unknown_to_hold_a_gpu_whose_id_is_unknown(tmp_path: Path) -> None:
    files = {
        "cmd__lspci-k": f"42:00.0 {GPU}: NVIDIA Corporation Device (rev a1)\n\tKernel driver in use: vfio-pci\n",
        "etc__modprobe.d__x.conf": "options vfio-pci ids=10de:2230\n",
    }
    told = tree(tmp_path, **files)
    (holder,) = told["gpus"][0]["holders"]
    assert holder["takes"] == "unknown"
    assert holder["acts_on"] == ["10de:2230"]


def test_of_two_commands_of_one_name_one_is_asked() -> None:
    assert once(["cmd:a:x", "file:/b", "cmd:a:y", "file:/b"]) == ["cmd:a:x", "file:/b"]
    names = [request.split(":")[1] for request in requests() if request.startswith("cmd:")]
    assert len(names) == len(set(names))
