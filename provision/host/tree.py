"""The same look at a recorded tree on this machine as at a machine itself; nothing is connected to."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from checks import snapshot
from checks.snapshot import Section, Snapshot
from provision.host.shown import PATHS
from provision.run.errors import RunError

DEADLINE = 120
"""Seconds for one snapshot: a host under load needs a few, a hung one must not hang the run."""

ABSENT = ".kpro/absent"
"""The paths that were looked at on the machine and were not there, one a line."""


def _record(root: Path) -> dict[tuple[str, str], Section]:
    """What of a machine the tree shows, and what it says was absent."""
    there = "\n".join(path for path in PATHS if os.path.lexists(f"{root}{path}")).encode()
    absent = root / ABSENT
    said = absent.read_bytes() if absent.is_file() and not absent.is_symlink() else b""
    return {
        ("record", name): Section("record", name, data)
        for name, data in (("/there", there), ("/absent", said))
    }


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
            return Snapshot({**snapshot.parse(done.stdout).sections, **_record(root.resolve())})
    except (subprocess.TimeoutExpired, snapshot.SnapshotError) as error:
        raise RunError(f"{root} could not be read: {error}") from error
    raise RunError(f"{root} could not be read: {done.stderr.decode(errors='replace').strip()}")
