"""The snapshot script on this machine itself, as a host would run it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from checks import snapshot
from checks.snapshot import Snapshot


def observe_here(requests: Sequence[str]) -> Snapshot:
    done = subprocess.run(
        ["sh", "-c", snapshot.script(), "sh", *requests],
        env={"PATH": os.environ["PATH"], "ROOT": ""},
        capture_output=True,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return snapshot.parse(done.stdout)
