"""Ways to the host that an HAProxy's socket lies on: a script goes there, what it said comes back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from provision.host.transport import Completed
from provision.migrate.traffic import program
from provision.spec import HAProxy, Ssh

Way = Callable[[str, bytes, float], Completed]
"""A script for sh, its standard input, seconds. Raises TransportError."""


class OnMetal(Protocol):
    """The part of a side of the migration that is needed here."""

    @property
    def name(self) -> str: ...

    def host(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed: ...


def way(spec: HAProxy, source: OnMetal, target: OnMetal) -> tuple[Way, str]:
    """The way, and how the host is called."""
    if spec.on == "ssh" and spec.ssh is not None:
        return by_ssh(spec.ssh), spec.ssh.host
    if spec.on == "controller":
        return here, "this controller"
    side = source if spec.on == "source" else target
    return lambda script, stdin, seconds: side.host(script, stdin=stdin, timeout=seconds), side.name


def here(script: str, stdin: bytes, seconds: float) -> Completed:
    return program.run(["/bin/sh", "-c", script], stdin=stdin, timeout=seconds)


def by_ssh(ssh: Ssh) -> Way:
    """OpenSSH as the operator has it set up, which asks nothing: a host or key that is not known is an error."""
    words = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]
    if ssh.port is not None:
        words += ["-p", str(ssh.port)]
    if ssh.user is not None:
        words += ["-l", ssh.user]
    if ssh.key is not None:
        words += ["-i", str(Path(ssh.key).expanduser()), "-o", "IdentitiesOnly=yes"]
    if ssh.known_hosts is not None:
        words += ["-o", f"UserKnownHostsFile={Path(ssh.known_hosts).expanduser()}"]
        words += ["-o", "StrictHostKeyChecking=yes"]
    return lambda script, stdin, seconds: program.run(
        [*words, "--", ssh.host, script], stdin=stdin, timeout=seconds
    )
