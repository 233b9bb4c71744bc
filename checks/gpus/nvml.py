"""The child that reads NVML (``_probe nvml``). It prints one JSON object per line, as soon as it has it:

    {"head": {...}}  library and system getters      {"library": "/usr/lib/.../libnvidia-ml.so.570.148.08"}
    {"device": {...}}  one GPU, in order             {"end": true}  nothing was cut off

so that a GPU that hangs the driver takes none of what was read before it. No function of NVML that changes a
setting is called.
"""

from __future__ import annotations

import ctypes
import json
import re
import sys
from pathlib import Path
from typing import Any

from checks.gpus.getters import DEVICE, FIELDS, LINKS, STRUCTS, SYSTEM, Getter


def main() -> int:
    """Prints the lines; always 0, a failing NVML is an answer too."""
    nvml = _binding()
    if isinstance(nvml, dict):
        _say({"head": {"binding": None, "nvmlInit": nvml}})
    else:
        _read(nvml)
    _say({"end": True})
    return 0


def _binding() -> Any:
    try:
        import pynvml
    except ImportError as error:
        return {"err": "ImportError", "cls": "ImportError", "msg": f"nvidia-ml-py is not importable: {error}"}
    if not hasattr(pynvml, "_nvmlGetFunctionPointer"):
        message = f"{pynvml.__file__} is another package of that name, not NVIDIA's nvidia-ml-py"
        return {"err": "ForeignBinding", "cls": "ForeignBinding", "msg": message}
    return pynvml


def _read(nvml: Any) -> None:
    started = _call(nvml, "nvmlInit")
    head = {"binding": getattr(nvml, "__version__", None), "nvmlInit": started}
    if started is not None:
        _say({"head": head})
        _say({"library": _library()})
        return
    head.update({getter.key: _call(nvml, getter.call) for getter in SYSTEM})
    _say({"head": head})
    _say({"library": _library()})
    count = head["nvmlDeviceGetCount"]
    for index in range(count if isinstance(count, int) else 0):
        _say({"device": _device(nvml, index)})


def _device(nvml: Any, index: int) -> dict[str, Any]:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
    except nvml.NVMLError as error:
        return {"handle": _error(error)}
    device: dict[str, Any] = {getter.key: _get(nvml, handle, getter) for getter in DEVICE}
    for key, (call, types) in STRUCTS.items():
        device[key] = _struct(nvml, handle, call, types)
    device["nvlink"] = {
        str(link): {
            "state": _call(nvml, "nvmlDeviceGetNvLinkState", handle, link),
            "remote_type": _call(nvml, "nvmlDeviceGetNvLinkRemoteDeviceType", handle, link),
        }
        for link in range(LINKS)
    }
    device["fields"] = _fields(nvml, handle)
    return device


def _get(nvml: Any, handle: Any, getter: Getter) -> Any:
    return _call(nvml, getter.call, handle, *getter.args)


def _struct(nvml: Any, handle: Any, call: str, types: tuple[str, ...]) -> Any:
    answer: Any = {"err": "NOFUNC"}
    for name in types:
        if (kind := getattr(nvml, name, None)) is None:
            continue
        struct = kind()
        answer = _call(nvml, call, handle, ctypes.byref(struct))
        if answer == 0:
            return _plain(struct)
        if not (isinstance(answer, dict) and answer.get("err") in (13, 25)):
            break  # 13 and 25: this driver does not know that version of the struct
    return answer


def _fields(nvml: Any, handle: Any) -> Any:
    names = [name for name in FIELDS if hasattr(nvml, name)]
    try:
        values = nvml.nvmlDeviceGetFieldValues(handle, [getattr(nvml, name) for name in names])
    except nvml.NVMLError as error:
        return _error(error)
    return {
        name: {"ret": 0, "type": v.valueType, "ull": v.value.ullVal, "ui": v.value.uiVal}
        if v.nvmlReturn == 0
        else {"ret": v.nvmlReturn}
        for name, v in zip(names, values)  # noqa: B905 - the binding returns one value per id
    }


def _call(nvml: Any, name: str, *args: Any) -> Any:
    function = getattr(nvml, name, None)
    if function is None:
        return {"err": "NOFUNC"}
    try:
        return _plain(function(*args))
    except nvml.NVMLError as error:
        return _error(error)
    except Exception as error:  # noqa: BLE001 - a binding that trips is an answer, and the other getters go on
        return {"err": type(error).__name__, "msg": str(error)[:200]}


def _error(error: Any) -> dict[str, Any]:
    return {"err": getattr(error, "value", None), "cls": type(error).__name__, "msg": str(error)}


def _plain(value: Any, depth: int = 0) -> Any:
    """A ctypes or binding value as JSON. Byte strings, which some getters still give, are marked ``b:``."""
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    if isinstance(value, bytes):
        return "b:" + value.split(b"\0")[0].decode(errors="replace")
    if depth > 4:
        return repr(value)[:200]
    if isinstance(value, (list, tuple, ctypes.Array)):
        return [_plain(item, depth + 1) for item in list(value)[:64]]
    if hasattr(value, "_fields_"):
        return {field[0]: _plain(getattr(value, field[0]), depth + 1) for field in value._fields_}
    if hasattr(value, "__dict__"):
        return {key: _plain(item, depth + 1) for key, item in vars(value).items()}
    return repr(value)[:200]


def _library() -> str | None:
    """The file loaded as libnvidia-ml.so.1: its name carries the version of the user-space driver."""
    try:
        maps = Path("/proc/self/maps").read_text(errors="replace")
    except OSError:
        return None
    found = re.search(r"(/\S*libnvidia-ml\.so\S*)", maps)
    return found[1] if found else None


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line, default=repr) + "\n")
    sys.stdout.flush()
