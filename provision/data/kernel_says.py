"""What NVIDIA's driver, vfio and the IOMMU say in the kernel's log about a GPU's way to its driver. Rows with a source.

``pattern`` is searched in the log with the driver's broken lines joined: time stamps and the second ``NVRM:`` of one
message are gone. ``{name}`` in a text is the group of that name in the pattern.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

KIND = Literal["problem", "note"]


@dataclass(frozen=True)
class Says:
    """``gpu``: the group of the pattern that holds the PCI address; without one it is about the whole host."""

    id: str
    pattern: str
    kind: KIND
    meaning: str
    next_step: str
    source: str


_DRIVER = "NVIDIA/open-gpu-kernel-modules, kernel-open/nvidia/nv.c and nv-pci.c"
_BDF = r"(?P<gpu>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
_ACTION = rf"Xid \(PCI:{_BDF}\): 154,(?:[^\n]{{0,200}} to 0x[0-9a-f]+ \(|(?![^\n]*\bto 0x)[^\n]{{0,200}}?)"
_LAST = r"(?![\s\S]*Xid \(PCI:(?P=gpu)\): 154,)"
"""Xid 154 says what is asked for from now on, ``changed from OLD to NEW``: only the last one of a GPU counts."""

_COLD = "a cold reboot: power the machine off and on (a warm one often does not bring it back); some need the mains off"

ROWS = (
    Says(
        "probe-not-called",
        r"NVIDIA probe routine was not called for (?P<count>\d+) device",
        "problem",
        "another driver (vfio-pci or nouveau) had {count} GPU(s) when nvidia was loaded",
        "release the GPUs first, then load nvidia",
        _DRIVER,
    ),
    Says(
        "no-devices-probed",
        r"NVRM: No NVIDIA (?:devices probed|GPU found|graphics adapter (?:found|probed))",
        "problem",
        "every GPU belongs to another driver: modprobe nvidia ends with ENODEV and the module is not loaded",
        "unbind the GPUs from vfio-pci or nouveau first, then modprobe nvidia",
        _DRIVER,
    ),
    Says(
        "no-gsp",
        rf"The NVIDIA GPU {_BDF} \(PCI ID: 10de:(?P<device>[0-9a-f]{{4}})\) installed in this system is not supported"
        r" by open nvidia\.ko",
        "problem",
        "GPU 10de:{device} is older than Turing and has no GSP: the open module never serves it",
        "use the proprietary module of branch 580, the last one that has it",
        "jd-apprentice/jd-llm; NVIDIA driver README, open kernel modules",
    ),
    Says(
        "open-only",
        rf"The NVIDIA GPU {_BDF} \(PCI ID: 10de:(?P<device>[0-9a-f]{{4}})\) installed in this system requires use of"
        r" the NVIDIA open kernel modules",
        "problem",
        "GPU 10de:{device} is served by the open module only, and the proprietary one was loaded",
        "install the open module of the same version, 570 or newer",
        _DRIVER,
    ),
    Says(
        "legacy",
        r"The NVIDIA (?P<model>[^\n]{1,80}?) (?:GPU )?installed in this system is supported through the NVIDIA"
        r" (?P<branch>\d{3})\.xx Legacy drivers",
        "problem",
        "the driver that was loaded does not serve {model}: branch {branch} was the last that does",
        "leave that GPU out of machine.gpus: no branch that is kept up serves it",
        _DRIVER,
    ),
    Says(
        "not-supported",
        rf"The NVIDIA GPU {_BDF} \(PCI ID: 10de:(?P<device>[0-9a-f]{{4}})\) installed in this system is not supported"
        r" by the NVIDIA (?P<version>\d{3}[.\d]+)",
        "problem",
        "driver {version} does not know GPU 10de:{device}",
        "use a branch that does: provision inspect lists what fits",
        _DRIVER,
    ),
    Says(
        "probe-failed",
        r"The NVIDIA probe routine failed for (?P<count>\d+) device",
        "problem",
        "the driver was offered {count} GPU(s) and gave up on them",
        "read the lines before this one: they say why",
        _DRIVER,
    ),
    Says(
        "api-mismatch",
        r"API mismatch: the client(?: '[^']*' \(pid \d+\))? has the version (?P<client>[\d.]+\d),? but (?:NVRM: )?this"
        r" kernel module has the version (?P<kernel>[\d.]+\d)",
        "problem",
        "user space is {client}, the loaded module is {kernel}: every program of that user space fails (CUDA 803)",
        "bring both to one version: the container's libraries to the host's, or reload the module after an upgrade",
        "NVIDIA driver, rm_is_supported_device; games-on-whales/wolf#410",
    ),
    Says(
        "off-the-bus",
        rf"Xid \((?:PCI:)?{_BDF}\): 79,"
        r"|NVRM: GPU (?P<gpu2>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d): GPU has fallen off",
        "problem",
        "the GPU has fallen off the bus (Xid 79, or the same without an Xid): power, slot, riser or the GPU itself",
        "take it out of service, then " + _COLD,
        "NVIDIA Xid catalogue, 79; NVIDIA/open-gpu-kernel-modules#507, NVIDIA/NVSentinel#155",
    ),
    Says(
        "node-reboot-required",
        rf"{_ACTION}(?:Node )?Reboot Required{_LAST}",
        "problem",
        "the driver itself asks for a reboot of the node (Xid 154, recovery action 0x2)",
        "a reboot; a missing uvm node is not the reason while this stands",
        "NVIDIA Xid catalogue, 154",
    ),
    Says(
        "gpu-reset-required",
        rf"{_ACTION}(?:GPU )?Reset Required{_LAST}",
        "problem",
        "the driver asks for a reset of the GPU (Xid 154, recovery action 0x1), not for a reboot of the node",
        "end what uses the GPU, then: nvidia-smi --gpu-reset -i ADDRESS",
        "NVIDIA Xid catalogue, 154",
    ),
    Says(
        "drain-required",
        rf"{_ACTION}Drain[^)\n]*{_LAST}",
        "problem",
        "the driver asks that work be taken off the GPU (Xid 154)",
        "end the work on it, then look again (provcheck gpus, gpu.recovery)",
        "NVIDIA Xid catalogue, 154",
    ),
    Says(
        "removed-while-used",
        rf"Attempting to remove device {_BDF} with non-zero usage count",
        "problem",
        "an unbind from nvidia waits for a user and cannot be interrupted",
        "stop what has it open (fuser -v /dev/nvidia*): nvidia-persistenced, DCGM, fabric manager, containers",
        "kubevirt/kubevirt#8549",
    ),
    Says(
        "vfio-in-use",
        rf"vfio-pci {_BDF}: Relaying device request to user",
        "problem",
        "an unbind from vfio-pci waits: a virtual machine has the device open",
        "shut that virtual machine down: find it with fuser -v /dev/vfio/*",
        "kata-containers/runtime#1669; kernel, drivers/vfio/pci/vfio_pci_core.c",
    ),
    Says(
        "d3cold",
        rf"(?P<where>\S+ {_BDF}): (?:not ready \d+ms after (?:resume|FLR|bus reset); giving up"
        r"|(?:Unable to|can't) change power state from \S+ to D0"
        r"|Refused to change power state(?: from \S+ to D0|, currently in D3))",
        "problem",
        "the device lost its power and does not come back: it reads ff",
        _COLD,
        "bryansteiner/gpu-passthrough-tutorial#39",
    ),
    Says(
        "adapter-init",
        rf"GPU {_BDF}: RmInitAdapter failed! \((?P<code>[^)]{{1,60}})\)",
        "problem",
        "the driver could not start the GPU (RmInitAdapter {code})",
        "read the lines before this one; after a virtual machine, or with D3cold there, a cold reboot",
        "NVIDIA/open-gpu-kernel-modules, src/nvidia/arch/nvalloc/unix/src/osinit.c",
    ),
    Says(
        "vbios",
        r"kgspExtractVbiosFromRom|Failed to copy vbios to system memory",
        "problem",
        "the driver cannot read the GPU's own firmware (VBIOS): often a GPU that vfio-pci or a VM used before",
        "a cold reboot; look for a half-written configuration of vfio (a module 'vifio' in /etc/modules)",
        "NVIDIA/open-gpu-kernel-modules, kernel_gsp_tu102.c; a report of Proxmox on a ThinkPad",
    ),
    Says(
        "no-window",
        r"NVRM: BAR(?P<bar>\d) is 0M @ 0x0 \(PCI:(?P<gpu>[0-9a-fA-F:.]+)\)|NVRM: BAR(?P<bar2>\d) is 0M @ 0x0",
        "problem",
        "the firmware gave the GPU's memory window no address",
        "a reboot with 'Above 4G decoding' on in the firmware's settings",
        "NVIDIA/gpu-operator#492",
    ),
    Says(
        "no-such-device",
        r"could not insert '?nvidia[\w-]*'?: No such device",
        "problem",
        "modprobe found no GPU for NVIDIA's driver (ENODEV): vfio-pci or nouveau has them all, or none answers",
        "release the GPUs first, then modprobe nvidia; read 'dmesg | grep NVRM'",
        _DRIVER,
    ),
    Says(
        "module-missing",
        r"Module (?P<module>nvidia[\w-]*) not found in directory /lib/modules/(?P<kernel>\S+)",
        "problem",
        "kernel {kernel} has no module {module}: it was not built for that kernel",
        "dkms status; dkms autoinstall -k {kernel}, with its headers installed",
        "modprobe(8)",
    ),
    Says(
        "probe-refused",
        r"(?:drivers_probe[^\n]{0,80}|[^\n]{0,80}drivers_probe[^\n]{0,40}): (?:write error: )?Invalid argument",
        "problem",
        "the kernel did not bind the function when it was asked to (EINVAL): the driver of its driver_override is not "
        "loaded, or the GPU did not come back from the virtual machine",
        "load the driver; else remove the function and scan again (echo 1 > .../remove, echo 1 > /sys/bus/pci/rescan) "
        "while no companion is in use, or reboot",
        "canonical/lxd#12128",
    ),
    Says(
        "key-rejected",
        r"Key was rejected by service|Loading of (?:unsigned module|module with unavailable key) is rejected",
        "problem",
        "Secure Boot is on and the module's signing key is not enrolled: the kernel refuses it",
        "mokutil --import /var/lib/dkms/mok.pub, reboot, and enrol the key on the console (MokManager)",
        "wvthoog/proxmox-vgpu-installer#9",
    ),
    Says(
        "taints",
        r"nvidia: module verification failed: signature and/or required key missing",
        "note",
        "the module is not signed by a known key; harmless while Secure Boot is off",
        "",
        "kernel, kernel/module/signing.c",
    ),
    Says(
        "iommu-amd",
        r"AMD-Vi: (?:Using|Found|Interrupt|IOMMU|Virtual|X2APIC|Enabled|Lazy IO/TLB|Extended features)"
        r"[^\n]{0,120}|pci [0-9a-f:.]+: AMD-Vi: IOMMU",
        "note",
        "the IOMMU is active (AMD)",
        "",
        "kernel, drivers/iommu/amd/init.c",
    ),
    Says(
        "iommu-intel",
        r"DMAR: (?:IOMMU enabled|Intel\(R\) Virtualization Technology for Directed I/O)",
        "note",
        "the IOMMU is active (Intel)",
        "",
        "kernel, drivers/iommu/intel/iommu.c",
    ),
    Says(
        "iommu-groups",
        r"(?:pci|vfio-pci) [0-9a-f:.]+: Adding to iommu group \d+",
        "note",
        "devices were put into IOMMU groups: the IOMMU is active",
        "",
        "kernel, drivers/iommu/iommu.c",
    ),
)
