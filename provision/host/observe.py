"""Taking the snapshot of a host or guest over its connector. A recorded tree: provision/host/tree.py."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from checks import snapshot
from checks.snapshot import Snapshot
from provision.host import transport
from provision.host.tree import DEADLINE, observe_tree
from provision.run.errors import RunError

__all__ = ["DEADLINE", "command", "observe", "observe_tree"]


def command(requests: Sequence[str]) -> str:
    """The shell command that takes a snapshot; the script's text travels with it."""
    return shlex.join(["sh", "-c", snapshot.script(), "sh", *requests])


def observe(host: Any, requests: Sequence[str]) -> Snapshot:
    """One round trip. Raises RunError when the machine could not be looked at."""
    try:
        done = transport.run(host, command(requests), timeout=DEADLINE)
    except OSError as error:
        raise RunError(f"{host.name} could not be looked at: {error}") from error
    if not done.ok:
        raise RunError(f"{host.name} could not be looked at: {done.error_text or f'exit {done.rc}'}")
    try:
        return snapshot.parse(done.stdout)
    except snapshot.SnapshotError as error:
        raise RunError(f"{host.name} could not be looked at: {error}") from error
