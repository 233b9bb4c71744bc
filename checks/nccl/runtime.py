"""libcudart by ctypes: what the runtime library of the engine says of the driver and its GPUs."""

from __future__ import annotations

import ctypes
from typing import Any

SONAMES = ("libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libcudart.so")


def ask(paths: list[str]) -> dict[str, Any]:
    """What the first runtime that loads says: ``path``, ``version``, ``driver``, ``count``, ``code``, ``error``.

    ``code`` is that of cudaGetDeviceCount. Versions are numbers such as 13000 for 13.0.
    """
    said: list[str] = []
    for path in paths:
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            said.append(str(error))
            continue
        try:
            return {"path": path, **_ask(library)}
        except AttributeError as error:
            return {"path": path, "missing": str(error)}
    return {"absent": said[:4] or ["no libcudart was found"]}


def _ask(library: ctypes.CDLL) -> dict[str, Any]:
    functions = {
        "version": library.cudaRuntimeGetVersion,
        "driver": library.cudaDriverGetVersion,
        "count": library.cudaGetDeviceCount,
    }
    name, text = library.cudaGetErrorName, library.cudaGetErrorString
    name.restype = text.restype = ctypes.c_char_p
    told: dict[str, Any] = {}
    for key, function in functions.items():
        number = ctypes.c_int(-1)
        code = function(ctypes.byref(number))
        told[key] = number.value if code == 0 else None
        if code and "code" not in told:
            told |= {"code": code, "error": f"{_text(name(code))}: {_text(text(code))}", "call": key}
    return told


def _text(raw: bytes | None) -> str:
    return (raw or b"unknown error").decode(errors="replace")
