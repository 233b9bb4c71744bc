"""Are the headers there that DKMS compiles against: of the kernels that count, and of each next one? Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from provision.data.archives import PROXMOX_HEADERS
from provision.data.driver_routes import HEADERS
from provision.host.driver_checks.scene import Said, Scene
from provision.plan import Refusal

BROUGHT = ("debian", "nvidia")
"""Routes whose install brings headers for every kernel, and the metapackage for the next one."""


def judge(scene: Scene) -> Said:
    if scene.driver is None or scene.driver.route not in ("debian", "nvidia", "run"):
        return
    lacking = [kernel for kernel in scene.kernels if not _there(scene, kernel)]
    brought = scene.installing and scene.driver.route in BROUGHT
    if lacking and scene.installing and not brought:
        names = " ".join(map(package, lacking))
        yield Refusal(
            "machine.driver",
            f"the headers of kernel {', '.join(lacking)} are not installed",
            "nothing compiles for a kernel without them, and it would boot without a driver",
            f"apt-get install {names}",
        )
    absent = () if brought else missing_metapackages(scene.packages, scene.running)
    for kernels, headers in absent:
        text = f"{kernels} brings new kernels, and {headers} is not installed"
        why = "DKMS skips a kernel without headers and says nothing: the next kernel would boot without a driver"
        if scene.installing:
            yield Refusal("machine.driver", text, why, f"apt-get install {headers}")
        else:
            yield f"{text}: {why} (apt-get install {headers})"


def package(kernel: str) -> str:
    """The package with the headers of a kernel: Proxmox has its own name for them."""
    return f"proxmox-headers-{kernel}" if kernel.endswith("-pve") else f"linux-headers-{kernel}"


def _there(scene: Scene, kernel: str) -> bool:
    names = {package(kernel), f"pve-headers-{kernel}", f"linux-headers-{kernel}"}
    found = (scene.snapshot.data("names", "/usr/src/linux-headers-*") or b"").decode(errors="replace").split()
    built = (scene.snapshot.data("names", "/lib/modules/*/build") or b"").decode(errors="replace").split()
    return (
        f"/usr/src/linux-headers-{kernel}" in found
        or f"/lib/modules/{kernel}/build" in built
        or any(name in scene.packages and scene.packages[name].whole for name in names)
    )


def missing_metapackages(packages: Iterable[str], running: str) -> tuple[tuple[str, str], ...]:
    """Installed packages that bring each next kernel, with the one that should bring its headers and is not there. On a
    Proxmox VE of which no such package is known, that of its default kernel is expected."""
    there = set(packages)
    metas = {name: headers_of(name) for name in sorted(there) if headers_of(name)}
    if not metas and running.endswith("-pve"):
        series = ".".join(running.split(".")[:2])
        metas["Proxmox VE"] = (
            PROXMOX_HEADERS,
            "pve-headers",
            f"proxmox-headers-{series}",
            f"pve-headers-{series}",
        )
    return tuple((name, wanted[0]) for name, wanted in metas.items() if not there.intersection(wanted))


def headers_of(name: str) -> tuple[str, ...]:
    """The packages of which one brings headers for what a metapackage of kernels brings; empty for another package, a
    single kernel too."""
    # Beside metapackages there are kernels themselves, their parts, and helpers (proxmox-kernel-helper, -libc-dev).
    if re.search(
        r"\d+\.\d+\.\d+-|-(signed|unsigned|dbg)(-|$)|^linux-image-(extra|unsigned|\d)|^(proxmox|pve)-kernel-[a-z]",
        name,
    ):
        return ()
    for row in HEADERS:
        if name.startswith(row.kernel):
            wanted = f"{row.headers}{name.removeprefix(row.kernel)}"
            return (wanted,) if row.kernel.startswith("linux") else (wanted, PROXMOX_HEADERS)
    return ()
