"""NVML for the load check, in the child: all GPUs at rest (``look``), one GPU at work (``Sampler``).

The layout is that of an NVML dump: one key per getter, its value or ``{err, msg}``. Only getters are called.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

SYSTEM = ("nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion_v2", "nvmlDeviceGetCount")

DEVICE: dict[str, tuple[str, tuple[int, ...]]] = {
    **{
        f"nvmlDeviceGet{name}": (f"nvmlDeviceGet{name}", ())
        for name in (
            *("Name", "UUID", "PciInfo", "MigMode", "ComputeMode", "MemoryInfo", "UtilizationRates"),
            *("ComputeRunningProcesses", "GraphicsRunningProcesses", "MPSComputeRunningProcesses"),
            *("MaxPcieLinkGeneration", "GpuMaxPcieLinkGeneration", "MaxPcieLinkWidth", "PcieReplayCounter"),
            *("CurrPcieLinkGeneration", "CurrPcieLinkWidth", "MemoryBusWidth", "RemappedRows", "EccMode"),
        )
    },
    "nvmlDeviceGetMaxClockInfo:sm": ("nvmlDeviceGetMaxClockInfo", (1,)),
    "nvmlDeviceGetMaxClockInfo:mem": ("nvmlDeviceGetMaxClockInfo", (2,)),
    "ecc_unc_vol": ("nvmlDeviceGetTotalEccErrors", (1, 0)),
    "ecc_cor_vol": ("nvmlDeviceGetTotalEccErrors", (0, 0)),
    "temp": ("nvmlDeviceGetTemperature", (0,)),
    "tempV": ("nvmlDeviceGetTemperatureV", (0,)),
    "tthr_slowdown": ("nvmlDeviceGetTemperatureThreshold", (1,)),
    "tthr_gpu_max": ("nvmlDeviceGetTemperatureThreshold", (3,)),
    "viol_power": ("nvmlDeviceGetViolationStatus", (0,)),
    "viol_thermal": ("nvmlDeviceGetViolationStatus", (1,)),
    "viol_board": ("nvmlDeviceGetViolationStatus", (3,)),
    "viol_reliab": ("nvmlDeviceGetViolationStatus", (5,)),
}

AT_WORK: dict[str, tuple[str, tuple[int, ...]]] = {
    "generation": ("nvmlDeviceGetCurrPcieLinkGeneration", ()),
    "width": ("nvmlDeviceGetCurrPcieLinkWidth", ()),
    "sm_mhz": ("nvmlDeviceGetClockInfo", (1,)),
    "memory_mhz": ("nvmlDeviceGetClockInfo", (2,)),
    "celsius": ("nvmlDeviceGetTemperature", (0,)),
    "milliwatts": ("nvmlDeviceGetPowerUsage", ()),
    "reasons": ("nvmlDeviceGetCurrentClocksEventReasons", ()),
}
_EVERY = 0.02


def look() -> dict[str, Any]:
    """All GPUs that NVML lists; ``{"nvmlInit": {err}}`` when it cannot be started."""
    nvml = _binding()
    if isinstance(nvml, dict):
        return {"nvmlInit": nvml}
    whole: dict[str, Any] = {"nvmlInit": None, **{name: _call(nvml, name) for name in SYSTEM}}
    count = whole["nvmlDeviceGetCount"]
    whole["devices"] = [_device(nvml, index) for index in range(count if isinstance(count, int) else 0)]
    return whole


def _binding() -> Any:
    try:
        import pynvml
    except ImportError as error:
        return {"err": "ImportError", "msg": f"nvidia-ml-py is not importable: {error}"}
    if not hasattr(pynvml, "_nvmlGetFunctionPointer"):
        return {"err": "ForeignBinding", "msg": f"{pynvml.__file__} is not NVIDIA's nvidia-ml-py"}
    started = _call(pynvml, "nvmlInit")
    return pynvml if started is None else started


def _device(nvml: Any, index: int) -> dict[str, Any]:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
    except nvml.NVMLError as error:
        return {"handle": _error(error)}
    values = {key: _call(nvml, call, handle, *args) for key, (call, args) in DEVICE.items()}
    values["memv2"] = _call(nvml, "nvmlDeviceGetMemoryInfo", handle, getattr(nvml, "nvmlMemory_v2", 0))
    return values


def _call(nvml: Any, name: str, *args: Any) -> Any:
    function = getattr(nvml, name, None)
    if function is None:
        return {"err": "NOFUNC", "msg": f"the binding has no {name}"}
    try:
        return _plain(function(*args))
    except nvml.NVMLError as error:
        return _error(error)
    except Exception as error:  # noqa: BLE001 - a binding that trips is an answer, and the other getters go on
        return {"err": type(error).__name__, "msg": str(error)[:200]}


def _error(error: Any) -> dict[str, Any]:
    return {"err": getattr(error, "value", None), "cls": type(error).__name__, "msg": str(error)}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.split(b"\0")[0].decode(errors="replace")
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "_fields_"):
        return {field[0]: _plain(getattr(value, field[0])) for field in value._fields_}
    if hasattr(value, "__dict__"):
        return {key: _plain(item) for key, item in vars(value).items()}
    return value


class Sampler:
    """Looks at one GPU while it works: call it often, it asks NVML every 20 ms at most."""

    def __init__(self, uuid: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = 0.0
        self._handle: Any = None
        self._nvml = _binding()
        self.gap: dict[str, Any] | None = self._nvml if isinstance(self._nvml, dict) else None
        self.samples: list[dict[str, Any]] = []
        if self.gap is None:
            try:
                self._handle = self._nvml.nvmlDeviceGetHandleByUUID(uuid)
            except self._nvml.NVMLError as error:
                self.gap = _error(error)

    def __call__(self) -> None:
        if self.gap is None and self._clock() >= self._next:
            self._next = self._clock() + _EVERY
            self.samples.append(
                {key: _call(self._nvml, call, self._handle, *args) for key, (call, args) in AT_WORK.items()}
            )

    def take(self) -> dict[str, Any]:
        """What was seen since the last ``take``: extremes of each value, and the reasons of any moment."""
        samples, self.samples = self.samples, []
        if self.gap is not None:
            return {"gap": self.gap}
        seen: dict[str, Any] = {"samples": len(samples)}
        for key in AT_WORK:
            numbers = sorted(s[key] for s in samples if isinstance(s[key], int))
            if not numbers:
                gaps = [s[key] for s in samples if isinstance(s[key], dict)]
                seen[key] = gaps[0] if gaps else {"err": "NotRead", "msg": "no sample was taken"}
            elif key == "reasons":
                seen[key] = 0
                for number in numbers:
                    seen[key] |= number
            else:
                middle = numbers[len(numbers) // 2]
                seen[key] = {"low": numbers[0], "median": middle, "high": numbers[-1]}
        return seen
