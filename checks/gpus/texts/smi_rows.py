"""Which line of ``nvidia-smi -q`` is which key of an NVML dump. Pure: an outline in, the keys it shows out.

Names changed over driver branches, so a key has several paths; the end of a path is enough. A value that the text
does not show makes no key; one that it shows as an error makes that error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from checks.gpus.texts.evidence import gap, number
from checks.gpus.texts.smi_blocks import ON, Outline, at, errors, fabric, thresholds

Value = Any

_MIB = 1 << 20
_COMPUTE = {"default": 0, "exclusive_thread": 1, "prohibited": 2, "exclusive_process": 3}
_VIRTUAL = {"none": 0, "pass-through": 1, "vgpu": 2, "host vgpu": 3, "host vsga": 4}
_RECOVERY = {
    "none": 0,
    "gpu reset": 1, "reset": 1, "gpu reset required": 1,
    "node reboot": 2, "reboot": 2, "node reboot required": 2,
    "drain p2p": 3,
    "drain and reset": 4,
    "recover imex domain": 5, "imex domain recovery": 5,
    "bus reset": 6,
    "system reboot": 7,
}  # fmt: skip
_STATES = {
    "RESET_STATUS": (("GPU Reset Status", "Reset Required"), ("Reset Required",)),
    "DRAIN_AND_RESET_STATUS": (
        ("GPU Reset Status", "Drain and Reset Recommended"),
        ("Drain and Reset Recommended",),
    ),
    "REMAPPED_PENDING": (("Remapped Rows", "Pending"),),
    "REMAPPED_FAILURE": (("Remapped Rows", "Remapping Failure Occurred"),),
}
"""Fields of nvml.h (226, 227, 144, 145) that hold 1 or 0."""
_REASONS = {
    "Idle": 0x1,
    "Applications Clocks Setting": 0x2,
    "SW Power Cap": 0x4,
    "HW Slowdown": 0x8,
    "Sync Boost": 0x10,
    "SW Thermal Slowdown": 0x20,
    "HW Thermal Slowdown": 0x40,
    "HW Power Brake Slowdown": 0x80,
    "Display Clock Setting": 0x100,
}
"""Clock event reasons, nvml.h."""


def _one(read: Callable[[str], Value | None], *paths: tuple[str, ...]) -> Callable[[Outline], Value | None]:
    def value(outline: Outline) -> Value | None:
        for path in paths:
            text = at(outline, *path)
            if text is not None:
                return gap(text) or read(text)
        return None

    return value


def _all(*parts: Callable[[Outline], Value | None]) -> Callable[[Outline], Value | None]:
    """A list of values: none when one is missing, the error when one is an error."""

    def value(outline: Outline) -> Value | None:
        values = [part(outline) for part in parts]
        errors = [v for v in values if isinstance(v, dict)]
        return errors[0] if errors else None if None in values else values

    return value


def _word(table: Mapping[str, int]) -> Callable[[str], int | None]:
    return lambda text: table.get(text.strip().lower())


def _flag(text: str) -> Value:
    """Of a fault: a word that is not understood is no 'no'."""
    return ON.get(text.strip().lower(), {"err": 999, "cls": "nvidia-smi", "msg": text.strip()[:60]})


def _any(*parts: Callable[[Outline], Value | None]) -> Callable[[Outline], Value | None]:
    """A list of flags, 0 for one that the text does not show beside another that it does, and for one that this
    GPU does not have; a flag that is set holds whatever became of the others."""

    def value(outline: Outline) -> Value | None:
        values = [part(outline) for part in parts]
        known = [v for v in values if isinstance(v, int)]
        errors = [v for v in values if isinstance(v, dict)]
        real = [error for error in errors if error["err"] != 3]
        if any(known) or (known and not real):
            return [v if isinstance(v, int) else 0 for v in values]
        return next(iter(real or errors), None)

    return value


def _text(text: str) -> str | None:
    return text[:200] or None


def _milli(text: str) -> int | None:
    try:
        return round(float(text.split()[0]) * 1000)
    except (ValueError, IndexError, OverflowError):
        return None


def _pages(text: str) -> list[int] | None:
    count = number(text)
    return [0] * min(count, 4096) if count is not None and count >= 0 else None


def _margin(outline: Outline) -> Value | None:
    """Boards without one print N/A, which says nothing of any limit."""
    return number(at(outline, "GPU T.Limit Temp") or "")


_on = _word(ON)
_plain = {
    "nvmlDeviceGetName": _one(_text, ("Product Name",)),
    "nvmlDeviceGetUUID": _one(_text, ("GPU UUID",)),
    "nvmlDeviceGetVbiosVersion": _one(_text, ("VBIOS Version",)),
    "nvmlDeviceGetInforomImageVersion": _one(_text, ("Inforom Version", "Image Version")),
    "nvmlDeviceGetGspFirmwareVersion": _one(_text, ("GSP Firmware Version",)),
    "nvmlDeviceGetMinorNumber": _one(number, ("Minor Number",)),
    "nvmlDeviceGetPersistenceMode": _one(_on, ("Persistence Mode",)),
    "nvmlDeviceGetComputeMode": _one(_word(_COMPUTE), ("Compute Mode",)),
    "nvmlDeviceGetVirtualizationMode": _one(_word(_VIRTUAL), ("Virtualization Mode",)),
    "nvmlDeviceGetMigMode": _all(_one(_on, ("MIG Mode", "Current")), _one(_on, ("MIG Mode", "Pending"))),
    "nvmlDeviceGetEccMode": _all(
        _one(_on, ("ECC Mode", "Current"), ("Ecc Mode", "Current")),
        _one(_on, ("ECC Mode", "Pending"), ("Ecc Mode", "Pending")),
    ),
    "nvmlDeviceGetCurrPcieLinkGeneration": _one(number, ("PCIe Generation", "Current")),
    "nvmlDeviceGetMaxPcieLinkGeneration": _one(number, ("PCIe Generation", "Max")),
    "nvmlDeviceGetGpuMaxPcieLinkGeneration": _one(number, ("PCIe Generation", "Device Max")),
    "nvmlDeviceGetCurrPcieLinkWidth": _one(number, ("Link Width", "Current")),
    "nvmlDeviceGetMaxPcieLinkWidth": _one(number, ("Link Width", "Max")),
    "nvmlDeviceGetPcieReplayCounter": _one(number, ("Replays Since Reset",)),
    "nvmlDeviceGetPowerUsage": _one(
        _milli, ("GPU Power Readings", "Average Power Draw"), ("GPU Power Readings", "Power Draw"), ("Power Draw",)
    ),
    "nvmlDeviceGetEnforcedPowerLimit": _one(
        _milli, ("GPU Power Readings", "Current Power Limit"), ("Enforced Power Limit",)
    ),
    "nvmlDeviceGetPowerManagementLimit": _one(
        _milli, ("GPU Power Readings", "Requested Power Limit"), ("GPU Power Readings", "Current Power Limit"),
        ("Power Readings", "Power Limit"),
    ),
    "nvmlDeviceGetPowerManagementDefaultLimit": _one(
        _milli, ("GPU Power Readings", "Default Power Limit"), ("Power Readings", "Default Power Limit")
    ),
    "nvmlDeviceGetClockInfo:gfx": _one(number, ("Clocks", "Graphics")),
    "nvmlDeviceGetMaxClockInfo:gfx": _one(number, ("Max Clocks", "Graphics")),
    "nvmlDeviceGetApplicationsClock:gfx": _one(number, ("Applications Clocks", "Graphics")),
    "nvmlDeviceGetDefaultApplicationsClock:gfx": _one(number, ("Default Applications Clocks", "Graphics")),
    "nvmlDeviceGetClockInfo:sm": _one(number, ("Clocks", "SM")),
    "nvmlDeviceGetMaxClockInfo:sm": _one(number, ("Max Clocks", "SM")),
    "nvmlDeviceGetRetiredPagesPendingStatus": _one(
        _on, ("Retired Pages", "Pending Page Blacklist"), ("Retired Pages", "Pending Page Retirement"),
        ("Retired Pages", "Pending"),
    ),
    "retired_sbe": _one(_pages, ("Retired Pages", "Single Bit ECC")),
    "retired_dbe": _one(_pages, ("Retired Pages", "Double Bit ECC")),
    "nvmlDeviceGetRemappedRows": _all(
        _one(number, ("Remapped Rows", "Correctable Error")),
        _one(number, ("Remapped Rows", "Uncorrectable Error")),
        _one(_flag, ("Remapped Rows", "Pending")),
        _one(_flag, ("Remapped Rows", "Remapping Failure Occurred")),
    ),
    "nvmlDeviceGetRepairStatus": _any(
        _one(_flag, ("Channel Repair Pending",)), _one(_flag, ("TPC Repair Pending",))
    ),
    "unrepairable": _one(_flag, ("Unrepairable Memory",)),
    "temp": _one(number, ("GPU Current Temp",)),
    "nvmlDeviceGetMarginTemperature": _margin,
}  # fmt: skip


def assemble(outline: Outline, bus: str | None) -> dict[str, Any]:
    """The dump of one GPU, as far as the outline shows it; ``bus`` is the address in its heading."""
    device = {key: value for key, make in _plain.items() if (value := make(outline)) is not None}
    address = bus or at(outline, "PCI", "Bus Id")
    if address:
        device["nvmlDeviceGetPciInfo"] = {"busId": address}
    more = {
        "nvmlDeviceGetMemoryInfo": _sizes(
            outline, "FB Memory Usage", {"total": "Total", "free": "Free", "used": "Used"}
        ),
        "nvmlDeviceGetBAR1MemoryInfo": _sizes(
            outline, "BAR1 Memory Usage", {"bar1Total": "Total", "bar1Free": "Free", "bar1Used": "Used"}
        ),
        "memv2": _sizes(
            outline, "FB Memory Usage",
            {"total": "Total", "reserved": "Reserved", "free": "Free", "used": "Used"},
        ),
        "nvmlDeviceGetUtilizationRates": _rates(outline),
        "nvmlDeviceGetCurrentClocksEventReasons": _reasons(outline),
        "fabricV": fabric(outline),
        "nvmlDeviceGetComputeRunningProcesses": _processes(outline),
        "fields": _fields(outline),
        **errors(outline),
        **thresholds(outline),
    }  # fmt: skip
    device.update({key: value for key, value in more.items() if value is not None})
    return device


def _sizes(outline: Outline, heading: str, names: Mapping[str, str]) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    for key, name in names.items():
        text = at(outline, heading, name)
        if text is None:
            return None
        if (error := gap(text)) is not None:
            return error
        size = number(text)
        if size is None:
            return None
        found[key] = size * _MIB
    return found


def _rates(outline: Outline) -> Value | None:
    gpu = at(outline, "Utilization", "GPU") or at(outline, "Utilization", "Gpu")
    if gpu is None:
        return None
    rate = number(gpu)
    return gap(gpu) or (
        None
        if rate is None
        else {"gpu": rate, "memory": number(at(outline, "Utilization", "Memory") or "") or 0}
    )


def _reasons(outline: Outline) -> Value | None:
    found = {
        key[-1]: value
        for key, value in outline.items()
        if any(name in ("Clocks Event Reasons", "Clocks Throttle Reasons") for name in key[:-1])
        and key[-1] in _REASONS
    }
    errors = [error for value in found.values() if (error := gap(value)) is not None]
    if not found or errors:
        return errors[0] if errors else None
    return sum(_REASONS[name] for name, value in found.items() if value.strip().lower() == "active")


def _processes(outline: Outline) -> Value | None:
    said = at(outline, "Processes")
    return [] if said == "None" else None


def _fields(outline: Outline) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    action, memory = at(outline, "GPU Recovery Action"), at(outline, "Memory Current Temp")
    for name, value in (
        ("GET_GPU_RECOVERY_ACTION", action and (gap(action) or _RECOVERY.get(_words(action), 99))),
        ("MEMORY_TEMP", memory and (gap(memory) or number(memory))),
        *((name, _one(_flag, *paths)(outline)) for name, paths in _STATES.items()),
    ):
        if isinstance(value, dict):
            found[f"NVML_FI_DEV_{name}"] = {"ret": value["err"]}
        elif isinstance(value, int):
            found[f"NVML_FI_DEV_{name}"] = {"ret": 0, "type": 1, "ui": value, "ull": value}
    return found or None


def _words(text: str) -> str:
    return " ".join(text.lower().replace("_", " ").split())
