"""Refuses what has not the shape of an NVML dump: records come from anywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from checks.errors import BadInput
from checks.gpus.getters import FIELD_SECTION, LINK_SHAPES, NVLINK, PAIR, SHAPES

LIST_LIMIT = 4096


def is_error(value: Any) -> bool:
    return isinstance(value, dict) and "err" in value


def check(value: Any, shape: str, where: str) -> Any:
    """The value, when it has the shape. Raises BadInput that says what it must be."""
    fits, said = SAID[shape]
    if not fits(value):
        raise BadInput(f"{where} must be {said} or an error object")
    return value


def check_device(device: Mapping[str, Any], where: str) -> None:
    """Every known key of a device has its shape. Keys that nobody knows are left alone."""
    for key, shape in SHAPES.items():
        if key in device and not is_error(device[key]):
            check(device[key], shape, f"{where}.{key}")
    for key in (FIELD_SECTION, NVLINK):
        inner = device.get(key)
        if inner is None or is_error(inner):
            continue
        if not all(isinstance(value, dict) for value in inner.values()):
            raise BadInput(f"{where}.{key} must hold objects")
    links = device.get(NVLINK)
    for number, link in links.items() if links is not None and not is_error(links) else ():
        for key, shape in LINK_SHAPES.items():
            if link.get(key) is not None and not is_error(link[key]):
                check(link[key], shape, f"{where}.{NVLINK}.{number}.{key}")


def check_pairs(pairs: Any, where: str) -> None:
    """The list of ordered pairs ``{a, b, topo, read, write, nvlink, atomics, pci}``."""
    check(pairs, "structs", where)
    for number, pair in enumerate(pairs):
        for key in ("a", "b"):
            check(pair.get(key), "int", f"{where}[{number}].{key}")
        for getter in PAIR:
            if getter.key in pair and not is_error(pair[getter.key]):
                check(pair[getter.key], getter.shape, f"{where}[{number}].{getter.key}")


def is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 64


def _is_str(value: Any) -> bool:
    return isinstance(value, str) and len(value) < 1024


def _ints(length: int | None) -> Callable[[Any], bool]:
    def fits(value: Any) -> bool:
        right = isinstance(value, list) and (
            len(value) <= LIST_LIMIT if length is None else len(value) == length
        )
        return right and all(map(is_int, value))

    return fits


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict)


def _are_dicts(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= LIST_LIMIT and all(map(_is_dict, value))


def _are_processes(value: Any) -> bool:
    return _are_dicts(value) and all(
        is_int(one.get("pid"))
        and (one.get("usedGpuMemory") is None or is_int(one["usedGpuMemory"]))
        and (one.get("name") is None or _is_str(one["name"]))
        for one in value
    )


SAID: dict[str, tuple[Callable[[Any], bool], str]] = {
    "int": (is_int, "a whole number"),
    "str": (_is_str, "a text"),
    "none": (lambda value: value is None, "null"),
    "ints": (_ints(None), f"a list of at most {LIST_LIMIT} whole numbers"),
    "ints2": (_ints(2), "two whole numbers"),
    "ints4": (_ints(4), "four whole numbers"),
    "struct": (_is_dict, "an object"),
    "structs": (_are_dicts, f"a list of at most {LIST_LIMIT} objects"),
    "processes": (_are_processes, "a list of processes with pid, usedGpuMemory and perhaps name"),
}
