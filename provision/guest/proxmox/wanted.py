"""What a guest needs of its Proxmox container, from its spec and what was seen of the machine. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from checks.bdf import Bdf
from checks.snapshot import CouldNotLook, Snapshot
from provision.guest import locality, userspace
from provision.guest.proxmox import storage
from provision.guest.proxmox.edit import GPU_NODE, Place, Wanted
from provision.guest.proxmox.grammar import Conf
from provision.guest.proxmox.lines import device_path, mount_point
from provision.guest.reach import UID
from provision.host import nodes, view
from provision.plan import Refusal
from provision.spec import Guest, Machine

MODELS = "/srv/models"
"""Where a guest's services find their weights (provision.spec_service.Model)."""

KEYS = (("onboot", "1"), ("swap", "0"))
"""It comes back after a reboot; weights and key-value caches are never swapped out."""


@dataclass(frozen=True)
class Needs:
    """``exact``: the device nodes are those that the GPUs have now, not a guess."""

    wanted: Wanted
    exact: bool
    refusals: tuple[Refusal, ...]
    notes: tuple[str, ...]


def needs(machine: Machine, guest: Guest, snapshot: Snapshot, conf: Conf, where: str, early: bool) -> Needs:
    """``early``: steps that change GPUs or their nodes come first. Raises CouldNotLook."""
    refusals: list[Refusal] = []
    notes: list[str] = []
    paths = _nodes(machine, guest, snapshot, where, early, refusals, notes)
    place = locality.locality(snapshot, guest)
    notes += [place.note] if place.note else []
    raw = [("lxc.prlimit.memlock", "unlimited")] if guest.gpus else []
    if place.cpus and locality.cgroup(snapshot) == "cgroup2":
        raw.append(("lxc.cgroup2.cpuset.cpus", place.cpus))
        raw += [("lxc.cgroup2.cpuset.mems", place.mems)] if place.mems else []
    if guest.shm_mib is not None:
        size = f"tmpfs dev/shm tmpfs rw,nosuid,nodev,size={guest.shm_mib}m,create=dir 0 0"
        raw.append(("lxc.mount.entry", size))
    refusals += _foreign(machine, guest, snapshot, conf, where, notes)
    refusals += weights(guest, conf, where)
    wanted = Wanted(paths, _places(machine, guest, snapshot), True, KEYS, tuple(raw), UID)
    return Needs(wanted, not early, tuple(refusals), tuple(notes))


def _places(machine: Machine, guest: Guest, snapshot: Snapshot) -> tuple[Place, ...]:
    try:
        cfg = snapshot.text(storage.FILE)
    except CouldNotLook:
        cfg = None
    found = [
        Place(mount.source, mount.target, mount.read_only, storage.on_shared(cfg, mount.source))
        for mount in guest.mounts
    ]
    if userspace.wants(machine, guest):
        found.append(Place(userspace.FOLDER, userspace.MOUNTED))
    return tuple(found)


def _nodes(
    machine: Machine,
    guest: Guest,
    snapshot: Snapshot,
    where: str,
    early: bool,
    refusals: list[Refusal],
    notes: list[str],
) -> tuple[str, ...]:
    if not guest.gpus:
        return ()
    minors = view.minors(snapshot)
    unknown = [bdf for bdf in guest.gpus if Bdf.parse(bdf) not in minors]
    if unknown and not early:
        refusals.append(
            Refusal(
                f"{where}.gpus",
                "; ".join(f"{bdf} has no entry in /proc/driver/nvidia/gpus" for bdf in unknown),
                "its device node is not known",
                "load the driver on the machine: modprobe -a nvidia nvidia-uvm; nvidia-modprobe -u -c 0",
            )
        )
    paths = [f"/dev/nvidia{minors[Bdf.parse(bdf)]}" for bdf in guest.gpus if Bdf.parse(bdf) in minors]
    paths += ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"]
    if early:
        return tuple(paths)
    there = _present(snapshot)
    if there is None:
        return tuple(paths)
    missing = [path for path in paths if path not in there]
    if "/dev/nvidia-uvm-tools" in missing and not machine.managed:
        # For profilers only, and a node that is missing keeps the container from starting.
        paths.remove("/dev/nvidia-uvm-tools")
        missing.remove("/dev/nvidia-uvm-tools")
        notes.append(f"{guest.name}: the machine has no /dev/nvidia-uvm-tools, so it is not passed in")
    if missing and not machine.managed:
        refusals.append(
            Refusal(
                f"{where}.gpus",
                f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not there",
                "a container with a devN whose node is missing does not start",
                "nvidia-modprobe -c 0 (one -c for each GPU), then nvidia-modprobe -u -c 0, also at each boot",
            )
        )
    return tuple(paths)


def requests(machine: Machine) -> list[str]:
    """What the snapshot has to look at for the nodes."""
    return [request for request in nodes.requests(machine) if request.startswith("cmd:device-nodes:")]


def _present(snapshot: Snapshot) -> frozenset[str] | None:
    """The device nodes that are there; None when it was not looked at."""
    try:
        output = snapshot.command("device-nodes")[1]
    except CouldNotLook:
        return None
    rows = [line.split(" ", 3) for line in output.splitlines()]
    return frozenset(row[0] for row in rows if len(row) == 4 and row[3] == "character special file")


def _foreign(
    machine: Machine, guest: Guest, snapshot: Snapshot, conf: Conf, where: str, notes: list[str]
) -> list[Refusal]:
    """GPUs that the container has and the inventory does not give it. One that another guest is given is refused."""
    owner = {minor: bdf for bdf, minor in view.minors(snapshot).items()}
    given = {Bdf.parse(bdf): other for other in machine.guests for bdf in other.gpus}
    found = []
    for line in conf.options().values():
        path = device_path(line) if line.key.startswith("dev") else ""
        bdf = owner.get(int(path.removeprefix("/dev/nvidia"))) if GPU_NODE.fullmatch(path) else None
        if bdf is None or given.get(bdf) == guest:
            continue
        other = given.get(bdf)
        if other is None:
            notes.append(
                f"{guest.name}: {line.key} passes in {path} ({bdf}), which the inventory does not give it"
            )
        else:
            found.append(
                Refusal(
                    f"{where}.gpus",
                    f"line {line.number} of container {guest.id} passes in {path}, which is {bdf}",
                    f"the inventory gives that GPU to {other.name}, and two services would use it",
                    f"pct set {guest.id} -delete {line.key}, or correct the inventory",
                )
            )
    return found


def weights(guest: Guest, conf: Conf, where: str) -> list[Refusal]:
    """Weights lie in a mount of their own: in the container's root file system they would be in every backup of it,
    and no other container could use them."""
    if not guest.services:
        return []
    targets = [mount.target for mount in guest.mounts]
    targets += [
        mount_point(line)
        for key, line in conf.effective().items()
        if key.startswith("mp") and key[2:].isdecimal()
    ]
    if any(f"{MODELS}/".startswith(f"{target.rstrip('/')}/") for target in targets if target.strip("/")):
        return []
    return [
        Refusal(
            f"{where}.mounts",
            f"nothing is mounted at {MODELS}",
            "the weights would go into the container's root file system: into each of its backups, and out of reach "
            "of other containers",
            f'mounts=[Mount(source="/tank/models", target="{MODELS}", read_only=False)]',
        )
    ]
