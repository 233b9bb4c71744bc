"""Builds that need root: in namespaces of their own, so that mounts and processes end with them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from checks.caches import cache_folder

from .cache import Say
from .errors import TestHostError
from .leash import Leash

# A killed build takes its children and its mounts along.
_APART = (
    "unshare",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "--propagation=private",
    "--",
)

_CHROOT = """\
set -eu
mount --bind /dev "$1/dev"
mount -t proc proc "$1/proc"
exec chroot "$1" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C HOME=/root DEBIAN_FRONTEND=noninteractive sh -c "$2"
"""


def demand_root(what: str) -> None:
    """Raises TestHostError unless root asks."""
    if os.geteuid() == 0:
        return
    cache = cache_folder().parent
    raise TestHostError(
        f"{what} is not built yet, and building needs root (mmdebstrap, chroot); once it is there, no root is "
        f"needed: sudo env XDG_CACHE_HOME={cache} {sys.executable} -m provision.testhost.vm --build"
    )


def in_tree(tree: Path, script: str) -> list[str]:
    """The command that runs a shell script inside ``tree``."""
    return ["sh", "-c", _CHROOT, "sh", str(tree), script]


def run(command: Sequence[str], say: Say, what: str, *, scratch: Path | None = None) -> str:
    """Runs a step of a build, as root; gives its output. Raises TestHostError with its last words.

    ``scratch``: where its temporary files go, a folder that is removed with the build when it is cut.
    """
    say(what)
    started = time.monotonic()
    leash = Leash()
    last: deque[str] = deque(maxlen=15)
    kept: list[str] = []
    try:
        environ = {"TMPDIR": str(scratch)} if scratch else None
        child = leash.start([*_APART, *command], out=subprocess.PIPE, env=environ)
        assert child.stdout is not None
        with child.stdout:
            for raw in child.stdout:
                line = raw.decode(errors="replace").rstrip()
                last.append(line)
                kept.append(line)
                if line.startswith("I: ") and line.endswith("..."):
                    say(f"{what}: {line[3:-3]} ({time.monotonic() - started:.0f} s)")
        code = child.wait()
    finally:
        leash.cut()
    if code:
        raise TestHostError(f"{what} fails (exit {code}); its last words:\n" + "\n".join(last))
    return "\n".join(kept)


def mmdebstrap(
    target: Path,
    suite: str,
    packages: Sequence[str],
    sources: Sequence[str],
    say: Say,
    *,
    variant: str = "minbase",
    options: Sequence[str] = (),
) -> None:
    """Makes ``target`` (a .tar, or a folder) of ``packages``. Raises TestHostError."""
    if shutil.which("mmdebstrap") is None:
        raise TestHostError("mmdebstrap is missing on this machine: apt-get install mmdebstrap")
    no_extras = '--aptopt=Apt::Install-Recommends "false"'
    command = [
        "mmdebstrap",
        "--mode=root",
        f"--variant={variant}",
        f"--include={','.join(packages)}",
        no_extras,
    ]
    run([*command, *options, suite, str(target), *sources], say, f"mmdebstrap {suite}", scratch=target.parent)
