"""QEMU with a vfio-user client: this machine's own when it is new enough, else a tree built once.

The device `vfio-user-pci` came with QEMU 10.1 (its change log, section PCI). A tree is Debian 13 with QEMU from
its backports; an older system runs it through the tree's own ld.so, without chroot and without root.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from . import building, cache, mirror
from .cache import Say
from .errors import TestHostError
from .recipe import digest

OLDEST = (10, 1)
_SUITE, _SIDE = "trixie", "trixie-backports"
_PACKAGES = ("qemu-system-x86", "qemu-system-common", "qemu-system-data", "qemu-utils", "seabios")


@dataclass(frozen=True)
class Qemu:
    """Commands to start with, and what their environment needs."""

    system: tuple[str, ...]
    img: tuple[str, ...]
    environ: dict[str, str] = field(default_factory=dict)


def find(say: Say) -> Qemu:
    """A QEMU that can show emulated GPUs. Raises TestHostError when there is none and none can be built."""
    own = shutil.which("qemu-system-x86_64")
    img = shutil.which("qemu-img")
    if own and img and _is_new(own):
        return Qemu((own,), (img,))
    sources = [f"deb {mirror.mirror()} {suite} main" for suite in (_SUITE, _SIDE)]

    def build(made: Path) -> None:
        building.demand_root(
            f"QEMU {'.'.join(map(str, OLDEST))} or newer is not on this machine; a tree of it"
        )
        packages = [f"{name}/{_SIDE}" for name in _PACKAGES]
        # By way of a tar: a folder of mmdebstrap's would have its mounts in it while it is built.
        building.mmdebstrap(made / "tree.tar", _SUITE, packages, sources, say, variant="essential",
                            options=[f"--aptopt={_settings(made)}"])  # fmt: skip
        (made / "tree").mkdir()
        wanted = ["./usr", "./lib", "./lib64"]
        unpack = ["tar", "-C", str(made / "tree"), "-xf", str(made / "tree.tar"), *wanted]
        building.run(unpack, say, "unpacking QEMU")
        (made / "tree.tar").unlink()

    where = cache.folder() / "qemu"
    return in_tree(cache.kept(where, digest(_SUITE, _SIDE, _PACKAGES, sources), build, say, "QEMU") / "tree")


def in_tree(tree: Path) -> Qemu:
    """The QEMU that lies in ``tree``."""
    libraries = tree / "usr/lib/x86_64-linux-gnu"
    path = f"{libraries}:{libraries}/systemd:{tree}/lib/x86_64-linux-gnu"
    loader = (f"{tree}/lib64/ld-linux-x86-64.so.2", "--library-path", path)
    firmware = [f"{tree}/usr/share/qemu", f"{tree}/usr/share/seabios", f"{tree}/usr/lib/ipxe/qemu"]
    data = tuple(word for place in firmware for word in ("-L", place))
    return Qemu(
        (*loader, f"{tree}/usr/bin/qemu-system-x86_64", *data),
        (*loader, f"{tree}/usr/bin/qemu-img"),
        # Else it tries the modules of this machine's QEMU.
        {"QEMU_MODULE_DIR": f"{libraries}/qemu"},
    )


def version_in(text: str) -> tuple[int, int]:
    """Major and minor of ``qemu-system-x86_64 --version``; (0, 0) when it says none."""
    found = re.search(r"version (\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _is_new(program: str) -> bool:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    if version_in(said) < OLDEST:
        return False
    devices = subprocess.run([program, "-device", "help"], capture_output=True, text=True, check=False).stdout
    return '"vfio-user-pci"' in devices


def make_overlay(qemu: Qemu, base: Path, overlay: Path) -> None:
    """A disk that holds only what differs from ``base``. Raises TestHostError."""
    command = [*qemu.img, "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(base), str(overlay)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **qemu.environ}
    )
    if done.returncode:
        raise TestHostError(f"qemu-img cannot make {overlay}: {done.stderr.strip()}")


def _settings(made: Path) -> Path:
    path = made / "apt.conf"
    path.write_text(mirror.apt_settings())
    return path
