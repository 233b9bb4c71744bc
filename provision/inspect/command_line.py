"""What the running kernel's command line says about GPUs and the IOMMU, typos among them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from provision.host.release import cmdline
from provision.host.release.target import names_ids, nothing
from provision.inspect.report import Finding

WHERE = "/proc/cmdline"
_KNOWN = ("vfio-pci.ids", "vfio_pci.ids", "pci-stub.ids", "pci_stub.ids")
_MODULES = ("vfio-pci", "vfio_pci")
_PARAMETERS = ("ids", "nointxmask", "disable_vga", "disable_idle_d3", "enable_sriov", "disable_denylist")
_BLACKLISTS = ("modprobe.blacklist", "module_blacklist", "rd.driver.blacklist", "rdblacklist")
_IOMMU = ("iommu", "intel_iommu", "amd_iommu")
_FORM = "kernel, Documentation/admin-guide/kernel-parameters"


def facts(text: str) -> dict[str, object]:
    """How the machine was booted, as far as the line tells."""
    words = text.split()
    pairs = dict(word.partition("=")[::2] for word in words)
    return {
        "text": text.strip(),
        "iommu": {name: pairs[name] for name in _IOMMU if name in pairs},
        "binds": [holder.text for holder in cmdline.find(WHERE, text) if holder.holds is not nothing],
        "booted_by": f"GRUB (BOOT_IMAGE={pairs['BOOT_IMAGE']})"
        if "BOOT_IMAGE" in pairs
        else "systemd-boot, or another that gives no BOOT_IMAGE",
        "root": pairs.get("root", "none"),
    }


def findings(text: str) -> Iterator[Finding]:
    """Parameters that mean something here, and those that look as if they did."""
    for parameter in cmdline.parameters(WHERE, text):
        word, name, value = parameter.text, parameter.name, parameter.value
        if (name in _BLACKLISTS and "nouveau" in value.split(",")) or (name, value) == (
            "nouveau.modeset",
            "0",
        ):
            yield _note("cmdline.nouveau", word, "nouveau is kept away from the GPUs, as it should be")
        if name == "pcie_acs_override":
            yield Finding(
                "cmdline.acs-override",
                "problem",
                WHERE,
                word,
                "IOMMU groups are split by decree, not by the hardware: devices of one real group can reach each "
                "other's memory, the isolation is false",
                "take it out unless a virtual machine needs it, and trust no group of this machine",
                "Proxmox VE kernel patch 'pci: Enable overrides for missing ACS capabilities'",
            )
        screens = name == "video" and value.startswith(("efifb:off", "vesafb:off", "simplefb:off"))
        if (name == "initcall_blacklist" and "sysfb_init" in value.split(",")) or screens:
            yield _note(
                "cmdline.console", word, "the firmware's framebuffer is kept off the GPU for virtual machines"
            )
        near = get_close_matches(name, _KNOWN, 1, 0.8) if name not in _KNOWN and name.endswith("ids") else []
        if near:
            yield Finding(
                "cmdline.typo",
                "warning",
                WHERE,
                word,
                f"no module is called {name.partition('.')[0]}: the parameter has no effect and binds nothing "
                f"({near[0]} would)",
                f"take {word} out",
                _FORM,
            )
        if (cmdline.gives_ids(name) and not names_ids(value)) or name == "ids":
            yield Finding(
                "cmdline.typo",
                "warning",
                WHERE,
                word,
                "a dot is missing before ids: no module gets them, and it binds nothing"
                if name == "ids"
                else "no id is in it: ids are VENDOR:DEVICE in hex, an address is none, and it binds nothing",
                f"take {word} out",
                "kernel, drivers/vfio/pci/vfio_pci.c, vfio_pci_fill_ids",
            )
        before, _, own = name.partition(".")
        if not near and before in _MODULES and own and own not in _PARAMETERS:
            yield Finding(
                "cmdline.typo",
                "warning",
                WHERE,
                word,
                f"{before} has no parameter {own}: the kernel passes it over, and it binds nothing "
                f"({before}.ids would)",
                f"take {word} out",
                "kernel, drivers/vfio/pci/vfio_pci.c, module_param",
            )


def _note(identity: str, seen: str, meaning: str) -> Finding:
    return Finding(identity, "note", WHERE, seen, meaning, "", _FORM)
