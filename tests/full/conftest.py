"""Long matrices with real compilers, real apt and virtual hosts: ``scripts/test-full``.

Needs root, mmdebstrap and a Debian mirror.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from provision.driver.apt import Apt
from provision.driver.process import Commands
from tests.unit.driver.rooted import Rooted
from tests.vm.conftest import box, clean, home, one_operator, prebuilt, real_cache, vm, vm_image

__all__ = ["box", "clean", "home", "one_operator", "prebuilt", "real_cache", "vm", "vm_image"]

# Read before any test gets a home of its own: archives and roots are made once for all sessions.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kpro"
INCLUDE = "linux-image-amd64,initramfs-tools,zstd,kmod,ca-certificates"


@pytest.fixture(scope="session")
def bare_tree(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes the tree of a suite with a kernel and no driver, once a session."""
    missing = [tool for tool in ("mmdebstrap", "unshare", "zstd") if not shutil.which(tool)]
    if os.geteuid() != 0 or missing:
        pytest.fail(f"these tests need root and programs (missing: {missing or 'root'})")
    made: dict[str, Path] = {}

    def make(suite: str) -> Path:
        if suite not in made:
            folder = tmp_path_factory.mktemp(suite)
            run = Commands(folder / "log", print)
            apt = Apt(folder / "apt", run)
            apt.folder.mkdir()
            apt.prepare(suite)
            # Without the security archive: its driver packages are of two versions (that is another test's matter).
            sources = folder / "sources.list"
            lines = [line for line in apt.sources.read_text().splitlines() if "-security" not in line]
            sources.write_text("\n".join(lines) + "\n")
            options = [
                "--mode=root",
                "--variant=minbase",
                "--dpkgopt=force-unsafe-io",
                f"--include={INCLUDE}",
            ]
            root = folder / "root"
            run(
                ["unshare", "--mount", "mmdebstrap", *options, suite, str(root), str(sources)],
                f"root of {suite}",
            )
            shutil.copy(sources, root / "etc/apt/sources.list")
            shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
            (root / "etc/initramfs-tools/conf.d/small").write_text(
                "MODULES=most\nCOMPRESS=gzip\nCOMPRESSLEVEL=1\n"
            )
            run(
                ["unshare", "--mount", "chroot", str(root), "apt-get", "-q", "update"],
                f"apt's lists of {suite}",
            )
            made[suite] = root
        return made[suite]

    return make


@pytest.fixture
def bare(
    bare_tree: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Rooted]]:
    """A bare host of a suite, for one test: an overlay over the tree that goes away with it."""
    mounted: list[Path] = []

    def make(suite: str) -> Rooted:
        tree = bare_tree(suite)
        root = tmp_path / "root"
        for name in ("root", "up", "work"):
            (tmp_path / name).mkdir()
        run = Commands(tmp_path / "log", print)
        layers = f"lowerdir={tree},upperdir={tmp_path}/up,workdir={tmp_path}/work"
        run(["mount", "-t", "overlay", "overlay", "-o", layers, str(root)], "mounting")
        mounted.append(root)
        host = Rooted(root)
        host.use(monkeypatch)
        return host

    yield make
    for root in mounted:
        Commands(tmp_path / "log", print)(["umount", str(root)], "unmounting")
