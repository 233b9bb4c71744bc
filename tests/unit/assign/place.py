"""A Proxmox machine with two A6000, each with a container of ours that runs with it."""

from __future__ import annotations

import json

from checks.bdf import Bdf
from provision.assign.decide import Decided, decide
from provision.assign.handover import Handover, To
from provision.driver.archive import Prebuilt
from provision.guest.decide import Container, container_plan
from provision.host import assigned, view
from provision.plan import Item, Plan
from provision.planner import Observed, Wanted, plan_machine
from provision.spec import Driver, Gpu, Guest, Machine
from provision.stack.decide import Shipped
from tests.unit.plan import pile
from tests.unit.plan.pile import FIRST, SECOND
from tests.unit.plan.seen import Seen

RUN, EARLIER = "20261130T010203Z-aaaaaa", "20261129T010203Z-bbbbbb"
CONF = "/etc/pve/nodes/pve/qemu-server/{}.conf"
WORKSTATION = "boot: order=scsi0\ncores: 8\nmachine: q35\nname: workstation\nonboot: 0\n"


def machine(backend: str = "lxc") -> Machine:
    ids = ("201", "202")
    return Machine(
        name="box",
        reboot="allowed",
        gpus=[Gpu(bdf=bdf, model="RTX A6000") for bdf in (FIRST, SECOND)],
        driver=Driver(version=pile.VERSION, flavour="open", route="prebuilt"),
        guests=[
            Guest(name=name, backend=backend, id=id, gpus=[bdf], userspace="packages")
            for name, id, bdf in zip(("one", "two"), ids, (FIRST, SECOND), strict=True)
        ],
    )


class Place:
    """What was seen of the machine; each test spoils one thing."""

    def __init__(self, of: Machine) -> None:
        self.machine = of
        seen = Seen().boots().tools(*view.TOOLS, *view.LXC_TOOLS, view.ROOT_TOOL, "pct", "apparmor_parser")
        seen.cmd("id-u", "0\n").put("pci", "/sys/bus/pci/devices", "").no_root_yet()
        seen.put("file", "/etc/modprobe.d/nouveau.conf", "blacklist nouveau\n")
        seen.put("file", "/etc/kpro/test-host", None).put("stat", "/etc/kpro/test-host", None)
        seen.put("file", "/sys/module/apparmor/parameters/enabled", None)
        for path in ("/proc/net/tcp", "/proc/net/tcp6"):
            seen.put("file", path, None)
        for number, bdf in enumerate((FIRST, SECOND), 1):
            seen.gpu(bdf, "nvidia", str(number)).audio(f"{bdf[:-1]}1", "snd_hda_intel", str(number))
        pile.loaded(seen).driver(pile.VERSION)
        pile.noded(seen, of=of)
        self.seen = seen
        self.pve()
        seen.cmd("lxc-path", "/var/lib/lxc\n").cmd("lxc-ls", "201\n202\n")
        for guest in of.guests:
            seen.cmd(f"lxc-info-{guest.id}", "RUNNING\n").put("file", f"/run/kpro/guests/{guest.id}", None)
            seen.cmd(f"lxc-config-{guest.id}", self.config(guest))
            seen.cmd(f"pct-status-{guest.id}", "status: running\n")

    def config(self, guest: Guest) -> str:
        """The configuration of a container of ours that serves."""
        if guest.backend == "pct":
            return ""
        mark = f"# Written by kpro for {self.machine.name}/{guest.name}."
        self.seen.cmd(f"lxc-config-{guest.id}", mark)
        found = container_plan(self.machine, guest, self.seen.snapshot)
        (payload,) = {item.payload for item in found.items if item.kind == "container.configure"}
        assert isinstance(payload, Container)
        return payload.config

    def pve(self, **files: str) -> Place:
        """A node named pve; ``files`` are the virtual machines' own, by vmid with a v before it."""
        self.seen.put("vms", "/etc/pve", "pve\n").put("link", "/etc/pve/local", "nodes/pve")
        for path in ("/etc/pve/mapping/pci.cfg", "/etc/pve/ha/resources.cfg", "/proc/sys/kernel/hostname"):
            if ("file", path) not in self.seen.sections:
                self.seen.put("file", path, None)
        for name, text in files.items():
            vmid = name.removeprefix("v")
            self.seen.put("file", CONF.format(vmid), text).put("file", f"/run/qemu-server/{vmid}.pid", None)
            self.seen.cmd(f"qm-status-{vmid}", "status: stopped\n")
        return self

    def recorded(self, *bdfs: str, run: str = EARLIER) -> Place:
        """The record says that virtual machines have these GPUs."""
        self.seen.put("file", assigned.PATH, assigned.dump({Bdf.parse(bdf): run for bdf in bdfs}))
        return self

    def on_vfio(self, bdf: str) -> Place:
        number = bdf[6]
        self.seen.gpu(bdf, "vfio-pci", number, "vfio-pci").audio(f"{bdf[:-1]}1", "vfio-pci", number)
        self.seen.sections.pop(("file", f"/proc/driver/nvidia/gpus/{bdf}/information"), None)
        return self

    def decided(self, to: To | None = None, bdf: str = SECOND, vmid: str | None = None) -> Decided:
        wanted = Handover(Bdf.parse(bdf), to, RUN, vmid) if to else None
        return decide(self.machine, self.seen.snapshot, wanted)

    def plan(self, to: To | None = None, bdf: str = SECOND, vmid: str | None = None) -> Plan:
        """The whole chain's plan; nothing is in the containers yet."""
        wanted = Handover(Bdf.parse(bdf), to, RUN, vmid) if to else None
        shipped = Shipped("/x/provcheck.pyz", "a" * 64)
        brought = Wanted(
            {"one": (), "two": ()}, shipped, None, (Prebuilt(pile.VERSION, "open", "6.1.0-50-amd64"),)
        )
        return plan_machine(
            self.machine, brought, Observed(self.seen.snapshot, {"one": None, "two": None}), wanted
        )


def kinds(found: Plan) -> list[str]:
    return [item.kind for item in found.items]


def item(found: Plan, kind: str) -> Item:
    (only,) = (item for item in found.items if item.kind == kind)
    return only


def refused(found: Plan) -> str:
    return "\n".join(map(str, found.refusals))


def record(found: Plan) -> dict[str, str]:
    """Which GPUs the record is to name, with their runs."""
    (edit,) = item(found, "assign.record").payload.files
    return {bdf: entry["run"] for bdf, entry in json.loads(edit.data)["vm"].items()}
