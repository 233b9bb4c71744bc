"""Taking the snapshot of a host or guest over its connector, and of a recorded tree on this machine."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from checks import snapshot
from checks.snapshot import Snapshot
from provision.host import transport
from provision.run.errors import RunError

DEADLINE = 120
"""Seconds for one snapshot: a host under load needs a few, a hung one must not hang the run."""


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


def observe_tree(root: Path, requests: Sequence[str]) -> Snapshot:
    """The same look at a recorded tree. Raises RunError when the tree cannot be read."""
    done = subprocess.run(
        ["/bin/sh", "-c", snapshot.script(), "sh", *requests],
        env={"ROOT": str(root.resolve()), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=DEADLINE,
        check=False,
    )
    if done.returncode != 0:
        raise RunError(f"{root} could not be read: {done.stderr.decode(errors='replace').strip()}")
    return snapshot.parse(done.stdout)
