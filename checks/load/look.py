"""NVML while a GPU works, in its child. At rest it is read as for ``provcheck gpus``. Only getters are called."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from checks.gpus.nvml_read import call

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


def _binding() -> Any:
    try:
        import pynvml
    except ImportError as error:
        return {"err": "ImportError", "msg": f"nvidia-ml-py is not importable: {error}"}
    if not hasattr(pynvml, "_nvmlGetFunctionPointer"):
        return {"err": "ForeignBinding", "msg": f"{pynvml.__file__} is not NVIDIA's nvidia-ml-py"}
    started = call(pynvml, "nvmlInit")
    return pynvml if started is None else started


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
                self.gap = {"err": getattr(error, "value", None), "msg": str(error)}

    def __call__(self) -> None:
        if self.gap is None and self._clock() >= self._next:
            self._next = self._clock() + _EVERY
            self.samples.append(
                {key: call(self._nvml, name, self._handle, *args) for key, (name, args) in AT_WORK.items()}
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
