"""Is the source of a cold migration really dead? One that still answers would be a second host with the service."""

from __future__ import annotations

import socket

from provision.plan import Refusal
from provision.spec import Machine

SECONDS = 3.0


def lives(machine: Machine, source: str, target: str) -> list[Refusal]:
    """A refusal when its SSH server can be reached; an alias of ssh_config that no resolver knows counts as dead."""
    ssh = machine.ssh
    if ssh is None:
        return [_refusal(machine.name, "this machine", source, target)]
    address = (ssh.host, ssh.port or 22)
    try:
        with socket.create_connection(address, SECONDS):
            return [_refusal(machine.name, f"{address[0]}:{address[1]}", source, target)]
    except OSError:
        return []


def _refusal(name: str, address: str, source: str, target: str) -> Refusal:
    return Refusal(
        f"machine {name}",
        f"{address} answers: it is not dead",
        "a source that is not stopped and fenced goes on to answer beside the target",
        f"move it warm: provision migrate {source} {target}; or switch {name} off, so that it cannot come back by "
        "itself",
    )
