"""A host that no inventory describes yet: its containers, what each passes in, its driver. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from checks.bdf import Bdf
from checks.snapshot import CouldNotLook, Snapshot
from provision.adopt import process
from provision.host import driver_seen, view
from provision.spec import Driver, Machine

# One round trip: which containers there are is not known before.
_LXC_CONFIGS = r"""p=$(lxc-config lxc.lxcpath) || exit 1
for c in "$p"/*/config; do
  [ ! -f "$c" ] || { d=${c%/config}; printf '==> %s\n' "${d##*/}"; sed 's/^==> /#==> /' "$c"; }
done"""


@dataclass(frozen=True)
class Bind:
    """A folder of the host that a container shows."""

    source: str
    target: str
    read_only: bool


@dataclass(frozen=True)
class Container:
    """A container as its configuration says: ``minors`` of the /dev/nvidiaN that it passes in."""

    backend: Literal["lxc", "pct"]
    id: str
    name: str
    state: str
    unprivileged: bool
    network: str
    minors: tuple[int, ...] = ()
    mounts: tuple[Bind, ...] = ()
    remarks: tuple[str, ...] = field(default=())


def requests(machine: Machine) -> list[str]:
    """What the snapshot of the host has to look at."""
    return list(
        dict.fromkeys(
            [
                *view.requests(machine),
                *driver_seen.requests(),
                *process.REQUESTS,
                "tool:lxc-ls",
                "tool:pct",
                f"cmd:lxc-configs:{_LXC_CONFIGS}",
                "cmd:lxc-states:lxc-ls -f -F NAME,STATE",
                "cmd:pct-list:pct list",
                "glob:/etc/pve/lxc/*.conf",
            ]
        )
    )


def containers(snapshot: Snapshot) -> tuple[Container, ...]:
    """All of LXC's and Proxmox's. Raises CouldNotLook when a tool is there and does not answer."""
    return (*_lxc(snapshot), *_proxmox(snapshot))


def _lxc(snapshot: Snapshot) -> Iterator[Container]:
    if not snapshot.has_tool("lxc-ls"):
        return
    code, output = snapshot.command("lxc-states")
    if code != 0:
        raise CouldNotLook(f"lxc-ls ended with {code}: {output.strip()[:200]}")
    states = {
        words[0]: words[1].lower() for line in output.splitlines()[1:] if len(words := line.split()) > 1
    }
    code, output = snapshot.command("lxc-configs")
    if code != 0:
        raise CouldNotLook(f"the containers' configurations cannot be read: {output.strip()[:200]}")
    for part in re.split(r"^==> ", output, flags=re.MULTILINE)[1:]:
        ident, _, text = part.partition("\n")
        pairs = [
            (key.strip(), value.strip())
            for key, equals, value in (line.partition("=") for line in text.splitlines())
            if equals and not key.lstrip().startswith("#")
        ]
        minors, mounts = _entries(value for key, value in pairs if key == "lxc.mount.entry")
        last = dict(pairs)
        yield Container(
            "lxc",
            ident,
            last.get("lxc.uts.name", ident),
            states.get(ident, "unknown"),
            any(key == "lxc.idmap" for key, _ in pairs),
            _network(last.get("lxc.net.0.type", "none"), last.get("lxc.net.0.link")),
            minors,
            mounts,
        )


def _network(kind: str, link: str | None) -> str:
    if kind == "veth" and link:
        return f"bridge:{link}"
    return "isolated" if kind == "empty" else "host"


def _entries(entries: Iterator[str]) -> tuple[tuple[int, ...], tuple[Bind, ...]]:
    """Lines of fstab(5): source, target inside, type, options. Device nodes by their minors, folders as mounts."""
    minors, mounts = [], []
    for entry in entries:
        words = entry.split()
        if len(words) < 4 or not words[0].startswith("/"):
            continue
        options = words[3].split(",")
        node = re.fullmatch(r"/dev/nvidia(\d+)", words[0])
        if node:
            minors.append(int(node[1]))
        elif {"bind", "rbind"} & set(options) and not words[0].startswith(("/dev/", "/sys/", "/proc/")):
            mounts.append(Bind(words[0], f"/{words[1].lstrip('/')}", "ro" in options))
    return tuple(sorted(set(minors))), tuple(mount for mount in mounts if not _is_file(mount))


def _is_file(mount: Bind) -> bool:
    """kpro's own mark of a test host is bound as a file; an inventory describes folders."""
    return mount.source == "/etc/kpro/test-host"


def _proxmox(snapshot: Snapshot) -> Iterator[Container]:
    if not snapshot.has_tool("pct"):
        return
    code, output = snapshot.command("pct-list")
    if code != 0:
        raise CouldNotLook(f"pct list ended with {code}: {output.strip()[:200]}")
    states = {words[0]: words[1] for line in output.splitlines()[1:] if len(words := line.split()) > 1}
    for path in sorted(snapshot.paths("file")):
        match = re.fullmatch(r"/etc/pve/lxc/(\d+)\.conf", path)
        if match is None:
            continue
        # Snapshots and pending changes stand below the first section's name.
        current = re.split(r"^\[", snapshot.text(path) or "", maxsplit=1, flags=re.MULTILINE)[0]
        pairs = [
            (found[1], found[2].strip())
            for line in current.splitlines()
            if (found := re.match(r"([\w.]+)\s*[:=]\s*(.*)$", line)) and not line.startswith("#")
        ]
        last = dict(pairs)
        minors, mounts = _entries(value for key, value in pairs if key == "lxc.mount.entry")
        nodes = [
            re.match(r"(?:path=)?/dev/nvidia(\d+)(?:,|$)", v) for k, v in pairs if re.fullmatch(r"dev\d+", k)
        ]
        shown = [
            bind for key, value in pairs if re.fullmatch(r"mp\d+", key) and (bind := _mount_point(value))
        ]
        bridge = re.search(r"(?:^|,)bridge=([\w.-]+)", last.get("net0", ""))
        yield Container(
            "pct",
            match[1],
            last.get("hostname", f"ct{match[1]}"),
            states.get(match[1], "unknown"),
            last.get("unprivileged", "0").lower() in ("1", "on", "yes", "true"),
            f"bridge:{bridge[1]}" if bridge else "isolated",
            tuple(sorted({*minors, *(int(node[1]) for node in nodes if node)})),
            (*mounts, *shown),
        )


def _mount_point(value: str) -> Bind | None:
    """``/tank/models,mp=/srv/models,ro=1``; a volume of a storage is no folder of the host."""
    source, *rest = value.split(",")
    options = dict(part.split("=", 1) for part in rest if "=" in part)
    source = source.removeprefix("volume=")
    if not source.startswith("/") or "mp" not in options:
        return None
    return Bind(source, options["mp"], options.get("ro") == "1")


def driver(snapshot: Snapshot) -> Driver | None:
    """The loaded driver, and the route by which it most likely came."""
    loaded = view.driver(snapshot)
    if loaded is None:
        return None
    flavour: Literal["open", "proprietary"] = "open" if loaded[1] == "open" else "proprietary"
    return Driver(version=loaded[0], flavour=flavour, route=_route(snapshot))


def _route(snapshot: Snapshot) -> Literal["debian", "nvidia", "run", "ubuntu", "prebuilt"]:
    if any(receipt.route == "prebuilt" for receipt in driver_seen.receipts(snapshot)):
        return "prebuilt"
    packages = driver_seen.packages(snapshot)
    if any(name.startswith("linux-modules-nvidia") for name in packages):
        return "ubuntu"
    if any(
        name.startswith(("nvidia-driver-pinning", "nvidia-driver-cuda", "cuda-drivers")) for name in packages
    ):
        return "nvidia"
    if any(snapshot.data("stat", path) is not None for path in driver_seen.RUN_MARKS):
        return "run"
    return "debian"


def gpus_of(container: Container, snapshot: Snapshot) -> tuple[list[str], list[int]]:
    """The addresses of the GPUs that a container passes in, and the minors that no GPU has now."""
    addresses = {minor: str(bdf) for bdf, minor in view.minors(snapshot).items()}
    known = [addresses[minor] for minor in container.minors if minor in addresses]
    return known, [minor for minor in container.minors if minor not in addresses]


def models(snapshot: Snapshot) -> dict[Bdf, str]:
    """What each GPU is called, by the driver, else by the bus's list."""
    named = {bdf: name.removeprefix("NVIDIA ") for bdf, name in view.models(snapshot).items()}
    for bdf, listed in view.bus_names(snapshot).items():
        inner = re.search(r"\[([^\]]+)\]", listed)
        named.setdefault(bdf, inner[1] if inner else listed)
    return named
