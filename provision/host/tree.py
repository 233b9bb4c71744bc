"""The same look at a recorded tree on this machine as at a machine itself; nothing is connected to."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from checks import snapshot
from checks.snapshot import Snapshot
from provision.run.errors import RunError

DEADLINE = 120
"""Seconds for one snapshot: a host under load needs a few, a hung one must not hang the run."""


def observe_tree(root: Path, requests: Sequence[str]) -> Snapshot:
    """Raises RunError when the tree cannot be read."""
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", snapshot.script(), "sh", *requests],
            env={"ROOT": str(root.resolve()), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DEADLINE,
            check=False,
        )
        if done.returncode == 0:
            return snapshot.parse(done.stdout)
    except (subprocess.TimeoutExpired, snapshot.SnapshotError) as error:
        raise RunError(f"{root} could not be read: {error}") from error
    raise RunError(f"{root} could not be read: {done.stderr.decode(errors='replace').strip()}")
