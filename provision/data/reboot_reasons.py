"""Why a running machine has to boot before its GPUs can be used: what is seen, and where the rule comes from.

Only what a boot really mends is a reason: a GPU that needs power off and on, or another firmware setting, is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from checks.bdf import Bdf
from checks.snapshot import CouldNotLook, Snapshot
from provision.host import view
from provision.spec import Machine

Seen = Iterator[tuple[str, str]]
"""Subjects (a GPU's address, or ``host``) and what was seen of each."""

REQUESTS = (
    "file:/proc/driver/nvidia/version",
    "file:/sys/module/nvidia/refcnt",
    "link:/sys/class/graphics/fb0/device",
    "cmd:kernel-modules:ls -d /lib/modules/$(uname -r)",
    'cmd:nvidia-kernel-log:log=$(dmesg) && printf "%s\\n" "$log" | grep NVRM: | tail -n 200',
    "pci:",
)
"""What the rows look at, for the machine's snapshot."""


@dataclass(frozen=True)
class Row:
    """``seen`` yields nothing when the reason is not there; it may raise CouldNotLook."""

    id: str
    seen: Callable[[Machine, Snapshot], Seen]
    source: str


def _named(machine: Machine) -> set[Bdf]:
    return {Bdf.parse(gpu.bdf) for gpu in machine.gpus}


def _another_driver_in_use(machine: Machine, snapshot: Snapshot) -> Seen:
    found, users = view.driver(snapshot), (snapshot.text("/sys/module/nvidia/refcnt") or "0").strip()
    if machine.driver is None or found is None or found == (machine.driver.version, machine.driver.flavour):
        return
    if users != "0":
        yield (
            "host",
            f"the NVIDIA module {found[0]} ({found[1]}) is loaded and in use ({users} users), and "
            f"{machine.driver.version} ({machine.driver.flavour}) is wanted",
        )


def _console_on_nouveau(machine: Machine, snapshot: Snapshot) -> Seen:
    console = (
        (snapshot.data("link", "/sys/class/graphics/fb0/device") or b"").decode().strip().rpartition("/")[2]
    )
    for function in view.pci_functions(snapshot) if machine.gpus else ():
        if function.bdf in _named(machine) and function.driver == "nouveau" and str(function.bdf) == console:
            yield str(function.bdf), f"nouveau shows the console on {function.bdf} and cannot let go of it"


def _node_reboot_required(machine: Machine, snapshot: Snapshot) -> Seen:
    if not machine.gpus:
        return
    code, output = snapshot.command("nvidia-kernel-log")
    if code != 0:
        raise CouldNotLook(f"dmesg ended with {code}: {output.strip()[:200]}")
    asked: dict[Bdf, str] = {}
    for address, text in re.findall(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): 154,? *(.*)", output):
        if "reboot required" in text.lower():
            asked[_bdf(address)] = text.strip()
        else:
            asked.pop(_bdf(address), None)
    for bdf in sorted(asked.keys() & _named(machine)):
        yield str(bdf), f"the driver asks for it (Xid 154 on {bdf}: {asked[bdf]})"


def _bdf(address: str) -> Bdf:
    """The kernel log leaves the function out: ``0000:42:00``."""
    return Bdf.parse(address if "." in address else f"{address}.0")


def _kernel_without_modules(machine: Machine, snapshot: Snapshot) -> Seen:
    if machine.driver is None or view.driver(snapshot) is not None:
        return
    code, output = snapshot.command("kernel-modules")
    if code == 0:
        return
    if "No such file" not in output:
        raise CouldNotLook(f"/lib/modules cannot be looked at: {output.strip()[:200]}")
    release = (snapshot.command("uname-r")[1]).strip()
    yield (
        "host",
        f"the running kernel {release} has no modules on disk any more, so no driver can be loaded into it",
    )


ROWS = (
    Row(
        "driver.in-use",
        _another_driver_in_use,
        "a module with users cannot be unloaded (rmmod(8)); two versions of it cannot be loaded",
    ),
    Row(
        "nouveau.console",
        _console_on_nouveau,
        "NVIDIA driver README, chapter Common Problems: nouveau must not hold the GPU",
    ),
    Row(
        "xid.154",
        _node_reboot_required,
        "NVIDIA Xid catalogue, 154: GPU recovery action changed to 'Node Reboot Required'",
    ),
    Row(
        "kernel.no-modules",
        _kernel_without_modules,
        "modprobe(8) reads /lib/modules/$(uname -r); package upgrades remove that of the running kernel",
    ),
)
