"""Rules about what this process was given: device nodes, cgroup, /dev/shm, locked memory, environment."""

from __future__ import annotations

import re
from collections.abc import Iterator

from checks.data.environment import ENVIRONMENT
from checks.data.seat_limits import MEMLOCK_FAILS, MEMLOCK_SOURCE, MIB, SHARED
from checks.gpus.host_seat import Device, Seat
from checks.gpus.rule import Outcome, Scene, failed, passed, skipped, unknown, warned

Judged = Iterator[tuple[str, Outcome]]

_DRIVER_OF = {"nvidiactl": ("nvidiactl", "nvidia-frontend", "nvidia"), "nvidia-uvm": ("nvidia-uvm",)}
_GPU_DRIVERS = ("nvidia", "nvidia-frontend")
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_MAKE = "as root on the host: nvidia-modprobe -c 0 -u; kpro-devices.service does it at boot"


def gpus_wanted(scene: Scene) -> int:
    """How many GPUs the work here is about: what the caller expects, else what NVML shows."""
    count = scene.dump.count
    return scene.expect or (count if isinstance(count, int) else 0) or len(scene.dump.gpus)


def device_nodes(scene: Scene) -> Judged:
    """Are the driver's device nodes there, with its numbers, and may this process use them?"""
    seat = scene.node.seat
    if seat.devices is None:
        return
    if not seat.devices and not (seat.majors or gpus_wanted(scene)):
        yield "host", skipped("no NVIDIA driver, so no device node")
        return
    wrong = _wrong_numbers(seat)
    missing = [name for name in ("nvidiactl", "nvidia-uvm") if name not in seat.devices]
    minors = {gpu.number("nvmlDeviceGetMinorNumber") for gpu in scene.dump.gpus}
    missing += [
        f"nvidia{m}"
        for m in sorted(m for m in minors if isinstance(m, int))
        if f"nvidia{m}" not in seat.devices
    ]
    others = seat.others if _enough(scene, seat) else frozenset[int]()
    refused = [
        device.name
        for device in seat.devices.values()
        if _needed(device.name) and device.usable is False and not _of(device, others)
    ]
    if wrong:
        yield (
            "host",
            failed(
                f"device nodes with wrong numbers: {'; '.join(wrong)}",
                cause="the driver got other numbers at this boot than the node was made with; opening it reaches"
                " another driver or none",
                fix=f"remove the node and make it anew ({_MAKE}); a container must take its node from its host",
            ),
        )
    elif missing:
        yield "host", _missing(scene, missing)
    elif refused:
        modes = ", ".join(f"{name} ({seat.devices[name].mode})" for name in refused)
        if all(seat.devices[name].for_all for name in refused):
            yield (
                "host",
                failed(
                    f"the nodes let everybody in, and this process may not use /dev/{modes}",
                    cause="a device cgroup: the container was not given these numbers",
                    fix="see node.cgroup: allow them for the container, then restart it",
                ),
            )
            return
        fix = "run as a user or in a group that may use them, or set NVreg_DeviceFileMode=0666"
        yield "host", failed(f"this user may not read and write /dev/{modes}", fix=fix)
    else:
        apart = ", ".join(f"/dev/nvidia{minor}" for minor in sorted(others))
        more = f"; {apart}: not for this container, and its device cgroup keeps it closed" if others else ""
        yield (
            "host",
            passed(
                f"{len(seat.devices)} device nodes, the numbers are the driver's{more}",
                value=len(seat.devices),
            ),
        )


def _of(device: Device, minors: frozenset[int]) -> bool:
    return re.fullmatch(r"nvidia\d+", device.name) is not None and device.minor in minors


def _enough(scene: Scene, seat: Seat) -> bool:
    """A container that may use as many GPUs as are wanted does not miss the others of its host."""
    usable = [d for d in (seat.devices or {}).values() if re.fullmatch(r"nvidia\d+", d.name) and d.usable]
    return scene.node.container and len(usable) >= gpus_wanted(scene)


def _needed(name: str) -> bool:
    return name in ("nvidiactl", "nvidia-uvm") or re.fullmatch(r"nvidia\d+", name) is not None


def _missing(scene: Scene, missing: list[str]) -> Outcome:
    listed = ", ".join(f"/dev/{name}" for name in missing)
    inside = scene.node.container
    if missing == ["nvidia-uvm"]:
        made = "CUDA makes it on first use here (nvidia-modprobe is setuid root)"
        if scene.node.seat.modprobe and not inside:
            return warned(
                f"{listed} is missing; {made}", fix="nvidia-modprobe -u -c 0 before a service starts"
            )
        fix = "pass /dev/nvidia-uvm and its major number into the container" if inside else _MAKE
        return failed(
            f"{listed} is missing: CUDA will not start here, although nvidia-smi works",
            cause="unified memory's node is made on its own, and nobody made it or passed it in",
            fix=fix,
        )
    fix = "pass the nodes into the container (nvidiactl, nvidia-uvm and one per GPU)" if inside else _MAKE
    return failed(f"{listed} missing: programs cannot reach the driver", fix=fix)


def _wrong_numbers(seat: Seat) -> list[str]:
    majors = seat.majors
    if not majors:
        return []
    return [text for device in (seat.devices or {}).values() if (text := _wrong(device, majors))]


def _wrong(device: Device, majors: dict[str, frozenset[int]]) -> str | None:
    drivers = _DRIVER_OF.get(device.name, _GPU_DRIVERS if re.fullmatch(r"nvidia\d+", device.name) else ())
    right = frozenset[int]().union(*(majors.get(driver, frozenset()) for driver in drivers))
    if right and device.major not in right:
        return f"/dev/{device.name} has major {device.major}, the driver {'/'.join(map(str, sorted(right)))}"
    number = re.fullmatch(r"nvidia(\d+)", device.name)
    minor = int(number[1]) if number else {"nvidiactl": 255, "nvidia-uvm": 0}.get(device.name)
    if minor is not None and device.minor != minor:
        return f"/dev/{device.name} has minor {device.minor}, it must be {minor}"
    return None


def cgroup(scene: Scene) -> Judged:
    """Does a device cgroup keep this process from nodes that it sees? Only an open shows it."""
    seat = scene.node.seat
    if not seat.opened or not seat.devices:
        return
    there = {name: said for name, said in seat.opened.items() if name in seat.devices}
    denied = [name for name, said in there.items() if said == "EPERM"]
    hung = [name for name, said in there.items() if said == "ETIMEDOUT"]
    dead = [f"{name} ({said})" for name, said in there.items() if said in ("ENXIO", "ENODEV", "EIO")]
    if denied:
        names = ", ".join(f"/dev/{name}" for name in denied)
        numbers = ", ".join(f"{seat.devices[name].major}:{seat.devices[name].minor}" for name in denied)
        yield (
            "host",
            failed(
                f"{names} is there, and opening it is not permitted: the device cgroup leaves it out",
                cause="the container was not given these numbers, or 'systemctl daemon-reload' took them away",
                fix=f"allow c {numbers} rwm for the container (LXC: lxc.cgroup2.devices.allow), then restart it",
            ),
        )
    elif hung:
        yield "host", unknown(f"opening /dev/{hung[0]} gave no answer in time", fix="see driver.responds")
    elif dead:
        fix = "see driver.loaded and node.device_nodes; modprobe nvidia-uvm on the host"
        yield "host", failed(f"no driver answers behind /dev/{', /dev/'.join(dead)}", fix=fix)
    elif there and all(said == "OK" for said in there.values()):
        yield "host", passed(f"{' and '.join(there)} can be opened")


def shm(scene: Scene) -> Judged:
    """Is /dev/shm of this very process large enough? Containers get 64 MiB by default."""
    seat, gpus = scene.node.seat, gpus_wanted(scene)
    if seat.shm is None and seat.shm_error is None:
        return
    row = next((row for row in SHARED if gpus >= row.gpus), None)
    if row is None:
        yield "host", skipped("no GPU here, so nobody needs shared memory for one")
        return
    fix = "a larger one: docker --shm-size=8g or --ipc=host; LXC and systemd: mount tmpfs with size=8g"
    if seat.shm is None:
        yield "host", failed(f"/dev/shm cannot be used: {seat.shm_error}", cause=row.source, fix=fix)
        return
    size, free = seat.shm
    text = f"/dev/shm has {_mib(free)} of {_mib(size)} free"
    if free < row.fails:
        cause = "NCCL and the engine's processes exchange data there and end with 'unhandled system error'"
        if size >= row.warns:
            fix = "see what fills it (ls -l /dev/shm): leftovers of killed processes may be removed"
        yield "host", failed(f"{text}: too little for {gpus} GPUs", value=free // MIB, limit=row.fails // MIB,
                             unit="MiB", cause=cause, fix=fix)  # fmt: skip
    elif free < row.warns:
        yield "host", warned(f"{text}, which may be little for {gpus} GPUs", value=free // MIB,
                             limit=row.warns // MIB, unit="MiB", cause=row.source, fix=fix)  # fmt: skip
    else:
        yield "host", passed(text, value=free // MIB, limit=row.warns // MIB, unit="MiB")


def _mib(size: int) -> str:
    return f"{size / MIB:.0f} MiB" if size < 10 << 30 else f"{size / (1 << 30):.0f} GiB"


def memlock(scene: Scene) -> Judged:
    """May this process lock memory for RDMA? Without an RDMA device in use nobody asks."""
    seat, cards = scene.node.seat, scene.node.rdma
    if seat.memlock is None:
        return
    said = "unlimited" if seat.memlock < 0 else f"{seat.memlock // 1024} KiB"
    if not cards:
        yield "host", skipped(f"no RDMA device is in use (the limit is {said})", value=said)
    elif seat.memlock < 0 or seat.may_lock:
        yield "host", passed(f"memory may be locked without limit ({said})", value=said)
    else:
        # RoCE is on by default on Ethernet cards, in use or not; InfiniBand is there to be used.
        verdict = failed if seat.memlock < MEMLOCK_FAILS and scene.node.bus.infiniband else warned
        yield (
            "host",
            verdict(
                f"at most {said} may be locked, and {', '.join(cards[:3])} is in use",
                value=said,
                limit="unlimited",
                cause=f"registering memory with the network card fails: {MEMLOCK_SOURCE}",
                fix="LimitMEMLOCK=infinity in the unit, docker --ulimit memlock=-1, or ulimit -l unlimited",
            ),
        )


def environment(scene: Scene) -> Judged:
    """Variables that harm GPU programs or were left over from a hunt for a fault."""
    variables = scene.node.seat.environment
    if scene.node.seat.environment_error is not None:
        text = f"the environment could not be read: {scene.node.seat.environment_error}"
        yield "host", unknown(text, fix="run provcheck as root or as the user of that process")
        return
    if variables is None:
        return
    hits = []
    for name, value in sorted(variables.items()):
        row = ENVIRONMENT.get(name)
        if row is not None and value is not None and re.fullmatch(row.bad, value):
            hits.append((row, value))
    hidden = _hidden(scene, variables)
    if hidden is not None and not any(row.name == _VISIBLE for row, _ in hits):
        hits.append(
            (ENVIRONMENT[_VISIBLE]._replace(what=hidden, warns=bool(scene.expect)), variables[_VISIBLE] or "")
        )
    if not hits:
        yield "host", passed("no variable that is known to harm", value=0, limit=0)
        return
    text = "; ".join(f"{row.name}={value}: {row.what}" for row, value in hits[:4])
    more = f"; and {len(hits) - 4} more" if len(hits) > 4 else ""
    worst = [row for row, _ in hits if row.warns] or [hits[0][0]]
    sources = ", ".join(dict.fromkeys(row.source for row in worst))
    verdict = warned if worst[0].warns else passed
    yield "host", verdict(text + more, value=len(hits), limit=0, cause=sources, fix=worst[0].fix)


def _hidden(scene: Scene, variables: dict[str, str | None]) -> str | None:
    """A list of fewer GPUs than there are: meant as a rule, and told; a warning where all of them are expected."""
    value, gpus = variables.get(_VISIBLE), gpus_wanted(scene)
    named = [one for one in (value or "").split(",") if one.strip()]
    if not named or len(named) >= gpus:
        return None
    return f"{len(named)} of {gpus} GPUs are visible to CUDA programs"
