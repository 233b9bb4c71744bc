"""Rules about what is burnt or loaded into a GPU: VBIOS, the GSP's firmware, the infoROM."""

from __future__ import annotations

from collections import Counter

from checks.gpus.dump import Gap, Gpu
from checks.gpus.rule import Outcome, Scene, failed, first_error, passed, skipped, unread, warned

CORRUPTED_INFOROM = 14
"""NVML_ERROR_CORRUPTED_INFOROM"""

_VBIOS = "nvmlDeviceGetVbiosVersion"


def vbios(gpu: Gpu, scene: Scene) -> Outcome | None:
    """Have boards of one make one VBIOS? Boards of other makers (another subsystem id) are not compared."""
    if not scene.holds(_VBIOS):
        return None
    own = gpu.text(_VBIOS)
    if isinstance(own, Gap):
        return unread("VBIOS version", own)
    others = [other for other in scene.siblings(gpu) if _make(other) == _make(gpu)]
    versions = [version for one in others if isinstance(version := one.text(_VBIOS), str)]
    common, times = Counter([own, *versions]).most_common(1)[0]
    if all(version == own for version in versions):
        more = f", as on {len(versions)} siblings" if versions else ""
        return passed(f"VBIOS {own}{more}", value=own)
    if own == common and times > 1 + len(versions) - times:
        return passed(f"VBIOS {own}, as on most of its siblings", value=own)
    differing = next(one for one in others if one.text(_VBIOS) not in (own,))
    return warned(
        f"VBIOS {own}, {differing.subject} has {differing.text(_VBIOS)}",
        value=own,
        limit=common if common != own else None,
        cause="a board that was replaced or flashed alone: clocks, power and fan curves can differ",
        fix="ask the vendor for one VBIOS for all boards of this make",
    )


def _make(gpu: Gpu) -> object:
    pci = gpu.struct("nvmlDeviceGetPciInfo")
    return None if isinstance(pci, Gap) else pci.get("pciSubSystemId")


_VERSION, _MODE = "nvmlDeviceGetGspFirmwareVersion", "nvmlDeviceGetGspFirmwareMode"


def gsp(gpu: Gpu, scene: Scene) -> Outcome | None:
    """Does the GPU System Processor run as this board has it by default, with the driver's own firmware?"""
    if not scene.holds(_VERSION, _MODE):
        return None
    mode, version, driver = gpu.numbers(_MODE), gpu.text(_VERSION), scene.dump.driver
    error = first_error(mode, version)
    if error is not None:
        return unread("GSP firmware", error)
    if not isinstance(mode, Gap) and len(mode) == 2 and not mode[0] and mode[1]:
        return warned(
            "the GSP is off, and on by default for this board",
            value=0,
            limit=1,
            cause="NVreg_EnableGpuFirmware=0 in a file of /etc/modprobe.d or on the kernel command line",
            fix="remove that option and reboot; the open kernel module needs the GSP",
        )
    if isinstance(version, str) and version and isinstance(driver, str) and version != driver:
        return warned(
            f"GSP firmware {version} under driver {driver}",
            value=version,
            limit=driver,
            cause="firmware files of another driver lie in /lib/firmware/nvidia",
            fix="install driver and firmware from one package set, then reboot",
        )
    if isinstance(version, Gap) and isinstance(mode, Gap):
        return unread("GSP firmware", version)
    if not isinstance(mode, Gap) and not any(mode):
        return skipped("this board runs without GSP firmware, as it does by default")
    return passed(
        f"GSP firmware {version}" if isinstance(version, str) else "the GSP is on", value=_plain(version)
    )


def _plain(version: str | Gap) -> str | None:
    return version if isinstance(version, str) else None


_VALIDATE = "nvmlDeviceValidateInforom"


def inforom(gpu: Gpu, scene: Scene) -> Outcome | None:
    """Is the infoROM sound? It keeps the board's error history, so a broken one also hides what was retired."""
    corrupt = [key for key in gpu.values if _code(gpu, key) == CORRUPTED_INFOROM]
    if not corrupt and not scene.holds(_VALIDATE):
        return None
    gap = gpu.answered(_VALIDATE)
    if corrupt:
        return failed(
            f"the infoROM is corrupted (NVML error 14 from {corrupt[0]})",
            cause="the board's own store of settings and error history is damaged",
            fix="power the machine off and on; if it stays, have the vendor replace or reflash the board",
        )
    if gap is not None:
        return unread("the infoROM's checksum", gap)
    image = gpu.text("nvmlDeviceGetInforomImageVersion")
    error = first_error(image)
    if error is not None:
        return unread("the infoROM's version", error)
    return passed(
        f"infoROM {image} is valid" if isinstance(image, str) else "the infoROM is valid", value=_plain(image)
    )


def _code(gpu: Gpu, key: str) -> object:
    value = gpu.values[key]
    return value.get("err") if isinstance(value, dict) else None
