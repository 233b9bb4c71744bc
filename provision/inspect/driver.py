"""NVIDIA's driver on a machine: what is loaded, what is installed for which kernel, what failed to build. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from checks.snapshot import CouldNotLook
from provision.data import kernels
from provision.host import boot, dkms, driver_seen, view
from provision.host.boot import Module
from provision.inspect.look import Look
from provision.inspect.report import NONE, Finding
from provision.inspect.texts import Texts

_VERSION = re.compile(r"\s(\d{3}\.\d+(?:\.\d+)?)\s")


@dataclass(frozen=True)
class Loaded:
    """The loaded module; both ``none`` when none is loaded."""

    version: str
    flavour: str

    def as_dict(self) -> dict[str, str]:
        return {"version": self.version, "flavour": self.flavour}


def modules(look: Look, texts: Texts) -> dict[str, Module]:
    """The loaded kernel modules, from /proc/modules or from what lsmod printed. Raises CouldNotLook."""
    try:
        return boot.modules(look.snapshot)
    except CouldNotLook:
        outputs = texts.needed("lsmod")
    found = {}
    for output in outputs:
        for line in output.text.splitlines():
            words = line.split()
            if len(words) in (3, 4) and words[1].isdecimal() and words[2].isdecimal():
                holders = tuple(filter(None, words[3].split(","))) if len(words) == 4 else ()
                found[words[0]] = Module(words[0], int(words[2]), holders)
    return found


def loaded(look: Look, texts: Texts) -> Loaded:
    """Raises CouldNotLook when neither the driver nor a list of modules was looked at."""
    seen = view.driver(look.snapshot)
    if seen is not None:
        return Loaded(*seen)
    for output in texts.of("driver-version"):
        line = next((one for one in output.text.splitlines() if one.startswith("NVRM version:")), "")
        version = _VERSION.search(f"{line} ")
        if version:
            return Loaded(version[1], "open" if "Open Kernel Module" in line else "proprietary")
    try:
        there = modules(look, texts)
    except CouldNotLook:
        if look.recorded and not look.is_absent("/proc/driver/nvidia/version"):
            raise CouldNotLook(
                "neither /proc/driver/nvidia/version nor a list of modules was recorded"
            ) from None
        return Loaded(NONE, NONE)
    if "nvidia" in there:
        raise CouldNotLook(
            "the module nvidia is loaded, and /proc/driver/nvidia/version is not there to say which"
        )
    return Loaded(NONE, NONE)


def module_facts(there: dict[str, Module]) -> dict[str, Any]:
    """NVIDIA's modules and what holds each."""
    return {
        name: {"uses": module.uses, "held_by_modules": list(module.holders)}
        for name, module in there.items()
        if name.startswith("nvidia") or name in ("vfio_pci", "nouveau", "gdrdrv")
    }


def module_findings(there: dict[str, Module], exchange: str | None = None) -> Iterator[Finding]:
    """Can NVIDIA's module be exchanged while the machine runs? ``exchange``: why it has to be, None where it has not: a
    machine that serves uses its module."""
    module = there.get("nvidia")
    if module is None:
        return
    foreign = [name for name in module.holders if not name.startswith("nvidia")]
    if module.in_use:
        others = module.uses - len(module.holders)
        held = f"; {', '.join(foreign)} holds it too and must be unloaded first" if foreign else ""
        yield Finding(
            "driver.in-use",
            "problem" if exchange else "note",
            "host",
            f"nvidia has a use count of {module.uses}: {len(module.holders)} modules "
            f"({', '.join(module.holders) or NONE}) and {others} other users",
            (f"{exchange}, and " if exchange else "")
            + "the module cannot be reloaded or exchanged while it is used"
            + held,
            "stop what uses the GPUs (fuser -v /dev/nvidia*), or reboot" if exchange else "",
            "rmmod(8); kernel, kernel/module/main.c",
        )
    elif foreign:
        yield Finding(
            "driver.held",
            "note",
            "host",
            f"{', '.join(foreign)} holds nvidia",
            "it has to be unloaded before the driver can be exchanged",
            f"rmmod {' '.join(foreign)}",
            "rmmod(8)",
        )


def dkms_lines(texts: Texts) -> tuple[dkms.DkmsModule, ...]:
    """What ``dkms status`` said. Raises CouldNotLook when it was not asked, or said what no DKMS says."""
    found: list[dkms.DkmsModule] = []
    for output in texts.needed("dkms"):
        if output.code == 127:
            continue
        found += dkms.dkms_status(output.text)
    return tuple(dict.fromkeys(found))


def dkms_facts(lines: Sequence[dkms.DkmsModule]) -> list[dict[str, Any]]:
    return [
        {
            "module": line.name,
            "version": line.version,
            "kernel": line.kernel or NONE,
            "arch": line.arch or "not said",
            "state": line.state,
            "remarks": list(line.remarks),
            "nvidia": line.is_nvidia,
        }
        for line in lines
    ]


def dkms_findings(lines: Sequence[dkms.DkmsModule], following: str | None) -> Iterator[Finding]:
    """``following``: the kernel that boots next, None where that is not known."""
    for line in lines:
        where = f"{line} for {line.kernel}" if line.kernel else str(line)
        if line.differs:
            yield Finding(
                "dkms.differs",
                "problem",
                where,
                "; ".join(line.remarks),
                "what lies in the kernel's folder is not what DKMS built: another install overwrote it",
                f"dkms install --force {line} -k {line.kernel}" if line.kernel else "",
                "dkms(8)",
            )
        if line.sourceless:
            yield Finding(
                "dkms.broken",
                "problem",
                where,
                "broken" if line.state == "broken" else "; ".join(line.remarks),
                "its source is gone: it is built for no kernel that comes, and a kernel's package may fail on it",
                f"dkms remove {line} --all",
                "dkms(8)",
            )
        if line.state == "built":
            yield Finding(
                "dkms.built-only",
                "problem" if line.kernel == following else "note",
                where,
                "built and not installed",
                "modprobe does not find it on that kernel",
                f"dkms install {line} -k {line.kernel}",
                "dkms(8)",
            )
        if line.state == "added" and line.is_nvidia:
            yield Finding(
                "dkms.added-only", "note", where, "added, built for no kernel", "no kernel has it", "dkms autoinstall",
                "dkms(8)",
            )  # fmt: skip
        verdict = dkms.BuildFailure(line.name, line.version, line.kernel, None).known
        if verdict is not None and verdict.answer == "fails" and not line.installed:
            yield _floor(where, verdict)


def _floor(where: str, verdict: kernels.Verdict) -> Finding:
    return Finding(
        "driver.below-floor",
        "problem",
        where,
        "this driver is known not to compile on that kernel",
        verdict.why,
        f"use {verdict.instead}" if verdict.instead else "",
        verdict.source,
    )


def installed(look: Look) -> list[dict[str, Any]]:
    """NVIDIA's module in each kernel's folder. Raises CouldNotLook."""
    return [
        {
            "kernel": module.kernel,
            "path": module.path,
            "version": module.version,
            "flavour": module.flavour or "unknown",
            "modprobe_finds_it": module.indexed,
        }
        for module in driver_seen.modules(look.snapshot)
    ]


def secure_boot(look: Look, texts: Texts) -> str:
    """``enabled``, ``disabled`` (by the firmware, or in shim: then the kernel takes any module), or ``enforced`` where
    only the kernel says so. Raises CouldNotLook."""
    for output in texts.of("mokutil"):
        if "validation is disabled in shim" in output.text:
            return "disabled in shim"
        said = re.search(r"SecureBoot (enabled|disabled)", output.text)
        if said:
            return said[1]
        if "EFI variables are not supported" in output.text or "doesn't support Secure Boot" in output.text:
            return "disabled"
    snapshot = look.snapshot
    if all(
        snapshot.text(path) is None
        for path in ("/sys/module/module/parameters/sig_enforce", "/sys/kernel/security/lockdown")
    ):
        efi = snapshot.sections.get(("dir", "/sys/firmware/efi"))
        if efi is not None and (efi.error, efi.data) == (None, None) and look.is_absent("/sys/firmware/efi"):
            # Secure Boot is a part of EFI.
            return "disabled"
        raise CouldNotLook(
            "neither mokutil nor the kernel was asked"
            if look.recorded
            else "mokutil said nothing of it, and the kernel tells neither sig_enforce nor lockdown"
        )
    return "enforced" if driver_seen.must_be_signed(snapshot) else "not enforced"
