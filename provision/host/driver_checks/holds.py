"""Packages that are held at their version, and upgrades in passing that would swap them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from checks.snapshot import CouldNotLook
from provision.data.driver_packages import upstream
from provision.host import apt_asked
from provision.host.driver_checks import apt_conf
from provision.host.driver_checks.scene import PACKAGED, Said, Scene
from provision.host.driver_checks.seen import Package
from provision.plan import Refusal

UPGRADER = "unattended-upgrades"
_USER_SPACE = re.compile(
    r"libcuda1|libnvidia-(ml1|compute.*|ptxjitcompiler1)|nvidia-(driver-cuda|smi|utils.*|driver-libs.*|alternative)"
    r"|nvidia-(open-)?kernel(-open)?-dkms|nvidia-dkms.*|nvidia-headless-.*"
)
ORIGINS = {"debian": ("debian", "*"), "nvidia": ("nvidia", "*"), "ubuntu": ("ubuntu", "distro_id", "*")}
"""What a route's archive is called in the lists of unattended-upgrades; ``${distro_id}`` is the system's own name."""


def judge(scene: Scene) -> Said:
    if scene.driver is None or scene.driver.route not in PACKAGED:
        return
    # What kpro holds itself it changes with a new pin.
    ours = apt_asked.held_by_kpro(scene.snapshot)
    old = [
        f"{name} {package.version}"
        for name, package in sorted(scene.packages.items())
        if package.held and name not in ours and _USER_SPACE.fullmatch(name)
        if upstream(package.version) != scene.driver.version
    ]
    if old and scene.installing and not _apt_said_so(scene):
        names = " ".join(one.split()[0] for one in old)
        yield Refusal(
            "machine.driver",
            f"held at another version than the pin: {', '.join(old)}",
            f"apt would not bring driver {scene.driver.version} past them",
            f"apt-mark unhold {names}, then run again",
        )
    yield from _kernels(scene.packages)
    loose = sorted(
        name for name, package in scene.packages.items() if _USER_SPACE.fullmatch(name) and not package.held
    )
    why = upgraded_in_passing(scene.packages, apt_conf.of(scene.snapshot), scene.driver.route)
    if loose and why:
        what = ", ".join(loose)
        yield (
            f"{why} and may swap {what} under the loaded module: they are held with apt-mark hold"
            + ("" if scene.machine.managed else f"; do so: apt-mark hold {' '.join(loose)}")
        )


def _apt_said_so(scene: Scene) -> bool:
    """Was apt asked, and has the plan of the driver its answer about holds?"""
    try:
        return "held packages will be changed" in scene.snapshot.command(apt_asked.NAME)[1]
    except CouldNotLook:
        return False


def _kernels(packages: Mapping[str, Package]) -> Said:
    """Held headers beside kernels that go on are the way to a kernel without a driver."""
    metas = re.compile(r"(proxmox-default|proxmox|pve|linux)-headers(-.*)?|proxmox-default-headers")
    for name, package in sorted(packages.items()):
        if not (package.held and metas.fullmatch(name)):
            continue
        kernel = name.replace("-headers", "-image" if name.startswith("linux") else "-kernel")
        if kernel in packages and not packages[kernel].held:
            yield f"{name} is held and {kernel} is not: the next kernel would lack headers; apt-mark unhold {name}"


def upgraded_in_passing(
    packages: Mapping[str, Package], conf: Mapping[str, tuple[str, ...]], route: str
) -> str | None:
    """Why packages of this route's archive may be upgraded without anybody asking; None where they are not.

    unattended-upgrades runs when APT::Periodic::Unattended-Upgrade is not 0, takes what Origins-Pattern or
    Allowed-Origins name, and leaves what Package-Blacklist (regular expressions, from the start of the name) matches.
    """
    if UPGRADER not in packages or not packages[UPGRADER].whole:
        return None
    every = conf.get("apt::periodic::unattended-upgrade", ("0",))[-1]
    if every in ("0", ""):
        return None
    listed = [
        *conf.get("unattended-upgrade::origins-pattern", ()),
        *conf.get("unattended-upgrade::allowed-origins", ()),
    ]
    words = ORIGINS.get(route, ())
    if not any(word in origin.lower() for origin in listed for word in words):
        return None
    if any(
        re.match(pattern, name)
        for pattern in _patterns(conf)
        for name in ("nvidia-smi", "nvidia-driver-cuda")
    ):
        return None
    return f"{UPGRADER} runs (APT::Periodic::Unattended-Upgrade {every!r})"


def _patterns(conf: Mapping[str, tuple[str, ...]]) -> list[re.Pattern[str]]:
    found = []
    for text in conf.get("unattended-upgrade::package-blacklist", ()):
        try:
            found.append(re.compile(text))
        except re.error:
            continue
    return found
