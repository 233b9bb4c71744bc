"""A container's settings on the source, and what they become on the target: its inventory counts. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from provision.guest.mounts import mounts
from provision.migrate.ends import End, Pair


@dataclass(frozen=True)
class Setting:
    """One setting on both ends; ``why`` where they differ."""

    what: str
    source: str
    target: str
    why: str = ""

    @property
    def same(self) -> bool:
        return self.source == self.target

    def as_dict(self) -> dict[str, str]:
        return {"what": self.what, "source": self.source, "target": self.target, "why": self.why}


def settings(pair: Pair) -> tuple[Setting, ...]:
    """What the container of the target is made from, beside what the source's is."""
    one, two = pair.ends
    rows = [
        ("container", _id(one), _id(two), "of its own machine"),
        ("suite", one.guest.suite, two.guest.suite, "Python and glibc are the suite's"),
        ("unprivileged", _yes(one.guest.unprivileged), _yes(two.guest.unprivileged), ""),
        ("network", one.guest.network, two.guest.network, "the net is the machine's"),
        ("GPUs", _gpus(one), _gpus(two), "addresses are the machine's; device nodes are looked up there"),
        (
            "NVIDIA user space",
            one.guest.userspace,
            two.guest.userspace,
            "it has to be that of the machine's driver",
        ),
        ("/dev/shm", _shm(one), _shm(two), ""),
        ("NUMA", one.guest.numa, two.guest.numa, ""),
        ("folders", _mounts(one), _mounts(two), "sources are the machine's"),
        ("memory and cores", _proxmox(one), _proxmox(two), ""),
        ("listens on", _listens(one), _listens(two), "clients or proxy have to know"),
    ]
    return tuple(Setting(what, here, there, "" if here == there else why) for what, here, there, why in rows)


def _id(end: End) -> str:
    return f"{end.guest.backend} {end.guest.id}"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _gpus(end: End) -> str:
    models = {gpu.bdf: gpu.model for gpu in end.machine.gpus}
    return ", ".join(f"{bdf} ({models.get(bdf, '?')})" for bdf in end.guest.gpus) or "none"


def _shm(end: End) -> str:
    return f"{end.guest.shm_mib} MiB" if end.guest.shm_mib else "half of the machine's memory"


def _mounts(end: End) -> str:
    shown = mounts(end.machine, end.guest)
    return (
        ", ".join(f"{one.source} at {one.target}{'' if one.read_only else ', writable'}" for one in shown)
        or "none"
    )


def _proxmox(end: End) -> str:
    if end.guest.backend != "pct" or end.guest.proxmox is None:
        return "as the machine gives them"
    made = end.guest.proxmox
    return (
        f"{made.memory_mib} MiB, {made.cores or 'all'} cores, root of {made.size_gib} GiB on {made.storage}"
    )


def _listens(end: End) -> str:
    return f"{end.service.listen}:{end.service.port}"
