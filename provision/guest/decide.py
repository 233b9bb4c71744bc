"""Step 6 for a guest: does the container exist, is it ours, is it configured as wanted, does it run. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from checks.bdf import Bdf
from checks.snapshot import CouldNotLook, Snapshot
from provision.guest import ours, userspace
from provision.host import marked, view
from provision.plan import Item, Plan, Refusal, Step
from provision.spec import Guest, Machine
from provision.stack.desired import sha256
from provision.templates import render

UVM_TOOLS = "/dev/nvidia-uvm-tools"
"""For profilers only: a machine that never made this node has containers all the same."""


@dataclass(frozen=True)
class Container:
    """What the acts of step 6 need: where the container lies and what its configuration is to be. ``early``: it was
    decided while steps before were still to be done, and is not the configuration yet."""

    guest: Guest
    lxcpath: str
    config: str
    early: bool = False

    @property
    def folder(self) -> str:
        return f"{self.lxcpath}/{self.guest.id}"


def container_plan(machine: Machine, guest: Guest, snapshot: Snapshot, metal: Sequence[Item] = ()) -> Plan:
    """What step 6 has to do for this guest on its host. ``metal`` are the items of steps 2-5 that come before: what
    depends on them is planned, and decided when they are done."""
    where = f"machine.guests[{machine.guests.index(guest)}]"
    try:
        state = view.guest_state(snapshot, guest)
        if guest.backend == "pct":
            return _proxmox(machine, guest, snapshot, state, where, metal)
        return _lxc(machine, guest, snapshot, state, where, metal)
    except CouldNotLook as error:
        refusal = Refusal(
            where,
            str(error),
            "a container in an unknown state is never taken for absent",
            f"look at it: {'pct status' if guest.backend == 'pct' else 'lxc-info -n'} {guest.id}",
        )
        return Plan(machine.name, (), (refusal,))


def _proxmox(
    machine: Machine, guest: Guest, snapshot: Snapshot, state: str, where: str, metal: Sequence[Item]
) -> Plan:
    """A Proxmox container is started; what its configuration lacks is named with the command that adds it."""
    if state != "absent":
        start = Item(
            Step.CONTAINER,
            "container.start",
            machine.host_name,
            guest.name,
            f"start container {guest.id}",
            guest,
        )
        items = (start,) if state == "stopped" or _reboots(metal) else ()
        return Plan(machine.name, items, tuple(_proxmox_lacks(guest, snapshot, where, bool(metal))))
    refusal = Refusal(
        where,
        f"Proxmox container {guest.id} does not exist",
        "Proxmox containers are configured here, and made by the operator, who knows storage and network",
        f"pct create {guest.id} <template> --hostname {guest.name} --unprivileged {int(guest.unprivileged)} "
        "--features nesting=1 --rootfs <storage>:64 --net0 name=eth0,bridge=vmbr0,ip=dhcp",
    )
    return Plan(machine.name, (), (refusal,))


def _reboots(metal: Sequence[Item]) -> bool:
    """A container that does not start by itself is to be started again then."""
    return any(item.step is Step.REBOOT for item in metal)


def _stops(metal: Sequence[Item], guest: Guest) -> bool:
    """An exchange of the driver stops it: it is started again, with what it is to be configured as then."""
    return any(item.kind == "guests.stop" and item.subject == guest.name for item in metal)


def _proxmox_lacks(guest: Guest, snapshot: Snapshot, where: str, early: bool) -> list[Refusal]:
    """GPUs and folders that the current section of the container's file does not name (snapshots come after the
    first ``[``). While the minors are not known, there must be as many nodes as GPUs: the driver counts from 0."""
    path = f"/etc/pve/lxc/{guest.id}.conf"
    current = (snapshot.text(path) or "").split("\n[")[0]
    minors = view.minors(snapshot)
    nodes = [f"/dev/nvidia{minors[Bdf.parse(bdf)]}" for bdf in guest.gpus if Bdf.parse(bdf) in minors]
    if early:
        there = re.findall(r"/dev/nvidia\d+(?![\w-])", current)
        nodes = (
            [f"/dev/nvidia{number}" for number in range(len(guest.gpus))]
            if len(set(there)) < len(guest.gpus)
            else []
        )
    nodes += ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"] if guest.gpus else []
    missing = [node for node in nodes if not re.search(rf"{node}(?![\w-])", current)]
    unmounted = [mount for mount in guest.mounts if f"{mount.source},mp={mount.target}" not in current]
    free = (number for number in range(256) if not re.search(rf"^dev{number}:", current, re.MULTILINE))
    options = [f"-dev{number} {node},mode=0666" for node, number in zip(missing, free, strict=False)]
    free = (number for number in range(256) if not re.search(rf"^mp{number}:", current, re.MULTILINE))
    for mount, number in zip(unmounted, free, strict=False):
        options.append(f"-mp{number} {mount.source},mp={mount.target}{',ro=1' if mount.read_only else ''}")
    if not options:
        return []
    return [
        Refusal(
            where,
            f"{path} does not pass in " + ", ".join([*missing, *(mount.source for mount in unmounted)]),
            "the service would not find its GPUs or its files",
            f"pct set {guest.id} {' '.join(options)}, then restart the container when its users can spare it",
        )
    ]


def _lxc(
    machine: Machine, guest: Guest, snapshot: Snapshot, state: str, where: str, metal: Sequence[Item]
) -> Plan:
    host = machine.host_name
    refusals: list[Refusal] = []
    if guest.unprivileged:
        refusals.append(
            Refusal(
                f"{where}.unprivileged",
                "an unprivileged container is wanted with backend='lxc'",
                "its files would need shifted owners, which this backend does not make",
                "set unprivileged=False, or use backend='pct'",
            )
        )
    early = bool(metal and guest.gpus)
    config = _config(machine, guest, snapshot, [] if early else refusals, where)
    container = Container(guest, _lxcpath(snapshot), config, early)
    items: list[Item] = []

    def add(step: Step, kind: str, text: str) -> None:
        items.append(Item(step, kind, host, guest.name, text, container))

    if state == "absent":
        add(
            Step.CONTAINER,
            "container.create",
            f"create container {guest.id} ({guest.suite}) in {container.folder}",
        )
        add(Step.CONTAINER, "container.start", f"start container {guest.id}")
        return Plan(machine.name, tuple(items), tuple(refusals))
    code, current = snapshot.command(f"lxc-config-{guest.id}")
    if code != 0:
        raise CouldNotLook(
            f"the configuration of container {guest.id} cannot be read: {current.strip()[:200]}"
        )
    if not current.startswith(_mark(machine, guest)):
        refusals.append(
            Refusal(
                f"{where}.id",
                f"container {guest.id} exists and was not made for {machine.name}/{guest.name}",
                "a container that somebody else configured is not touched",
                "choose another id, or remove that container yourself",
            )
        )
        return Plan(machine.name, (), tuple(refusals))
    if early or current != container.config:
        add(Step.CONTAINER, "container.configure", f"write the configuration of container {guest.id}")
    if state == "stopped" or _reboots(metal) or _stops(metal, guest):
        add(Step.CONTAINER, "container.start", f"start container {guest.id}")
    stale = (
        early or current != container.config or _started_with(snapshot, guest) not in (None, sha256(current))
    )
    if state == "running" and stale and not _stops(metal, guest):
        add(Step.SERVICE, "container.restart", f"restart container {guest.id}: its configuration changed")
    return Plan(machine.name, tuple(items), tuple(refusals))


def _lxcpath(snapshot: Snapshot) -> str:
    code, output = snapshot.command("lxc-path")
    if code != 0 or not output.strip().startswith("/"):
        raise CouldNotLook(f"lxc-config lxc.lxcpath ended with {code}: {output.strip()[:200]}")
    return output.strip()


def _mark(machine: Machine, guest: Guest) -> str:
    return ours.mark(machine, guest)


def _started_with(snapshot: Snapshot, guest: Guest) -> str | None:
    text = snapshot.text(f"/run/kpro/guests/{guest.id}")
    return text.strip() if text else None


def _config(machine: Machine, guest: Guest, snapshot: Snapshot, refusals: list[Refusal], where: str) -> str:
    """The text of the container's configuration; device nodes by the minors that the GPUs have now."""
    nodes: list[str] = []
    majors: list[int] = []
    if guest.gpus:
        minors, known = view.minors(snapshot), view.majors(snapshot)
        missing = [bdf for bdf in guest.gpus if Bdf.parse(bdf) not in minors]
        unknown = [
            name for name in ("nvidia", "nvidia-uvm") if name not in known and not _frontend(name, known)
        ]
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
        nodes = [f"/dev/nvidia{minors[Bdf.parse(bdf)]}" for bdf in guest.gpus if Bdf.parse(bdf) in minors]
        nodes += ["/dev/nvidiactl", "/dev/nvidia-uvm", UVM_TOOLS]
        majors = sorted(
            {known.get(name) or known.get(f"{name}-frontend") or 195 for name in ("nvidia", "nvidia-uvm")}
        )
    return render(
        "lxc.config.j2",
        machine=machine.name,
        guest=guest.name,
        root=f"{_lxcpath(snapshot)}/{guest.id}/rootfs",
        apparmor=_has_apparmor(snapshot),
        network=guest.network,
        majors=majors,
        nodes=nodes,
        tools=UVM_TOOLS,
        mounts=guest.mounts,
        userspace=userspace.FOLDER if userspace.wants(machine, guest) else None,
        mounted=userspace.MOUNTED,
        marked=marked.is_test_host(snapshot),
    )


def _has_apparmor(snapshot: Snapshot) -> bool:
    """LXC loads the profile that it generates with apparmor_parser: without it a confined container does not start."""
    enabled = (snapshot.text("/sys/module/apparmor/parameters/enabled") or "").strip() == "Y"
    return enabled and snapshot.has_tool("apparmor_parser")


def _frontend(name: str, known: dict[str, int]) -> bool:
    """Drivers before 545 register the main major as nvidia-frontend."""
    return f"{name}-frontend" in known
