"""The configuration of a plain LXC container, as it is to be. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from checks.bdf import Bdf
from checks.snapshot import Snapshot
from provision.guest import locality, userspace
from provision.guest.idmap import Ids
from provision.guest.mounts import mounts
from provision.host import marked, view
from provision.plan import Refusal
from provision.spec import Guest, Machine
from provision.templates import render

UVM_TOOLS = "/dev/nvidia-uvm-tools"
"""For profilers only: a machine that never made this node has containers all the same."""


@dataclass(frozen=True)
class Wanted:
    """The container that a configuration is for; ``ids``: whose its files are, None for the machine's own root."""

    machine: Machine
    guest: Guest
    lxcpath: str
    ids: Ids | None


def wanted_config(
    wanted: Wanted, snapshot: Snapshot, refusals: list[Refusal], where: str
) -> tuple[str, tuple[str, ...]]:
    """The text, with device nodes by the minors that the GPUs have now, and notes on what could not be done for it."""
    machine, guest = wanted.machine, wanted.guest
    nodes, numbers = _devices(guest, snapshot, refusals, where)
    place = locality.locality(snapshot, guest)
    text = render(
        "lxc.config.j2",
        machine=machine.name,
        guest=guest.name,
        root=f"{wanted.lxcpath}/{guest.id}/rootfs",
        ids=wanted.ids,
        apparmor=_has_apparmor(snapshot),
        network=guest.network,
        numbers=numbers,
        nodes=nodes,
        tools=UVM_TOOLS,
        place=place,
        cgroup=locality.cgroup(snapshot) if place.cpus else None,
        shm_mib=guest.shm_mib,
        mounts=mounts(machine, guest),
        userspace=userspace.FOLDER if userspace.wants(machine, guest) else None,
        mounted=userspace.MOUNTED,
        marked=marked.is_test_host(snapshot),
    )
    return text, (place.note,) if place.note else ()


def _devices(
    guest: Guest, snapshot: Snapshot, refusals: list[Refusal], where: str
) -> tuple[list[str], list[str]]:
    """Device nodes, and the numbers ``MAJOR:MINOR`` of those devices and no others: common.conf lets every container
    make any node, and NVIDIA's library makes those of all GPUs for root, so the rules alone keep it from opening a GPU
    that is another's. Nodes of MIG instances (/dev/nvidia-caps) have a major of their own, and are in neither."""
    if not guest.gpus:
        return [], []
    minors, known = view.minors(snapshot), view.majors(snapshot)
    # Drivers before 545 register the main major as nvidia-frontend.
    main, uvm = known.get("nvidia") or known.get("nvidia-frontend"), known.get("nvidia-uvm")
    missing = [bdf for bdf in guest.gpus if Bdf.parse(bdf) not in minors]
    unknown = [name for name, major in (("nvidia", main), ("nvidia-uvm", uvm)) if major is None]
    if missing or unknown:
        refusals.append(
            Refusal(
                f"{where}.gpus",
                "; ".join(
                    [f"{bdf} has no entry in /proc/driver/nvidia/gpus" for bdf in missing]
                    + [f"/proc/devices has no {name}" for name in unknown]
                ),
                "its device node is not known",
                "load the driver on the machine: modprobe -a nvidia nvidia-uvm; nvidia-modprobe -u -c 0",
            )
        )
    own = [minors[Bdf.parse(bdf)] for bdf in guest.gpus if Bdf.parse(bdf) in minors]
    devices = [(f"/dev/nvidia{minor}", main, minor) for minor in own]
    devices += [("/dev/nvidiactl", main, 255), ("/dev/nvidia-uvm", uvm, 0), (UVM_TOOLS, uvm, 1)]
    numbers = [f"{major}:{minor}" for _, major, minor in devices if major is not None]
    return [path for path, _, _ in devices], numbers


def _has_apparmor(snapshot: Snapshot) -> bool:
    """LXC loads the profile that it generates with apparmor_parser: without it a confined container does not start."""
    enabled = (snapshot.text("/sys/module/apparmor/parameters/enabled") or "").strip() == "Y"
    return enabled and snapshot.has_tool("apparmor_parser")
