"""Reads one section of one GPU through the binding. Every answer is a value or ``{err, cls, msg}``.

No function of NVML that changes a setting is called.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from checks.gpus import getters
from checks.gpus.getters import FIELDS, FILLED, LINK_MORE, LINK_SPEED, LINK_STATE, LINKS, PAIR, PLAIN, Getter

INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of the kernel (include/linux/proc_ns.h). NVML gives PIDs of that namespace only."""

_NOT_FOUND, _VERSION_UNKNOWN = 6, (13, 25)
_MIG_LIMIT = 64


def section(nvml: Any, handle: Any, name: str, states: dict[str, Any]) -> dict[str, Any]:
    """The keys of a section. ``states`` carries the links' states from ``nvlink`` to ``nvlink_more``."""
    if name == getters.FIELD_SECTION:
        return {name: _fields(nvml, handle)}
    if name == getters.NVLINK:
        states.update({str(link): _link(nvml, handle, link) for link in range(LINKS)})
        return {name: dict(states)}
    if name == getters.NVLINK_MORE:
        return {getters.NVLINK: _links_more(nvml, handle, states)}
    if name == getters.MIG:
        return {name: _mig(nvml, handle)}
    found = {getter.key: call(nvml, getter.call, handle, *getter.args) for getter in PLAIN.get(name, ())}
    for struct in FILLED.get(name, ()):
        found[struct.key] = _filled(nvml, handle, struct.call, struct.types)
    if name == "processes":
        _name_processes(found)
    return found


def pairs(nvml: Any, index: int, handles: dict[int, Any]) -> list[dict[str, Any]]:
    """The rows of GPU ``index`` against all others; ``handles`` has an error object where there is none."""
    rows = []
    for other, handle in sorted(handles.items()):
        if other == index:
            continue
        row: dict[str, Any] = {"a": index, "b": other}
        for getter in PAIR:
            lacking = next((h for h in (handles[index], handle) if isinstance(h, dict)), None)
            row[getter.key] = lacking or call(nvml, getter.call, handles[index], handle, *getter.args)
        rows.append(row)
    return rows


def handle_of(nvml: Any, index: int) -> Any:
    """NVML's handle, or an error object."""
    try:
        return nvml.nvmlDeviceGetHandleByIndex(index)
    except nvml.NVMLError as error:
        return _error(error)


def call(nvml: Any, name: str, *args: Any) -> Any:
    """A call as JSON: its value, or the error that it raised."""
    function = getattr(nvml, name, None)
    if function is None:
        return {"err": "NOFUNC"}
    try:
        return plain(function(*args))
    except nvml.NVMLError as error:
        return _error(error)
    except Exception as error:  # noqa: BLE001 - a binding that trips is an answer, and the other getters go on
        return {"err": type(error).__name__, "msg": str(error)[:200]}


def plain(value: Any, depth: int = 0) -> Any:
    """A ctypes or binding value as JSON. Byte strings, which some getters still give, are marked ``b:``."""
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    if isinstance(value, bytes):
        return "b:" + value.split(b"\0")[0].decode(errors="replace")
    if depth > 4:
        return repr(value)[:200]
    if isinstance(value, (list, tuple, ctypes.Array)):
        return [plain(item, depth + 1) for item in list(value)[: _limit(depth)]]
    if hasattr(value, "_fields_"):
        return {field[0]: plain(getattr(value, field[0]), depth + 1) for field in value._fields_}
    if hasattr(value, "__dict__"):
        return {key: plain(item, depth + 1) for key, item in vars(value).items()}
    return repr(value)[:200]


def _limit(depth: int) -> int:
    return 1024 if depth == 0 else 64


def _link(nvml: Any, handle: Any, link: int) -> dict[str, Any]:
    state, remote = LINK_STATE
    found = {state.key: call(nvml, state.call, handle, link)}
    if isinstance(found[state.key], int):
        found[remote.key] = call(nvml, remote.call, handle, link)
    return found


def _links_more(nvml: Any, handle: Any, states: dict[str, Any]) -> dict[str, Any]:
    """Counters, version, other end and speed of the links that have a state (all, when no state is known)."""
    asked = [n for n in range(LINKS) if isinstance(states.get(str(n), {}).get("state", 0), int)]
    found = {str(n): {g.key: _link_call(nvml, handle, n, g) for g in LINK_MORE} for n in asked}
    field = getattr(nvml, getters.LINK_SPEED_FIELD, None)
    if field is None or not asked:
        return found
    try:
        values = nvml.nvmlDeviceGetFieldValues(handle, [(field, n) for n in asked])
    except nvml.NVMLError as error:
        values = [_error(error)] * len(asked)
    for n, value in zip(asked, values):  # noqa: B905 - the binding returns one value per id
        speed = value if isinstance(value, dict) else {"err": value.nvmlReturn}
        if not isinstance(value, dict) and value.nvmlReturn == 0:
            speed = value.value.uiVal
        found[str(n)][LINK_SPEED] = speed
    return found


def _link_call(nvml: Any, handle: Any, link: int, getter: Getter) -> Any:
    return call(nvml, getter.call, handle, link, *getter.args)


def _filled(nvml: Any, handle: Any, name: str, types: tuple[str, ...]) -> Any:
    answer: Any = {"err": "NOFUNC"}
    for kind in (getattr(nvml, one, None) for one in types):
        if kind is None:
            continue
        struct = kind()
        answer = call(nvml, name, handle, ctypes.byref(struct))
        if answer == 0:
            return plain(struct)
        if not (isinstance(answer, dict) and answer.get("err") in _VERSION_UNKNOWN):
            break  # only an unknown version of the struct is worth another try
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


def _mig(nvml: Any, handle: Any) -> Any:
    """The MIG devices of a GPU that has MIG on; empty when it is off; the error when it is not known."""
    mode = call(nvml, "nvmlDeviceGetMigMode", handle)
    if not (isinstance(mode, list) and mode):
        return mode
    if mode[0] != 1:
        return []
    count = call(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle)
    if not isinstance(count, int):
        return count
    found = []
    for number in range(min(count, _MIG_LIMIT)):
        try:
            part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
        except nvml.NVMLError as error:
            if getattr(error, "value", None) != _NOT_FOUND:
                found.append({"number": number, "handle": _error(error)})
            continue
        found.append(
            {
                "number": number,
                "uuid": call(nvml, "nvmlDeviceGetUUID", part),
                "name": call(nvml, "nvmlDeviceGetName", part),
                "memory": call(nvml, "nvmlDeviceGetMemoryInfo", part),
                "gi": call(nvml, "nvmlDeviceGetGpuInstanceId", part),
                "ci": call(nvml, "nvmlDeviceGetComputeInstanceId", part),
            }
        )
    return found


def _name_processes(found: dict[str, Any]) -> None:
    """Adds ``name`` to each process. In another PID namespace a number that exists here is somebody else's."""
    here = _at_home()
    for rows in found.values():
        for row in rows if isinstance(rows, list) else ():
            row["name"] = _comm(row.get("pid")) if here else None
            if not here:
                row["namespace"] = "other"


def _at_home() -> bool:
    try:
        return str(Path("/proc/self/ns/pid").readlink()) == INITIAL_PID_NAMESPACE
    except OSError:
        return False


def _comm(pid: Any) -> str | None:
    try:
        return Path(f"/proc/{int(pid)}/comm").read_text(errors="replace").strip()[:64]
    except (OSError, TypeError, ValueError):
        return None


def _error(error: Any) -> dict[str, Any]:
    return {"err": getattr(error, "value", None), "cls": type(error).__name__, "msg": str(error)}
