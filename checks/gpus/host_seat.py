"""What this very process was given: device nodes, /dev/shm, locked memory, environment, processors.

``look`` observes, ``parse`` types the sections of any record. The device nodes are opened, since only that shows
what a device cgroup allows: nvidiactl and nvidia-uvm, in a child with a deadline, and closed at once. Neither starts
a GPU. Of the environment, names are kept, and values only of variables that are in the table.
"""

from __future__ import annotations

import errno
import os
import re
import select
import signal
import stat
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from checks.data.environment import ENVIRONMENT, RELATED
from checks.errors import BadInput
from checks.gpus.host_bus import numbers
from checks.gpus.host_read import By, file, kept, made, text
from checks.record import Section

DEV, SHM, DEVICES = "/dev", "/dev/shm", "/proc/devices"
ENVIRON, LIMITS, STATUS = "/proc/self/environ", "/proc/self/limits", "/proc/self/status"
OPENED = ("nvidiactl", "nvidia-uvm")
OPEN_DEADLINE = 2.0
_IPC_LOCK = 14  # capability.h: CAP_IPC_LOCK
_NAMES = re.compile(r"nvidia(?:\d+|ctl|-uvm|-uvm-tools|-modeset)")


@dataclass(frozen=True)
class Device:
    """A node in /dev. ``usable``: mode and owner let this process read and write, None: not looked at."""

    name: str
    major: int
    minor: int
    mode: str
    usable: bool | None = None

    @property
    def for_all(self) -> bool:
        """The mode alone lets everybody read and write."""
        return self.mode.endswith(("6", "7"))


@dataclass(frozen=True)
class Seat:
    """Each part None when it is not in the evidence. Sizes in bytes; ``memlock`` -1 is unlimited. ``opened``: what
    opening a node gave, '' or an errno name. ``majors`` by driver name from /proc/devices."""

    devices: dict[str, Device] | None = None
    majors: dict[str, frozenset[int]] | None = None
    opened: dict[str, str] | None = None
    shm: tuple[int, int] | None = None
    shm_error: str | None = None
    memlock: int | None = None
    may_lock: bool = False
    environment: dict[str, str | None] | None = None
    environment_error: str | None = None
    cpus: frozenset[int] = field(default_factory=frozenset)
    modprobe: bool = False

    @property
    def others(self) -> frozenset[int]:
        """Minors of GPUs whose node is there and lets everybody in, and that a device cgroup keeps from this process
        while it may use nvidiactl and another GPU: NVIDIA's library makes the nodes of all GPUs for root, also in a
        container that was given one."""
        gpus = [device for device in (self.devices or {}).values() if re.fullmatch(r"nvidia\d+", device.name)]
        control = (self.devices or {}).get("nvidiactl")
        if control is None or not control.usable or not any(gpu.usable for gpu in gpus):
            return frozenset()
        return frozenset(gpu.minor for gpu in gpus if gpu.for_all and gpu.usable is False)


def look(root: str = "", pid: str = "self") -> Iterator[Section]:
    """``pid``: whose environment is meant."""
    nodes = made("devices", DEV, lambda: _nodes(root))
    yield nodes
    yield kept(file(root, DEVICES, 1 << 16), lambda line: "nvidia" in line)
    if not root and nodes.data:
        yield made("opened", DEV, _open_all)
    yield made("tool", "nvidia-modprobe", lambda: _tool(root))
    yield made("statvfs", SHM, lambda: _space(root + SHM))
    yield kept(file(root, LIMITS), lambda line: line.startswith("Max locked memory"))
    yield kept(
        file(root, STATUS),
        lambda line: line.startswith(("CapEff:", "Cpus_allowed_list:", "Mems_allowed_list:")),
    )
    yield environment(file(root, ENVIRON.replace("self", pid), 1 << 20))


def of_process(pid: int) -> Section:
    """The environment of another process, without what it should not tell."""
    return environment(file("", f"/proc/{pid}/environ", 1 << 20))


def first_of_unit(unit: str, root: str = "/sys/fs/cgroup") -> int:
    """A process of a running systemd unit, from its control group. Raises BadInput when there is none."""
    name = unit if "." in unit else f"{unit}.service"
    if not re.fullmatch(r"[\w@.:\\-]{1,200}", name):
        raise BadInput(f"--unit {unit[:60]!r} is no name of a unit; give one like vllm.service")
    for found in sorted(Path(root).rglob(f"{name}/cgroup.procs")):
        with suppress(OSError, ValueError, IndexError):
            return int(found.read_text().split()[0])
    raise BadInput(
        f"--unit {unit}: no process of it runs, so its environment cannot be read; start it, or give --pid"
    )


def environment(section: Section) -> Section:
    """A process's environment without what it should not tell."""
    if section.data is None:
        return Section("environ", section.path, None, section.error)
    kept_lines = []
    for entry in section.data.decode(errors="replace").split("\0"):
        name, _, value = entry.partition("=")
        if name in ENVIRONMENT:
            kept_lines.append(f"{name}={value[:200]}".replace("\n", " "))
        elif RELATED.match(name):
            kept_lines.append(name[:100].replace("\n", " "))
    return Section("environ", section.path, "".join(f"{line}\n" for line in sorted(kept_lines)).encode())


def _nodes(root: str) -> bytes:
    lines = []
    for entry in sorted(Path(root + DEV).iterdir()):
        if not _NAMES.fullmatch(entry.name):
            continue
        about = entry.stat()
        if stat.S_ISCHR(about.st_mode):
            usable = "rw" if os.access(entry, os.R_OK | os.W_OK) else "no"
            number = f"{os.major(about.st_rdev)} {os.minor(about.st_rdev)}"
            lines.append(f"{entry.name} {number} {stat.S_IMODE(about.st_mode):04o} {usable}\n")
    return "".join(lines).encode()


def _tool(root: str) -> bytes:
    """nvidia-modprobe makes missing nodes when CUDA starts, where it is setuid root."""
    mode = Path(f"{root}/usr/bin/nvidia-modprobe").stat().st_mode
    return b"setuid\n" if mode & stat.S_ISUID else b"plain\n"


def _space(path: str) -> bytes:
    about = os.statvfs(path)
    return f"size {about.f_blocks * about.f_frsize} free {about.f_bavail * about.f_frsize}\n".encode()


def _open_all() -> bytes:
    """Opens the nodes in a child: an open may sleep inside a driver that hangs. Raises OSError without a fork."""
    ours, theirs = os.pipe()
    with warnings.catch_warnings():
        # Threads that read NVML run meanwhile; the child touches none of their locks, and has a deadline.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        with suppress(BaseException):
            os.write(theirs, "".join(f"{name} {_opened(f'{DEV}/{name}')}\n" for name in OPENED).encode())
        os._exit(0)
    os.close(theirs)
    ready, _, _ = select.select([ours], [], [], OPEN_DEADLINE)
    said = os.read(ours, 4096) if ready else b"".join(f"{name} ETIMEDOUT\n".encode() for name in OPENED)
    os.close(ours)
    if not ready:
        with suppress(OSError):
            os.kill(child, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(child, 0 if ready else os.WNOHANG)
    return said


def _opened(path: str) -> str:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "EIO")
    return "OK"


def parse(by: By) -> Seat:
    space = re.search(r"size (\d{1,20}) free (\d{1,20})", text(by, "statvfs", SHM) or "")
    shm = by.get(("statvfs", SHM))
    locked = re.search(r"Max locked memory\s+(\d{1,20}|unlimited)", text(by, "file", LIMITS) or "")
    status = text(by, "file", STATUS) or ""
    able = re.search(r"^CapEff:\s*([0-9a-f]{1,16})$", status, re.MULTILINE)
    allowed = re.search(r"^Cpus_allowed_list:\s*(.*)$", status, re.MULTILINE)
    return Seat(
        devices=_devices(text(by, "devices", DEV)),
        majors=_majors(text(by, "file", DEVICES)),
        opened=_answers(text(by, "opened", DEV)),
        shm=(int(space[1]), int(space[2])) if space else None,
        shm_error=(shm.error or "there is none") if shm is not None and shm.data is None else None,
        memlock=None if locked is None else -1 if locked[1] == "unlimited" else int(locked[1]),
        may_lock=able is not None and bool(int(able[1], 16) >> _IPC_LOCK & 1),
        environment=_variables(by),
        environment_error=_closed(by),
        cpus=numbers(allowed[1]) if allowed else frozenset(),
        modprobe="setuid" in (text(by, "tool", "nvidia-modprobe") or ""),
    )


def _devices(said: str | None) -> dict[str, Device] | None:
    if said is None:
        return None
    form = re.compile(r"^(\S+) (\d{1,8}) (\d{1,8}) ([0-7]{3,4})(?: (rw|no))?$", re.MULTILINE)
    return {
        name: Device(name, int(major), int(minor), mode, {"rw": True, "no": False}.get(usable))
        for name, major, minor, mode, usable in form.findall(said)
    }


def _majors(said: str | None) -> dict[str, frozenset[int]] | None:
    if said is None:
        return None
    found: dict[str, frozenset[int]] = {}
    for major, name in re.findall(r"^\s*(\d{1,4}) (\S+)$", said, re.MULTILINE):
        found[name] = found.get(name, frozenset()) | {int(major)}
    return found


def _answers(said: str | None) -> dict[str, str] | None:
    return None if said is None else dict(re.findall(r"^(\S+) ([A-Z]+)$", said, re.MULTILINE))


def _closed(by: By) -> str | None:
    found = [s for (kind, _), s in by.items() if kind == "environ"]
    bad = [s for s in found if s.data is None]
    return (bad[0].error or "there is no such process") if bad and len(bad) == len(found) else None


def _variables(by: By) -> dict[str, str | None] | None:
    texts = [s.data for (kind, _), s in by.items() if kind == "environ" and s.data is not None]
    if not texts:
        return None
    found: dict[str, str | None] = {}
    for line in b"\n".join(texts).decode(errors="replace").splitlines():
        name, equals, value = line.partition("=")
        found[name] = value if equals else None
    return found
