"""Where Debian's packages come from: the mirror, proxy and certificates that this machine's own apt uses."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from provision.debian import TARGETS, archives

from .errors import TestHostError


def mirror() -> str:
    """The Debian archive to build from; ``KPRO_DEBIAN_MIRROR`` names another one. Raises TestHostError."""
    if chosen := os.environ.get("KPRO_DEBIAN_MIRROR"):
        return chosen
    found = archives(_said("apt-get", "indextargets", "--format", TARGETS)).get("main")
    if found is None:
        raise TestHostError(
            "apt knows no Debian archive on this machine, and the test host is made of Debian's packages: "
            "run apt-get update, or name an archive in KPRO_DEBIAN_MIRROR"
        )
    return found


def apt_settings() -> str:
    """The proxies of this machine's apt, as lines of an apt.conf; empty when it has none."""
    names = ("Acquire::http::Proxy", "Acquire::https::Proxy")
    rows = _said("apt-config", "dump", *names).splitlines()
    return "".join(f"{row}\n" for row in rows if row.startswith(names) and '""' not in row)


def carried() -> dict[str, str]:
    """What the machine needs to reach its package indexes, path -> text: the test host gets the same.

    They are what the root of a container carries too (provision.guest.root): with other ones in the guest, the
    root that lies ready in it would count as out of date.
    """
    paths = [Path("/etc/uv/uv.toml"), Path("/etc/pip.conf")]
    paths += sorted(Path("/usr/local/share/ca-certificates").glob("*.crt"))
    return {str(path): path.read_text() for path in paths if path.is_file()}


def _said(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise TestHostError(
            f"{command[0]} is not on this machine: the test host is built on Debian and its kin"
        ) from None
    if done.returncode:
        raise TestHostError(f"{' '.join(command[:2])} fails: {done.stderr.strip()}; run apt-get update")
    return done.stdout
