"""A Proxmox host that nothing speaks against, and what the judges beside the driver say of it."""

from __future__ import annotations

from provision.host.driver_checks.judge import checks_plan
from provision.plan import Item, Plan, Step
from provision.spec import Driver, Engine, Gpu, Guest, Machine, Model, Service
from tests.unit.plan.seen import DPKG_L, Seen

KERNEL, NEXT = "6.8.12-4-pve", "6.14.11-4-pve"
VERSION = "580.159.04"
DRBD = f"drbd/9.2.11, {KERNEL}, x86_64: installed\n"
MODEL = Model(repo="a/b", revision="0" * 40)


def pinned(route: str = "nvidia", version: str = VERSION, flavour: str = "open", **more: object) -> Machine:
    driver = Driver(version=version, flavour=flavour, route=route)  # type: ignore[arg-type]
    return Machine(name="box", gpus=[Gpu(bdf="42:00.0", model="RTX A6000")], driver=driver, **more)  # type: ignore[arg-type]


def plain() -> Seen:
    """A Proxmox 8 with one A6000 that nothing speaks against."""
    seen = Seen().boots(KERNEL).put("pci", "/sys/bus/pci/devices", "").gpu("0000:42:00.0", driver="vfio-pci")
    seen.put("file", "/proc/driver/nvidia/version", None)
    seen.put("file", "/etc/os-release", 'ID=debian\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\n')
    return seen.cmd("dpkg-l", rows(("pve-manager", "8.4.1"), ("proxmox-default-kernel", "1.1.0"), HEADERS))


HEADERS = ("proxmox-default-headers", "1.1.0")


def rows(*packages: tuple[str, ...]) -> str:
    """``dpkg -l`` with these packages: name, version, and the letters of its state where it is not ``ii``."""
    lines = (f"{(*package, 'ii')[2]}  {package[0]}  {package[1]}  amd64  text\n" for package in packages)
    return DPKG_L + "".join(lines)


def judged(machine: Machine, host: Seen, installing: bool = True, rebooting: bool = False) -> Plan:
    item = Item(Step.DRIVER, "driver.install", "@local", "x", "install")
    return checks_plan(machine, host.snapshot, Plan("box", (item,) if installing else ()), rebooting)


def why(found: Plan) -> str:
    return "\n".join(map(str, found.refusals))


def told(found: Plan) -> str:
    return "\n".join(found.notes)


def served(machine: Machine, kind: str, version: str) -> Machine:
    service = Service(name="llm", engine=Engine(kind=kind, version=version), model=MODEL)
    guest = Guest(name="llm", backend="lxc", id="llm", gpus=["42:00.0"], services=[service])
    return machine.model_copy(update={"guests": (guest,)})
