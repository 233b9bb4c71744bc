"""What the driver's module says in the kernel log of itself and of no one GPU: what is wrong, what is of no concern.

From the most telling to the least. ``example`` is a line that its row must match.
"""

from __future__ import annotations

from typing import NamedTuple


class DriverLine(NamedTuple):
    """``fatal``: no GPU can work while it holds; else one may be missing."""

    name: str
    pattern: str
    example: str
    fatal: bool
    cause: str
    fix: str
    source: str


_NV = "kernel-open/nvidia/nv.c of open-gpu-kernel-modules"

DRIVER_LINES = (
    DriverLine(
        "other-kernel",
        r"\bnvidia[\w-]*: (?:version magic .* should be|disagrees about version of symbol|Unknown symbol)",
        "nvidia: version magic '6.1.0-27-amd64 SMP' should be '6.1.0-28-amd64 SMP'",
        True,
        "the module was built for another kernel than the one that runs",
        "install the headers of this kernel, build the module for it (dkms autoinstall), then modprobe nvidia",
        "kernel/module/version.c and main.c of Linux",
    ),
    DriverLine(
        "unsigned",
        r"Lockdown: .*unsigned module|Loading of unsigned module .*nvidia|nvidia[\w-]*: Key was rejected",
        "Loading of unsigned module is rejected: nvidia",
        True,
        "Secure Boot lets only signed modules in, and this one is not signed with a key that it knows",
        "enrol the key that signs the module (mokutil --import), or switch Secure Boot off",
        "kernel/module/signing.c of Linux",
    ),
    DriverLine(
        "no-gpu",
        r"NVRM: No NVIDIA (?:GPU|graphics adapter) found|NVRM: No NVIDIA devices probed"
        r"|NVRM: None of the NVIDIA (?:devices|graphics adapters) were initialized",
        "NVRM: No NVIDIA GPU found.",
        True,
        "the module found no GPU that it could take: none is on the bus, another driver has it, or it does not start",
        "see what is on the bus and who holds it: lspci -nnk -d 10de:",
        f"{_NV}, nvidia_init_module()",
    ),
    DriverLine(
        "probe-failed",
        r"NVRM: The NVIDIA probe routine failed for \d+ device",
        "NVRM: The NVIDIA probe routine failed for 1 device(s).",
        False,
        "the driver could not take one of the devices",
        "read the lines before it, which name the GPU; see driver.adapter_init on the machine itself",
        f"{_NV}, nvidia_init_module()",
    ),
    DriverLine(
        "not-probed",
        r"NVRM: The NVIDIA probe routine was not called for \d+ device|is already bound to \S+",
        "NVRM: The NVIDIA probe routine was not called for 1 device(s).",
        False,
        "another driver holds the device: vfio-pci for a virtual machine, or nouveau",
        "nothing when it is meant for a virtual machine; else see who holds it: lspci -nnk -d 10de:",
        f"{_NV}, nvidia_init_module()",
    ),
    DriverLine(
        "region",
        r"NVRM: request_mem_region failed",
        "NVRM: request_mem_region failed for 16M @ 0xfc000000. This can occur when a driver such as",
        False,
        "another driver (rivafb, nvidiafb, simplefb) holds the memory region of the GPU",
        "see who holds it (/proc/iomem), keep that driver from loading, reboot",
        f"{_NV}, nv_pci_probe()",
    ),
)

MISMATCH = r"NVRM: API mismatch: (?:the|this) client(?: '[^']{0,80}')?.*? version (\d{3,4}(?:\.\d+){1,2})"
MODULE_VERSION = r"this kernel module has the version (\d{3,4}(?:\.\d+){1,2})"
"""A library of another version was turned away (src/nvidia/arch/nvalloc/unix/src/osapi.c)."""

OF_NO_CONCERN = (
    r"NVRM: (?:loading|unloading) NVIDIA UNIX",
    r"NVRM: GPU at PCI:|NVRM: GPU Board Serial Number|GPU serial number is",
    r"Persistence mode is deprecated",
    r"RmInitAdapter succeeded|GSP firmware RM initialized",
    r"NVRM: Open nvidia\.ko is only ready for use|Please see the 'Open Linux Kernel Modules'|NVRM: .*NVreg_\w+",
    r"NVRM: Attempting to remove (?:minor )?device .* with non-zero usage count|Continuing with .* removal for device",
    r"NVRM: cpuidInfo\w+: Unrecognized",
    r"FBHUB Interrupt detected\. Clearing it",
    r"NVRM: A GPU crash dump has been created|nvidia-bug-report\.sh as root|NVIDIA kernel module is unloaded",
    r"NVRM: PAT configuration unsupported|NVRM: .*GPS ACPI DSM|NVRM: objClInitPcieChipset",
    r"NVRM: This can occur when |NVRM: (?:Try unloading the conflicting|reconfigure your kernel without|driver\(s\)\))",
    r"NVRM: (?:obtained ownership of|again\.|rivafb, nvidiafb|was loaded and obtained|NVIDIA device\(s\))",
    r"NVRM: (?:make sure that this kernel module|components have the same version|this kernel module has the version)",
    r"NVRM: (?:\(PCI ID: |installed in this system|fallen off the bus and|nvidia\.ko because|System Processor)",
    r"NVRM: Please (?:see|refer|check|try)",
    r"NVRM: (?:GPU\d+ )?(?:GSP RPC buffer|RPC history|\s*entry\s+function)",
    r"NVRM:(?: GPU\d+)?\s+(?:-?\d+\s+\d+\s+\w+\s+0x)",
    r"NVRM:\s*(?:\*+|=+|-+|)\s*$",
)
"""Lines of a driver that works, and the rest of messages that are told by their first line."""
