"""What ``inspect`` says of the machine as a whole: facts, and findings that are no single GPU's. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from provision.host import boot
from provision.inspect import (
    builds,
    command_line,
    common,
    containers,
    driver,
    guests,
    kernel_log,
    lists,
    loaders,
    nodes,
    symptoms,
)
from provision.inspect.functions import architecture_of
from provision.inspect.report import NONE, UNKNOWN, Finding
from provision.inspect.seen import Seen

_FABRIC = "NVIDIA fabric manager user guide; NVIDIA/gpu-driver-container, ubuntu24.04/nvidia-driver"


def facts(seen: Seen) -> dict[str, Any]:
    """By name; a value that could not be looked at is ``unknown``."""
    look, ask = seen.look, seen.look.attempt

    def told(name: str, read: Callable[[], Any]) -> Any:
        found = ask(name, read)
        return UNKNOWN if found is None else found

    running = ask("running kernel", lambda: boot.running_kernel(look.snapshot))
    return {
        "driver": UNKNOWN if seen.loaded is None else seen.loaded.as_dict(),
        "kernel_running": running or UNKNOWN,
        "kernel_next": told("next kernel", lambda: following(seen) or UNKNOWN),
        "kernels_installed": told("installed kernels", lambda: _kernels(seen)),
        "modules_installed": told("installed driver modules", lambda: driver.installed(look)),
        "dkms": UNKNOWN if seen.dkms is None else driver.dkms_facts(seen.dkms),
        "modules_loaded": UNKNOWN if seen.modules is None else driver.module_facts(dict(seen.modules)),
        "secure_boot": told("Secure Boot", lambda: driver.secure_boot(look, seen.texts)),
        "boot_loaders": told(
            "boot loader", lambda: [loader.as_dict() for loader in loaders.loaders(look, seen.texts)]
        ),
        "command_line": told(
            "running command line", lambda: command_line.facts(look.needed("/proc/cmdline"))
        ),
        "majors": UNKNOWN if seen.majors is None else nodes.dynamic(dict(seen.majors)),
        "device_nodes": UNKNOWN if seen.nodes is None else [node.as_dict() for node in seen.nodes],
        "fabric_manager": _fabric(seen),
        "nvswitches": UNKNOWN
        if seen.functions is None
        else [{"bdf": str(one.bdf), "iommu_group": one.group or UNKNOWN} for one in seen.switches],
        "virtual_machines": UNKNOWN if seen.references is None else guests.facts(seen.references),
        "mappings": told("resource mappings", lambda: guests.mappings(look)),
        "containers": [container.as_dict() for container in seen.containers] or _no_containers(seen),
    }


def _no_containers(seen: Seen) -> Any:
    places = ("/etc/pve/lxc", "/etc/pve/nodes", "/var/lib/lxc")
    if not seen.look.recorded or all(seen.look.is_absent(path) for path in places):
        return []
    seen.look.unknown.setdefault("containers", "the recorded tree has no configuration of a container")
    return UNKNOWN


def following(seen: Seen) -> str | None:
    """The kernel that boots next, None where that cannot be told. Raises CouldNotLook."""
    return boot.next_kernel(seen.look.snapshot)


def _kernels(seen: Seen) -> list[str] | None:
    found = list(boot.kernels(seen.look.snapshot))
    if not found and not seen.look.is_absent("/boot/vmlinuz-*"):
        seen.look.unknown.setdefault("installed kernels", "the recorded tree has no kernel in /boot")
        return None
    return found


def _fabric(seen: Seen) -> str:
    """Is fabric manager needed: with NVSwitches, and only then (NVLink 5 boards have none on the bus). That there is
    none is known only of a bus that was seen whole, and of a board that does not usually have them."""
    if seen.switches:
        return f"needed: {len(seen.switches)} NVSwitch(es); in exactly the driver's version"
    names = seen.look.snapshot.sections.get(("names", "/proc/driver/nvidia-nvswitch/devices/*"))
    if names is not None and (names.data or b"").strip():
        return "needed: /proc/driver/nvidia-nvswitch/devices has devices"
    if seen.functions is None:
        return UNKNOWN
    if any(gpu.device and gpu.device.startswith("29") for gpu in seen.gpus):
        return f"{UNKNOWN}: boards of B200 and B300 show no NVSwitch on the bus"
    on_boards = [gpu for gpu in seen.gpus if gpu.sits_on_a_board]
    if on_boards:
        one = on_boards[0]
        return (
            f"{UNKNOWN}: no NVSwitch was seen, and the board of {one.name or one.ids} usually has NVSwitches"
        )
    if not seen.whole_bus:
        return f"{UNKNOWN}: only a part of the bus was listed"
    return "not needed: no NVSwitch; its unit would fail (NV_WARN_NOTHING_TO_DO)"


def findings(seen: Seen) -> Iterator[Finding]:
    """All conclusions about the machine."""
    look = seen.look
    yield from kernel_log.findings(seen.texts)
    text = look.attempt("running command line", lambda: look.needed("/proc/cmdline"))
    yield from command_line.findings(text or "")
    yield from lists.findings(look)
    yield from lists.kept(look)
    next_kernel = look.attempt("next kernel", lambda: following(seen))
    yield from driver.dkms_findings(seen.dkms or (), next_kernel)
    yield from builds.findings(seen.texts)
    yield from driver.module_findings(dict(seen.modules or {}), _exchange(seen))
    if seen.nodes is not None:
        yield from nodes.findings(seen.nodes, dict(seen.majors) if seen.majors is not None else None)
    rows = look.attempt("resource mappings", lambda: guests.mappings(look)) or []
    yield from guests.findings(seen.references or (), rows)
    yield from containers.findings(seen.containers, seen.majors)
    yield from _switches(seen)
    yield from common.findings(seen)
    yield from symptoms.findings(seen.texts)
    yield from _acs(seen)


def _exchange(seen: Seen) -> str | None:
    """Why the loaded module has to give way to another one; None where nothing says so."""
    loaded = seen.loaded
    if loaded is None or loaded.version == NONE:
        return None
    name = f"{loaded.version} ({loaded.flavour})"
    pin = seen.machine.driver if seen.machine else None
    if pin is not None and (pin.version, pin.flavour) != (loaded.version, loaded.flavour):
        return f"{name} is loaded and the inventory wants {pin.version} ({pin.flavour})"
    look = seen.look
    running = look.attempt("running kernel", lambda: boot.running_kernel(look.snapshot))
    for module in look.attempt("installed driver modules", lambda: driver.installed(look)) or ():
        other = module["modprobe_finds_it"] and module["version"] != loaded.version
        if module["kernel"] == running and other:
            return f"{name} is loaded and {module['version']} is installed for the running kernel"
    return None


def _switches(seen: Seen) -> Iterator[Finding]:
    if not seen.switches:
        return
    groups = sorted({one.group or UNKNOWN for one in seen.switches})
    yield Finding(
        "fabric.needed",
        "note",
        "host",
        f"{len(seen.switches)} NVSwitch(es) at {', '.join(str(one.bdf) for one in seen.switches)}, "
        f"IOMMU group {', '.join(groups)}",
        "NVSwitches are no GPUs and are never touched; without fabric manager CUDA ends with 802",
        "install nvidia-fabricmanager in exactly the driver's version and start it",
        _FABRIC,
    )


def _acs(seen: Seen) -> Iterator[Finding]:
    """Only a redirect harms copies between GPUs; ACSCap says what could be, SrcValid redirects nothing."""
    for output in seen.texts.of("acs"):
        for number, line in enumerate(re.findall(r"ACSCtl:[^\n]*", output.text), 1):
            redirects = [name for name in ("ReqRedir+", "CmpltRedir+") if name in line]
            yield Finding(
                "pcie.acs",
                "problem" if redirects else "note",
                f"ACSCtl {number} of {output.name}",
                line,
                f"redirect on ({', '.join(redirects)}): copies between GPUs go through the root complex, or hang"
                if redirects
                else "redirect off: copies between GPUs may go straight",
                "iommu=pt, or ACS off in the firmware while no virtual machine has a device"
                if redirects
                else "",
                "NVIDIA/nccl#2079",
            )


def lost(seen: Seen) -> Iterator[Finding]:
    """GPUs that do not answer, whoever has them."""
    for gpu in seen.gpus:
        if gpu.lost:
            yield Finding(
                "gpu.lost",
                "problem",
                str(gpu.bdf),
                f"{gpu.name or gpu.ids} does not answer: all of its configuration reads ff (lspci: rev ff)",
                "it lost its power or fell off the bus; touching it can hang the machine",
                "switch the machine off and on (a warm reboot often does not bring it back)",
                "kernel, PCI_ERROR_RESPONSE; lspci(8)",
            )


def unserved(seen: Seen) -> Iterator[Finding]:
    """GPUs that no current branch serves: they hinder nobody."""
    for gpu in seen.gpus:
        row = architecture_of(gpu)
        if row is not None and not row.flavours:
            yield Finding(
                "gpu.unserved",
                "note",
                str(gpu.bdf),
                f"{gpu.name or gpu.ids} is {row.name}",
                f"no current driver serves it (branch {row.last} was the last): it stays as it is, as a console card "
                "does, and hinders no other GPU",
                "leave it out of machine.gpus",
                row.source,
            )
