"""The walls around a service, and when it is started again: directives of its unit, each with a reason and a source.

Every wall stands beside GPUs: what hides devices, needs namespaces of its own or forbids compiled code is among
``LEFT_OFF``, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass

SYSTEMD = {"bookworm": 252, "trixie": 257}
"""systemd of the guest suites (Debian: 252.38 and 257.8)."""

_EXEC = "systemd.exec(5)"


@dataclass(frozen=True)
class Wall:
    """One directive of ``[Service]``; ``since``: the systemd that knows it; ``loopback``: only where nobody outside is
    to be answered."""

    name: str
    value: str
    why: str
    source: str
    since: int = 0
    loopback: bool = False


@dataclass(frozen=True)
class LeftOff:
    """A directive that is not set, and what it would break."""

    name: str
    why: str
    source: str


WALLS = (
    Wall("NoNewPrivileges", "yes", "no program that it starts can become root", _EXEC),
    Wall("CapabilityBoundingSet", "", "an engine needs no capability: its device nodes are 0666", _EXEC),
    Wall("AmbientCapabilities", "", "none is handed on either", _EXEC),
    Wall(
        "ProtectSystem",
        "strict",
        "it writes to its own cache (CacheDirectory=), /tmp and /dev/shm; models and engine stay as verified",
        _EXEC,
    ),
    Wall("ProtectHome", "yes", "nobody's home is its business", _EXEC),
    Wall("PrivateTmp", "yes", "sockets of ZMQ lie in /tmp (ipc://): other users do not see them", _EXEC),
    Wall("ProtectKernelTunables", "yes", "reads /proc and /sys, changes no switch there", _EXEC),
    Wall("ProtectKernelModules", "yes", "loads no module: the machine has loaded the driver", _EXEC),
    Wall("ProtectKernelLogs", "yes", "the kernel log of the machine is not the service's", _EXEC),
    Wall("ProtectControlGroups", "yes", "its limits cannot be lifted from inside", _EXEC),
    Wall(
        "RestrictAddressFamilies",
        "AF_UNIX AF_INET AF_INET6 AF_NETLINK",
        "HTTP, ZMQ, NCCL's sockets; AF_NETLINK lists the interfaces (glibc getifaddrs)",
        f"{_EXEC}; getifaddrs(3)",
    ),
    Wall("RestrictNamespaces", "yes", "no engine makes a namespace", _EXEC),
    Wall("RestrictSUIDSGID", "yes", "no set-user-id file is made in the cache", _EXEC),
    Wall("RestrictRealtime", "yes", "a spinning rank must not starve the machine", _EXEC),
    Wall("LockPersonality", "yes", "no engine changes it", _EXEC),
    Wall("SystemCallArchitectures", "native", "no call of another architecture", _EXEC),
    Wall("UMask", "0077", "what it compiles is read by itself alone", _EXEC),
    Wall(
        "IPAddressDeny",
        "any",
        "what it opens besides its port binds to every address (PyTorch's TCPStore): nobody outside reaches it. Needs "
        "BPF: where a container has none, systemd says so and goes on",
        "systemd.resource-control(5); torch/csrc/distributed/c10d/TCPStoreLibUvBackend.cpp",
        loopback=True,
    ),
    Wall("IPAddressAllow", "localhost", "HTTP, ZMQ, NCCL and gloo over lo", _EXEC, loopback=True),
    Wall(
        "LimitNOFILE", "65536", "'Found ulimit of 1024 and failed to automatically increase'", "vLLM 0.20.1"
    ),
    Wall(
        "MemoryMax",
        "90%",
        "an engine that eats all memory dies alone, before the guest does",
        "systemd.resource-control(5): per cent of the guest's memory",
    ),
    Wall(
        "OOMPolicy",
        "kill",
        "an engine without one of its processes is dead and does not know it: all go at once",
        "systemd.service(5); sets memory.oom.group",
    ),
)

LEFT_OFF = (
    LeftOff("PrivateDevices", "hides /dev/nvidia*", _EXEC),
    LeftOff(
        "DevicePolicy, DeviceAllow",
        "the container's own rules let in these GPUs and no other; the majors of nvidia-uvm and nvidia-caps are "
        "dealt at boot, and a rule by a name that /proc/devices lacks is dropped silently",
        "systemd.resource-control(5)",
    ),
    LeftOff("ProtectClock", "brings a DeviceAllow= along, after which no GPU can be opened", _EXEC),
    LeftOff("MemoryDenyWriteExecute", "torch.compile, Triton and CUDA write code and run it", _EXEC),
    LeftOff("SystemCallFilter", "which calls CUDA's driver library makes is written nowhere", _EXEC),
    LeftOff("PrivateNetwork", "it answers on the network", _EXEC),
    LeftOff("PrivateUsers", "the owner of device nodes would be nobody", _EXEC),
    LeftOff("ProtectProc", "needs a /proc of its own, which not every container may mount", _EXEC),
    LeftOff("ProtectHostname", "needs a namespace and protects nothing here: there is no capability", _EXEC),
)

GATE_SECONDS = 300
"""What ExecStartPre= may take; the gate's act waits as long."""
BURST = 5
DELAY, LONGEST = 30, 300
"""Seconds between two starts, and where it ends that waits longer each time."""
NEVER_AGAIN = "2 CHDIR EXEC USER GROUP NAMESPACE"
"""What a restart cannot mend: a command line that is refused (argparse ends with 2), a program, user or folder that is
not there (systemd.exec(5), process exit codes)."""


def interval(ready_seconds: int) -> int:
    """Seconds within which ``BURST`` starts are too many: an engine that dies each time just before it is ready, after
    the longest wait and the longest gate, must still be stopped by it."""
    return (BURST + 1) * (ready_seconds + LONGEST + GATE_SECONDS)


def lines(suite: str, *, loopback: bool) -> list[str]:
    """``NAME=VALUE`` of the walls for a suite's systemd."""
    return [
        f"{wall.name}={wall.value}"
        for wall in WALLS
        if SYSTEMD[suite] >= wall.since and (loopback or not wall.loopback)
    ]


def restart(suite: str) -> list[str]:
    """When it is started again."""
    found = ["Restart=on-failure", f"RestartSec={DELAY}", f"RestartPreventExitStatus={NEVER_AGAIN}"]
    if SYSTEMD[suite] >= 254:
        found += [f"RestartSteps={BURST - 1}", f"RestartMaxDelaySec={LONGEST}"]
    return found
