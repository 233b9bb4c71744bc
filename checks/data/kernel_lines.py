"""What the kernel says when the NVIDIA driver holds a GPU and cannot start it: the line, why, what to do.

From the most telling to the least: the first row that matches explains a GPU. A new kind of failure is a new
row; ``example`` is a line that it must match.
"""

from __future__ import annotations

from typing import NamedTuple


class KernelLine(NamedTuple):
    """``pattern`` is searched in one line of the kernel log, broken lines joined, without its time."""

    name: str
    pattern: str
    example: str
    cause: str
    fix: str
    source: str


KERNEL_LINES = (
    KernelLine(
        "gsp-missing",
        r"not supported by open nvidia\.ko\b.*\bGPU System Processor \(GSP\)",
        "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:1b38) installed in this system is not supported by open"
        " nvidia.ko because it does not include the required GPU System Processor (GSP).",
        "this GPU has no GSP, which the open kernel module needs: it is older than Turing",
        "install the proprietary flavour of the driver (flavour='proprietary'; 580 is the last branch that"
        " knows GPUs older than Turing)",
        "kernel-open/nvidia/nv.c of open-gpu-kernel-modules; seen with a Tesla P40",
    ),
    KernelLine(
        "off-the-bus",
        r"has fallen off the bus|Xid \([^)]*\): 79\b",
        "NVRM: GPU 0000:06:00.0: GPU has fallen off the bus.",
        "the GPU no longer answers on PCIe: power, slot, riser, or its firmware died (Xid 79)",
        "switch the host off and on (a warm reboot may not bring it back); when it recurs, reseat the board and"
        " its power plugs",
        "kernel-open/nvidia/nv.c; Xid 79 of NVIDIA's Xid catalogue",
    ),
    KernelLine(
        "asleep",
        r"Unable to change power state from D3cold to D0",
        "vfio-pci 0000:01:00.0: Unable to change power state from D3cold to D0, device inaccessible",
        "the board was put to sleep (D3cold) and did not wake",
        "switch the host off and on; for virtual machines keep it awake: options vfio-pci disable_idle_d3=1",
        "drivers/pci/pci.c of Linux, pci_power_up()",
    ),
    KernelLine(
        "no-window",
        r"BAR\d is 0M @ 0x0|PCI I/O region assigned to your NVIDIA device is invalid",
        "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:01:00.0)",
        "the firmware gave the GPU no window for its memory (BAR): there is too little address space for it",
        "switch on 'Above 4G decoding' (and Resizable BAR) in the firmware's setup; in a virtual machine give it a"
        " larger 64-bit window; else try pci=realloc on the kernel's command line",
        "kernel-open/nvidia/nv-pci.c of open-gpu-kernel-modules, nv_pci_probe()",
    ),
    KernelLine(
        "not-of-this-branch",
        r"supported through the NVIDIA \S+ Legacy drivers"
        r"|is not supported by the (?:NVIDIA )?\S+ (?:NVIDIA )?driver release",
        "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:1b38) installed in this system is not supported by the NVIDIA"
        " 590.44.01 driver release.",
        "this driver does not know the GPU: it is older or newer than what the branch supports",
        "install a branch that lists it among its supported products",
        "kernel-open/nvidia/nv.c of open-gpu-kernel-modules",
    ),
    KernelLine(
        "no-video-bios",
        r"did not find valid ROM signature|Failed to copy vbios to system memory",
        "NVRM: kgspExtractVbiosFromRom_TU102: did not find valid ROM signature",
        "the driver finds no video BIOS on the board: an emulated GPU has none, a GPU given to a virtual machine"
        " may hide it, a failed flash may have spoilt it",
        "on an emulated GPU this is how it must end; on a real one switch the host off and on, or give the"
        " virtual machine a ROM file; have the board looked at when it stays",
        "open-gpu-kernel-modules, kernel_gsp_vbios_tu102.c; NVIDIA/open-gpu-kernel-modules#955",
    ),
    KernelLine(
        "no-firmware-file",
        r"Direct firmware load for nvidia/\S+ failed with error -2\b",
        "nvidia 0000:01:00.0: Direct firmware load for nvidia/535.261.03/gsp_ga10x.bin failed with error -2",
        "the GSP firmware file of this driver version is not under /lib/firmware/nvidia",
        "install the firmware of exactly this version (Debian: firmware-nvidia-gsp), then load the module again",
        "drivers/base/firmware_loader/main.c of Linux; error 2 is ENOENT",
    ),
    KernelLine(
        "firmware-still-up",
        r"unexpected WPR2 already up",
        "NVRM: GPU0 _kgspBootGspRm: unexpected WPR2 already up, cannot proceed with booting GSP",
        "the GPU's own firmware still runs from an earlier driver or virtual machine that did not end in order",
        "reset the GPU, or switch the host off and on",
        "NVIDIA/open-gpu-kernel-modules#1058",
    ),
    KernelLine(
        "gsp-boot",
        r"Cannot initialize GSP firmware RM|failed to wait for GFW.?(?:_BOOT|boot)",
        "NVRM: RmInitAdapter: Cannot initialize GSP firmware RM",
        "the GPU's own firmware (GSP) did not start",
        "switch the host off and on; then try another version of the driver",
        "NVIDIA/open-gpu-kernel-modules#789",
    ),
    KernelLine(
        "probe",
        r"\bnvidia\b.*probe .*failed with error -\d+",
        "nvidia: probe of 0000:01:00.0 failed with error -1",
        "the driver did not take the device; the lines before it say why",
        "read the kernel log before this line; see who holds the device: lspci -nnk -d 10de:",
        "drivers/base/dd.c of Linux",
    ),
    KernelLine(
        "init",
        r"RmInitAdapter failed!|rm_init_adapter failed",
        "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0xffff:667)",
        "the driver could not start the adapter; only its codes say why",
        "read the kernel log before this line; switch the host off and on; then try another version of the driver",
        "arch/nvalloc/unix/src/osinit.c of open-gpu-kernel-modules",
    ),
)
