"""Containers that are given GPUs: Proxmox's <vmid>.conf and LXC's config, and what is wrong in them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checks.snapshot import CouldNotLook, Snapshot
from provision.guest.proxmox import grammar, judge
from provision.guest.proxmox.schema import DEVICE
from provision.inspect.report import UNKNOWN, Finding

_CONF = re.compile(r"/etc/pve/(?:nodes/([^/]+)/)?lxc/(\d+)\.conf")
_PLAIN = re.compile(r"/var/lib/lxc/([^/]+)/config")
_MOUNT = re.compile(r"(/dev/(?:nvidia|vfio/)\S*)\s")
_ALLOW = re.compile(r"c\s+(\d+):\S+\s+\S+")
_NO_TEXT = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_SOURCE = "proxmox/pve-container, PVE/LXC/Config.pm"


@dataclass(frozen=True)
class Device:
    """A device node given to a container; ``how``: devN with what follows the path, or a raw line of LXC."""

    path: str
    how: str
    line: int


@dataclass(frozen=True)
class Container:
    """``conf``: Proxmox's file, None for plain LXC. ``majors``: those that raw lines allow.
    ``is_text`` False: the file holds bytes that no text has, and nothing was read from it."""

    id: str
    path: str
    devices: tuple[Device, ...]
    majors: tuple[int, ...]
    unprivileged: bool
    conf: grammar.Conf | None = None
    is_text: bool = True

    def has_any(self, nodes: Iterable[str]) -> bool:
        """Is it given one of these device nodes?"""
        return not {device.path for device in self.devices}.isdisjoint(nodes)

    @property
    def is_empty(self) -> bool:
        """Does the file of Proxmox hold no line of the current configuration?"""
        return self.conf is not None and not any(
            line.section == "" and line.kind in ("option", "raw", "unread") for line in self.conf.lines
        )

    @property
    def verdict(self) -> str:
        """What Proxmox's parser and kpro's own rules make of the file."""
        if not self.is_text:
            return "not judged: its bytes are no text"
        if self.conf is None:
            return "not judged: a file of plain LXC"
        if self.is_empty:
            return "empty: not a configuration"
        levels = {finding.level for finding in judge.findings(self.conf)}
        if "refused" in levels:
            return "refused by Proxmox: it warns of a line of it, and goes on"
        return "refused by kpro: Proxmox takes it though it is wrong" if "wrong" in levels else "accepted"

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "path": self.path,
            "verdict": self.verdict,
            "unprivileged": self.unprivileged if self.is_text and not self.is_empty else UNKNOWN,
            "devices": [{"path": one.path, "how": one.how, "line": one.line} for one in self.devices],
            "raw_majors": list(self.majors),
        }


def containers(snapshot: Snapshot) -> tuple[Container, ...]:
    """Every configuration that was read. Raises CouldNotLook when one is there and cannot be."""
    found: dict[tuple[str, bool], Container] = {}
    for path in sorted(snapshot.paths("file"), reverse=True):
        proxmox, plain = _CONF.fullmatch(path), _PLAIN.fullmatch(path)
        if proxmox is None and plain is None:
            continue
        text = snapshot.text(path)
        if text is None:
            raise CouldNotLook(f"{path} is gone")
        if _NO_TEXT.search(text):
            identity = (proxmox or plain or ("", "", ""))[2 if proxmox else 1]
            broken = Container(identity, path, (), (), False, is_text=False)
            found.setdefault((identity, proxmox is not None), broken)
            continue
        if proxmox is not None:
            # /etc/pve/lxc leads to the folder of this node: the same file under two names.
            found.setdefault((proxmox[2], True), _proxmox(proxmox[2], path, text))
        elif plain is not None:
            found.setdefault((plain[1], False), _lxc(plain[1], path, text))
    return tuple(found[key] for key in sorted(found))


def _proxmox(identity: str, path: str, text: str) -> Container:
    conf = grammar.parse(text)
    devices = []
    for line in conf.of("option"):
        if re.fullmatch(r"dev\d+", line.key) and line.problem is None:
            parts, _ = grammar.properties(line.value, DEVICE)
            rest = ",".join(f"{name}={value}" for name, value in parts.items() if name != "path")
            devices.append(Device(parts.get("path", "unknown"), f"{line.key} {rest}".strip(), line.number))
    raw = [(line.number, line.key, line.value) for line in conf.of("raw")]
    more, majors = _raw(raw)
    return Container(identity, path, (*devices, *more), majors, conf.is_true("unprivileged"), conf)


def _lxc(identity: str, path: str, text: str) -> Container:
    rows = [
        (number, key.strip(), value.strip())
        for number, line in enumerate(text.splitlines(), 1)
        for key, mark, value in [line.partition("=")]
        if mark and not line.lstrip().startswith("#")
    ]
    devices, majors = _raw(rows)
    return Container(identity, path, devices, majors, any(key == "lxc.idmap" for _, key, _ in rows))


def _raw(rows: Sequence[tuple[int, str, str]]) -> tuple[tuple[Device, ...], tuple[int, ...]]:
    devices, majors = [], []
    for number, key, value in rows:
        mount, allow = _MOUNT.match(value), _ALLOW.match(value)
        if key == "lxc.mount.entry" and mount:
            devices.append(Device(mount[1], "raw bind mount", number))
        elif key.startswith("lxc.cgroup") and key.endswith(".devices.allow") and allow:
            majors.append(int(allow[1]))
    return tuple(devices), tuple(dict.fromkeys(majors))


def findings(found: Sequence[Container], numbers: Mapping[str, int] | None) -> Iterator[Finding]:
    """``numbers``: the majors of the machine by name, None where they are not known."""
    for container in found:
        if not container.is_text:
            yield Finding(
                "container.no-text",
                "problem",
                f"container {container.id}, {container.path}",
                "the file holds bytes that no text has",
                "it was overwritten or damaged: which GPUs the container is given cannot be told",
                "put it back from a backup (vzdump keeps it in each archive)",
                _SOURCE,
            )
            continue
        for one in judge.findings(container.conf, numbers) if container.conf else ():
            section = f" [{one.section}]" if one.section else ""
            yield Finding(
                f"container.{one.level}",
                "note" if one.level == "report" else "problem",
                f"container {container.id}{section}, {container.path}:{one.line}",
                one.seen,
                one.why,
                "" if one.next_step == "nothing" else one.next_step.replace("<vmid>", container.id),
                _SOURCE,
            )
        if container.conf is None:
            yield from _stale(container, numbers)
        yield from _modes(container)
        yield from _without_uvm(container)


def _stale(container: Container, numbers: Mapping[str, int] | None) -> Iterator[Finding]:
    """LXC has nothing like devN: a number that is written down is compared with the one that counts now."""
    now = (numbers or {}).get("nvidia-uvm")
    dynamic = [major for major in container.majors if any(major in span for span in judge.DYNAMIC)]
    if now is not None and dynamic and now not in container.majors:
        yield Finding(
            "container.stale-major",
            "problem",
            f"container {container.id}, {container.path}",
            f"it allows major {', '.join(map(str, dynamic))}, and nvidia-uvm has {now}",
            "the kernel hands such numbers out anew at each boot: CUDA ends with 999 inside",
            f"allow {now}, or let provision apply look after the container",
            "kernel, Documentation/admin-guide/devices.txt",
        )


def _without_uvm(container: Container) -> Iterator[Finding]:
    """A GPU's own node alone is enough for nvidia-smi, and not for CUDA."""
    names = {device.path for device in container.devices}
    gpus = sorted(path for path in names if re.fullmatch(r"/dev/nvidia\d+", path))
    missing = [path for path in ("/dev/nvidiactl", "/dev/nvidia-uvm") if path not in names]
    if gpus and missing:
        yield Finding(
            "container.nodes",
            "warning",
            f"container {container.id}, {container.path}",
            f"{', '.join(gpus)} without {' and '.join(missing)}",
            "CUDA does not start inside"
            + (": cuInit ends with 999, though nvidia-smi works" if "/dev/nvidiactl" in names else ""),
            "give it these nodes too, each with mode=0666",
            "community-scripts/ProxmoxVE#5740, ollama#1895",
        )


def _modes(container: Container) -> Iterator[Finding]:
    for device in container.devices:
        if (
            device.how.startswith("dev")
            and "mode=" not in device.how
            and device.path.startswith("/dev/nvidia")
        ):
            key, _, rest = device.how.partition(" ")
            kept = f",{rest}" if rest else ""
            ids = dict(part.partition("=")[::2] for part in rest.split(","))
            owner = ":".join("root" if ids.get(name, "0") == "0" else ids[name] for name in ("uid", "gid"))
            others = "another user" if owner == "root:root" else "a user that is neither of them"
            yield Finding(
                "container.mode",
                "note",
                f"container {container.id}, {container.path}:{device.line}",
                f"{device.path} without a mode",
                f"the node is 0660 {owner} inside: a service of {others} cannot open it",
                f"pct set {container.id} -{key} {device.path}{kept},mode=0666",
                _SOURCE,
            )
