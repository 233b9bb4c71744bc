"""Engine processes that no service of an inventory stands for: said, never dropped. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from checks.snapshot import Snapshot
from provision.adopt import process, words
from provision.adopt.process import Process

_ENGINE = re.compile(r"vllm|sglang|kpro[-_]standin")
# LXC (lxc.payload.NAME) and Proxmox (lxc/106/ns) name the control group of a container's processes.
_CONTAINER = re.compile(r"lxc(?:\.payload)?[./]([^/\s]+)")
SHOWN = 120


def without_server(there: Sequence[Process]) -> Iterator[str]:
    """One line for each control group whose processes name an engine while none of them is a server that kpro knows."""
    known = {one.cgroup for one in there if words.started(one.words) is not None}
    for one in there:
        if one.cgroup in known or not any(_ENGINE.search(word) for word in one.words):
            continue
        if any(process.LOOK_MARK in word for word in one.words):
            continue
        known.add(one.cgroup)
        line = " ".join(one.words)[:SHOWN]
        place = one.unit or "no service of systemd"
        yield f"process {one.pid} ({place}) names an engine, and is no server that kpro knows: {line}"


def of_machine(snapshot: Snapshot, containers: Collection[str]) -> Iterator[str]:
    """Engines on the machine itself, or in containers of another kind. Raises CouldNotLook. ``containers``: the ids of
    those that are looked into by themselves."""
    own = []
    for running in process.processes(snapshot):
        inner = _CONTAINER.search(running.cgroup)
        if inner and inner[1] in containers:
            continue
        own.append(running)
        started = words.started(running.words)
        if started is None:
            continue
        if re.search(r"docker|libpod", running.cgroup):
            place = "in a container of Docker or Podman"
        else:
            place = f"in {inner[1]}, a container that neither lxc-ls nor pct names" if inner else "itself"
        yield (
            f"a service runs on the machine {place} ({running.unit or f'process {running.pid}'}: {started.model}); "
            "an inventory describes services in LXC and Proxmox containers"
        )
    yield from without_server(own)
