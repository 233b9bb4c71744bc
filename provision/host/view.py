"""A host as the planner sees it: the raw snapshot with names for what matters. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from checks.bdf import Bdf
from checks.snapshot import CouldNotLook, Snapshot
from provision.guest import idmap, locality, reach
from provision.guest.root_recipe import root_file
from provision.host import boot, marked
from provision.spec import Guest, Machine

GPU_CLASSES = ("0x0300", "0x0302")
"""VGA and 3D controllers (PCI class codes 03.00 and 03.02); NVSwitches are 0680 and no GPUs."""

NVIDIA = "0x10de"

TOOLS = ("flock", "base64", "sha256sum", "mktemp", "sync")
LXC_TOOLS = ("lxc-start", "lxc-attach", "lxc-info", "lxc-stop", "lxc-config", "lxc-ls")
ROOT_TOOL = "mmdebstrap"
"""Builds the root of a container; a machine that has the root already does not need it."""


@dataclass(frozen=True)
class PciFunction:
    """A PCI function. ``config`` holds its first four configuration bytes in hex, None where they were not read (only
    NVIDIA's are); ``bar1`` is the size of its second memory window in bytes; ``boot_vga``: the firmware's console is
    on it; ``vfio_dev`` its name under /dev/vfio/devices; ``locked``: the kernel holds it, for an unbind that waits."""

    bdf: Bdf
    device: str
    pci_class: str
    driver: str | None
    group: str | None
    override: str | None
    vendor: str = NVIDIA
    config: str | None = None
    power_state: str | None = None
    boot_vga: bool = False
    bar1: int | None = None
    vfio_dev: str | None = None
    locked: bool = False

    @property
    def is_nvidia(self) -> bool:
        return self.vendor == NVIDIA

    @property
    def is_gpu(self) -> bool:
        return self.is_nvidia and self.pci_class[:6] in GPU_CLASSES

    @property
    def is_bridge(self) -> bool:
        """PCI bridges (class 06.04) belong to the bus: they are never unbound."""
        return self.pci_class[:6] == "0x0604"

    @property
    def is_of_the_bus(self) -> bool:
        """Bridges of any kind (class 06), NVSwitches (06.80) among them: nothing of it is ever taken or given."""
        return self.pci_class[:4] == "0x06"

    @property
    def slot(self) -> tuple[int, int, int]:
        return self.bdf.domain, self.bdf.bus, self.bdf.slot

    @property
    def on_vfio(self) -> bool:
        """Held for virtual machines; variant drivers are called like nvgrace_gpu_vfio_pci."""
        return self.driver is not None and ("vfio" in self.driver or self.driver == "pci-stub")


def container_roots(machine: Machine) -> list[str]:
    """The files that the roots of the machine's LXC containers are unpacked from, one for each suite."""
    return sorted(
        {root_file(guest.suite) for guest in machine.guests if guest.backend == "lxc" and guest.managed}
    )


def requests(machine: Machine) -> list[str]:
    """What the snapshot of this machine has to look at."""
    wanted = [
        "file:/etc/os-release",
        "file:/proc/sys/kernel/random/boot_id",
        "file:/proc/cmdline",
        "file:/proc/devices",
        "file:/proc/driver/nvidia/version",
        "glob:/proc/driver/nvidia/gpus/*/information",
        "file:/sys/module/apparmor/parameters/enabled",
        *marked.REQUESTS,
        "file:/proc/net/tcp",
        "file:/proc/net/tcp6",
        "cmd:uname-r:uname -r",
        "cmd:id-u:id -u",
        "cmd:df:df -Pk /var/lib",
        "cmd:lspci-Dnnk:lspci -Dnnk -d 10de:",
        "pci:",
        *(f"tool:{tool}" for tool in TOOLS),
    ]
    if machine.managed:
        wanted += boot.REQUESTS
    if any(guest.backend == "lxc" for guest in machine.guests):
        wanted += [f"tool:{tool}" for tool in (*LXC_TOOLS, ROOT_TOOL, "apparmor_parser")]
        wanted += [f"stat:{path}" for path in container_roots(machine)]
        wanted += ["cmd:lxc-path:lxc-config lxc.lxcpath", "cmd:lxc-ls:lxc-ls -1"]
    if any(idmap.is_mapped(guest) for guest in machine.guests):
        wanted += idmap.REQUESTS
    if any(guest.backend == "pct" for guest in machine.guests):
        wanted += ["tool:pct"]
    for guest in machine.guests:
        if guest.backend == "lxc":
            wanted += [
                f"cmd:lxc-info-{guest.id}:lxc-info -n {guest.id} -sH",
                f'cmd:lxc-config-{guest.id}:cat "$(lxc-config lxc.lxcpath)/{guest.id}/config"',
                f"file:/run/kpro/guests/{guest.id}",
            ]
        else:
            wanted += [
                f"cmd:pct-status-{guest.id}:pct status {guest.id}",
                f"file:/etc/pve/lxc/{guest.id}.conf",
            ]
        wanted += [*locality.requests(guest), *reach.requests(machine, guest)]
        for mount in guest.mounts:
            wanted.append(f"stat:{mount.source}")
    return wanted


def group_functions(snapshot: Snapshot) -> tuple[PciFunction, ...]:
    """All functions of NVIDIA and those that share an IOMMU group with them, by address. Raises CouldNotLook where
    sysfs has no PCI bus to read."""
    if snapshot.data("pci", "/sys/bus/pci/devices") is None:
        raise CouldNotLook("/sys/bus/pci/devices is not there")
    found = []
    for path in snapshot.paths("pci"):
        if path.startswith("/"):
            continue
        data = snapshot.data("pci", path) or b""
        pairs = dict(line.split("=", 1) for line in data.decode().splitlines() if "=" in line)
        override = pairs["driver_override"]
        found.append(
            PciFunction(
                Bdf.parse(path),
                pairs["device"],
                pairs["class"],
                pairs["driver"] or None,
                pairs["group"] or None,
                None if override in ("", "(null)", "?") else override,
                pairs["vendor"],
                pairs["config"].replace(" ", "") or None,
                pairs["power_state"] or None,
                pairs["boot_vga"] == "1",
                _window(pairs["bar1"]),
                pairs["vfio_dev"] or None,
                override == "?",
            )
        )
    return tuple(sorted(found, key=lambda function: function.bdf))


def displays(snapshot: Snapshot) -> dict[Bdf, tuple[str, bool]]:
    """Every VGA controller of the machine: its vendor, and whether the firmware's console is on it."""
    text = (snapshot.data("pci", "/sys/bus/pci/devices") or b"").decode()
    lines = [line.split() for line in text.splitlines()]
    return {Bdf.parse(line[0]): (line[1], line[2] == "1") for line in lines if len(line) == 3}


def _window(line: str) -> int | None:
    """Bytes of a line of sysfs' ``resource``: first and last address, flags. All zero: no window was assigned."""
    try:
        first, last, flags = (int(word, 16) for word in line.split())
    except ValueError:
        return None
    return last - first + 1 if first or last or flags else 0


def pci_functions(snapshot: Snapshot) -> tuple[PciFunction, ...]:
    """All functions of vendor 10de, by address. Raises CouldNotLook where sysfs has no PCI bus to read."""
    return tuple(function for function in group_functions(snapshot) if function.is_nvidia)


def driver(snapshot: Snapshot) -> tuple[str, str] | None:
    """Version and flavour of the loaded NVIDIA module; None when it is not loaded.

    The form is that of /proc/driver/nvidia/version: ``NVRM version: NVIDIA UNIX Open Kernel Module for x86_64
    580.159.04 ...``; versions have two or three parts.
    """
    text = snapshot.text("/proc/driver/nvidia/version")
    if text is None:
        return None
    line = next((line for line in text.splitlines() if line.startswith("NVRM version:")), "")
    version = re.search(r"\s(\d{3}\.\d+(?:\.\d+)?)\s", f"{line} ")
    if version is None:
        raise CouldNotLook(f"/proc/driver/nvidia/version has no version: {line[:80]!r}")
    return version[1], "open" if "Open Kernel Module" in line else "proprietary"


def is_pinned(machine: Machine, snapshot: Snapshot) -> bool:
    """Is the driver that the inventory pins the one that is loaded?"""
    pin = machine.driver
    try:
        return pin is not None and driver(snapshot) == (pin.version, pin.flavour)
    except CouldNotLook:
        return False


def minors(snapshot: Snapshot) -> dict[Bdf, int]:
    """Which /dev/nvidiaN each GPU has now. The numbers follow the order of probing, not the bus: read, not assumed."""
    found = {}
    for path in snapshot.paths("file"):
        match = re.fullmatch(r"/proc/driver/nvidia/gpus/([^/]+)/information", path)
        text = snapshot.text(path) if match else None
        minor = re.search(r"^Device Minor:\s*(\d+)", text or "", re.MULTILINE)
        if match and minor:
            found[Bdf.parse(match[1])] = int(minor[1])
    return found


def models(snapshot: Snapshot) -> dict[Bdf, str]:
    """What the driver calls each GPU that it has, by address (the line ``Model:`` of .../gpus/*/information)."""
    found = {}
    for path in snapshot.paths("file"):
        match = re.fullmatch(r"/proc/driver/nvidia/gpus/([^/]+)/information", path)
        model = (
            re.search(r"^Model:\s*(\S.*?)\s*$", snapshot.text(path) or "", re.MULTILINE) if match else None
        )
        if match and model:
            found[Bdf.parse(match[1])] = model[1]
    return found


def bus_names(snapshot: Snapshot) -> dict[Bdf, str]:
    """What the bus's own list (pci.ids, by lspci) calls each NVIDIA function, driver or not: ``GA102GL [RTX A6000]``. A
    machine without lspci, and an id that its list does not know, give no name."""
    try:
        code, output = snapshot.command("lspci-Dnnk")
    except CouldNotLook:
        return {}
    found = {}
    for line in output.splitlines() if code == 0 else ():
        match = re.match(r"(\S+) .+: NVIDIA Corporation (.*\[.+\]) \[10de:[0-9a-f]{4}\]", line)
        if match:
            found[Bdf.parse(match[1])] = match[2]
    return found


def majors(snapshot: Snapshot) -> dict[str, int]:
    """Character device majors by name, from /proc/devices; the block section is left out."""
    text = (snapshot.text("/proc/devices") or "").split("Block devices:")[0]
    return {name: int(number) for number, name in re.findall(r"^\s*(\d+) (\S+)$", text, re.MULTILINE)}


def listeners(snapshot: Snapshot) -> set[int]:
    """TCP ports that something listens on (state 0A of /proc/net/tcp and tcp6, ports in hex)."""
    ports = set()
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in (snapshot.text(path) or "").splitlines()[1:]:
            fields = line.split()
            if len(fields) > 3 and fields[3] == "0A":
                ports.add(int(fields[1].rsplit(":", 1)[1], 16))
    return ports


def guest_state(snapshot: Snapshot, guest: Guest) -> str:
    """``absent``, ``stopped`` or ``running``. Raises CouldNotLook for anything else, frozen and starting included."""
    if guest.backend == "pct":
        code, output = snapshot.command(f"pct-status-{guest.id}")
        if code == 0 and output.strip() in ("status: running", "status: stopped"):
            return output.strip().removeprefix("status: ")
        if code == 2 and f"/lxc/{guest.id}.conf' does not exist" in output:
            return "absent"
        raise CouldNotLook(f"pct status {guest.id} ended with {code}: {output.strip()[:200]}")
    code, output = snapshot.command("lxc-ls")
    if code != 0:
        raise CouldNotLook(f"lxc-ls ended with {code}: {output.strip()[:200]}")
    if guest.id not in output.split():
        return "absent"
    code, output = snapshot.command(f"lxc-info-{guest.id}")
    if code == 0 and output.strip() in ("RUNNING", "STOPPED"):
        return output.strip().lower()
    raise CouldNotLook(f"lxc-info -n {guest.id} ended with {code}: {output.strip()[:200]}")
