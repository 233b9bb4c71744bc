"""Two real hosts for the whole session; bringing them up costs most of a minute. Needs root, LXC and mmdebstrap."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.guest import root
from tests.guest import apart
from tests.migrate.rig import HOST_PACKAGES, Pair, make_pair, sh

# Read before any test gets a home of its own: a root is built once for all sessions.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kpro" / "roots"


def _root(packages: tuple[str, ...]) -> Path:
    script = root.build_script("bookworm", packages, folder=str(CACHE))
    built = subprocess.run(
        [*apart.outside, "sh", "-s"], input=script, capture_output=True, text=True, timeout=600, check=False
    )
    assert built.returncode == 0, built.stderr[-3000:]
    return Path(built.stdout.strip())


def _unpacked(tarball: Path) -> Path:
    """The root as a folder, which hosts lie over and never change; unpacked once."""
    folder = tarball.with_name(f"{tarball.stem}-{tarball.stat().st_mtime_ns}")
    with (CACHE / ".unpack").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            partial = folder.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            sh("tar", "--numeric-owner", "--xattrs", "-xf", str(tarball), "-C", str(partial), timeout=300)
            partial.rename(folder)
    return folder


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Hosts a and b, running. Leave them without a service and without anything of a migration."""
    missing = [tool for tool in ("lxc-start", "mmdebstrap", "ip", "nsenter") if not shutil.which(tool)]
    if os.geteuid() != 0 or missing:
        pytest.fail(f"this tier needs root, LXC and mmdebstrap (missing: {missing or 'root'})")
    made = make_pair(_unpacked(_root(HOST_PACKAGES)), _root(root.PACKAGES), tmp_path_factory.mktemp("pair"))
    yield made
    made.remove()
