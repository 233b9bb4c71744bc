"""A second driver and a second kernel for a virtual host: real ones of Debian, got once for all sessions."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

from provision.driver import pack
from provision.driver.apt import Apt
from provision.driver.process import Commands
from provision.testhost.vm import cache, image
from tests.controller import BIN
from tests.vm.rig import CACHE


def arriving(kernel: str) -> str:
    """The kernel that counts as newer: the same, for clouds, which is a third of the size."""
    return kernel.replace("-amd64", "-cloud-amd64")


def driver(version: str, flavour: str, kernel: str) -> Path:
    """The driver's archive for this kernel, compiled when the cache has none."""
    words = ["--driver", version, "--flavour", flavour, "--kernel", kernel]
    done = subprocess.run(
        [str(BIN / "provision"), "build-driver", *words],
        env={**os.environ, "XDG_CACHE_HOME": CACHE},
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=1800,
        check=True,
    )
    return Path(done.stdout.strip())


def kernel(release: str) -> Path:
    """The package of this kernel, not compressed: an emulated machine takes minutes to unpack it otherwise."""

    def make(folder: Path) -> None:
        run = Commands(folder / "log", lambda _: None)
        apt = Apt(folder / "apt", run)
        apt.folder.mkdir()
        apt.prepare(image.GUEST_SUITE)
        name, tree = f"linux-image-{release}", folder / "tree"
        apt.fetch({name: apt.versions(name)[0]}, folder / "unpacked")
        (deb,) = (apt.folder / "debs").glob("*.deb")
        run(["dpkg-deb", "-R", str(deb), str(tree)], "unpacking the kernel")
        run(["dpkg-deb", "-Znone", "-b", str(tree), str(folder / "kernel.deb")], "packing the kernel")
        for left in ("apt", "tree", "unpacked"):
            shutil.rmtree(folder / left)

    where = Path(CACHE) / "kpro" / "vm" / "kernels"
    return cache.kept(where, release, make, lambda _: None, f"kernel {release}") / "kernel.deb"


def of_another_build(archive: Path, target: Path, work: Path) -> None:
    """The same driver as if compiled for another build of its kernel: the kernel refuses it for a symbol's version
    (Documentation/kbuild/modules.rst, 'Module Versioning'), as it does on machines with stale headers."""
    subprocess.run(["tar", "-C", str(work), "--zstd", "-xf", str(archive)], check=True)
    module = work / "modules" / "nvidia.ko"
    data = bytearray(module.read_bytes())
    # struct modversion_info: eight bytes of checksum, then the name.
    at = data.index(b"\0module_layout\0") + 1 - 8
    data[at : at + 4] = bytes(byte ^ 0xFF for byte in data[at : at + 4])
    module.write_bytes(data)
    (work / "manifest.json").unlink()
    held = pack.manifest_of(archive)
    files, links = pack.listed(work)
    pack.write(work, replace(held, files=files, links=links), target)
