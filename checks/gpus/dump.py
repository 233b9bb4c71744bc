"""The NVML dump as typed values. A getter that gave nothing is a Gap, never a zero and never a default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from checks.errors import BadInput
from checks.gpus.getters import LINKS, SHAPES, STRUCTS

NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND = 3, 4, 9, 12
FUNCTION_NOT_FOUND, GPU_IS_LOST, MISMATCH, UNKNOWN_ERROR = 13, 15, 18, 999
MAX_GPUS = 1024
TIMEOUT, DIED = "Timeout", "ChildDied"


@dataclass(frozen=True)
class Gap:
    """Why there is no value: NVML's code, or a word of the collector, and the text that came with it."""

    code: int | str | None
    text: str = ""

    @property
    def absent(self) -> bool:
        """This hardware or driver cannot have the thing (NotSupported, FunctionNotFound): a skip."""
        return self.code in (NOT_SUPPORTED, FUNCTION_NOT_FOUND, "NOFUNC")

    def __str__(self) -> str:
        return f"{self.text or 'no answer'} (code {self.code})"


NOT_READ = Gap("NotRead", "not in the evidence")


@dataclass(frozen=True)
class Gpu:
    """One GPU as NVML enumerates it. ``values`` holds what each getter gave, checked for its shape."""

    index: int
    values: Mapping[str, Any] = field(repr=False)
    handle: Gap | None = None

    @property
    def subject(self) -> str:
        return f"gpu{self.index}"

    def number(self, key: str) -> int | Gap:
        value = self._value(key)
        return value if isinstance(value, (int, Gap)) else NOT_READ

    def text(self, key: str) -> str | Gap:
        value = self._value(key)
        return value if isinstance(value, (str, Gap)) else NOT_READ

    def numbers(self, key: str) -> tuple[int, ...] | Gap:
        value = self._value(key)
        return value if isinstance(value, Gap) else tuple(value)

    def struct(self, key: str) -> Mapping[str, Any] | Gap:
        value = self._value(key)
        return value if isinstance(value, (dict, Gap)) else NOT_READ

    def by_field(self, name: str) -> int | Gap:
        """A value read by field id, by its name without the prefix NVML_FI_DEV_."""
        fields = self.struct("fields")
        if isinstance(fields, Gap):
            return fields
        entry = fields.get(f"NVML_FI_DEV_{name}")
        if entry is None:
            return NOT_READ
        if entry.get("ret") != 0:
            return Gap(entry.get("ret"), "field not readable")
        # valueType 1 is an unsigned int, 3 an unsigned long long (nvml.h, nvmlValueType_t)
        value = entry.get("ui") if entry.get("type") == 1 else entry.get("ull")
        return value if isinstance(value, int) else NOT_READ

    def links(self) -> tuple[int | Gap, ...]:
        """State of each NVLink, 1 active and 0 inactive, in order."""
        links = self.struct("nvlink")
        if isinstance(links, Gap):
            return (links,) * LINKS
        found = (links.get(str(number), {}).get("state", NOT_READ) for number in range(LINKS))
        return tuple(state if isinstance(state, int) else _gap(state) or NOT_READ for state in found)

    @property
    def name(self) -> str:
        name = self.text("nvmlDeviceGetName")
        return "" if isinstance(name, Gap) else name

    def lost(self) -> Gap | None:
        """The first answer that says that the GPU has fallen off the bus, if any getter gave one."""
        if self.handle is not None:
            return self.handle if self.handle.code == GPU_IS_LOST else None
        gaps = filter(None, map(_gap, self.values.values()))
        return next((gap for gap in gaps if gap.code == GPU_IS_LOST), None)

    def _value(self, key: str) -> Any:
        if self.handle is not None:
            return self.handle
        if key not in self.values:
            return NOT_READ
        value = self.values[key]
        return _gap(value) or value


@dataclass(frozen=True)
class Dump:
    """All that NVML said. ``init`` is the reason why it could not be started, None when it was."""

    init: Gap | None
    driver: str | Gap = NOT_READ
    library: str | Gap = NOT_READ
    count: int | Gap = NOT_READ
    gpus: tuple[Gpu, ...] = ()


def parse(data: Mapping[str, Any], name: str) -> Dump:
    """Reads a dump; ``name`` is what errors call it. Raises BadInput when a part has the wrong type."""
    if "nvmlInit" not in data:
        raise BadInput(
            f"{name}: the NVML dump lacks nvmlInit, so it does not say whether NVML could be started"
        )
    init = data["nvmlInit"]
    if init is not None:
        gap = _gap(init)
        if gap is None:
            raise BadInput(f"{name}: nvmlInit must be null or an error object")
        return Dump(gap)
    devices = data.get("devices", [])
    if not isinstance(devices, list) or len(devices) > MAX_GPUS:
        raise BadInput(f"{name}: devices must be a list of at most {MAX_GPUS}")
    system = {key: _system(data, key, name) for key in SHAPES if key.startswith("nvmlSystem")}
    count = _system(data, "nvmlDeviceGetCount", name)
    if isinstance(count, int) and not 0 <= count <= MAX_GPUS:
        raise BadInput(f"{name}: nvmlDeviceGetCount must be 0 to {MAX_GPUS}")
    gpus = [_gpu(index, device, name) for index, device in enumerate(devices)]
    missing = range(len(gpus), count if isinstance(count, int) else 0)
    gpus += [Gpu(index, {}, NOT_READ) for index in missing]
    driver, library = system["nvmlSystemGetDriverVersion"], system["nvmlSystemGetNVMLVersion"]
    return Dump(None, driver, library, count, tuple(gpus))


def _gap(value: Any) -> Gap | None:
    if isinstance(value, dict) and "err" in value:
        code, text = value["err"], value.get("msg")
        known = isinstance(code, (int, str)) and not isinstance(code, bool)
        return Gap(code if known else None, text if isinstance(text, str) else "")
    return None


def _system(data: Mapping[str, Any], key: str, name: str) -> Any:
    if key not in data:
        return NOT_READ
    return _gap(data[key]) or _shaped(data[key], SHAPES[key], f"{name}: {key}")


def _gpu(index: int, device: Any, name: str) -> Gpu:
    where = f"{name}: devices[{index}]"
    if not isinstance(device, dict):
        raise BadInput(f"{where} must be an object")
    if "handle" in device:
        handle = _gap(device["handle"])
        if handle is None:
            raise BadInput(f"{where}.handle must be an error object")
        return Gpu(index, {}, handle)
    for key, shape in SHAPES.items():
        if key in device and _gap(device[key]) is None:
            _shaped(device[key], shape, f"{where}.{key}")
    for key in ("fields", "nvlink", *STRUCTS):
        if key in device and _gap(device[key]) is None:
            _shaped(device[key], "struct", f"{where}.{key}")
    for key in ("fields", "nvlink"):
        inner = device.get(key)
        if (
            isinstance(inner, dict)
            and _gap(inner) is None
            and not all(isinstance(v, dict) for v in inner.values())
        ):
            raise BadInput(f"{where}.{key} must hold objects")
    return Gpu(index, device)


def _shaped(value: Any, shape: str, where: str) -> Any:
    fits = {
        "int": _is_int(value),
        "str": isinstance(value, str) and len(value) < 1024,
        "ints2": _are_ints(value, 2),
        "ints4": _are_ints(value, 4),
        "struct": isinstance(value, dict),
    }[shape]
    if not fits:
        raise BadInput(f"{where} must be {_SAID[shape]} or an error object")
    return value


_SAID = {
    "int": "a whole number",
    "str": "a text",
    "ints2": "two whole numbers",
    "ints4": "four whole numbers",
    "struct": "an object",
}


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 64


def _are_ints(value: Any, length: int) -> bool:
    return isinstance(value, list) and len(value) == length and all(map(_is_int, value))
