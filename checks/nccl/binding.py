"""libnccl by ctypes: the few functions that a check needs, as engines' own wrappers call them.

The communicator is non-blocking, so no call waits for a peer: ``settled`` is asked until it says so.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

SUCCESS, IN_PROGRESS = 0, 7
FLOAT32, SUM, MAX = 7, 0, 2
SONAME = "libnccl.so.2"
ID_BYTES = 128
OLDEST = 21400
"""The first version with non-blocking communicators, 2.14."""

_NEEDED = (
    "ncclGetVersion",
    "ncclGetErrorString",
    "ncclGetUniqueId",
    "ncclCommInitRankConfig",
    "ncclCommGetAsyncError",
    "ncclAllReduce",
    "ncclCommAbort",
)


class NcclMissing(Exception):
    """The library or one of its functions is not there; the text names it."""


class NcclError(Exception):
    """A call of NCCL failed: ``code`` is ncclResult_t, ``call`` the function."""

    def __init__(self, code: int, text: str, call: str) -> None:
        super().__init__(f"{call}: {text} ({code})")
        self.code, self.text, self.call = code, text, call


class UniqueId(ctypes.Structure):
    _fields_ = (("internal", ctypes.c_char * ID_BYTES),)


class _Config(ctypes.Structure):
    """ncclConfig_t as of 2.14; later versions fill the rest with their defaults (parseCommConfig, init.cc)."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("magic", ctypes.c_uint),
        ("version", ctypes.c_uint),
        ("blocking", ctypes.c_int),
    )


def version_text(code: int) -> str:
    """21903 -> 2.19.3, and 2804 -> 2.8.4 as versions before 2.9 count."""
    if code < 10000:
        return f"{code // 1000}.{code // 100 % 10}.{code % 100}"
    return f"{code // 10000}.{code // 100 % 100}.{code % 100}"


class Nccl:
    """One loaded libnccl. Raises NcclMissing when it, or a function of it, cannot be loaded."""

    def __init__(self, path: str) -> None:
        try:
            self._lib = ctypes.CDLL(path)
        except OSError as error:
            raise NcclMissing(str(error)) from None
        missing = [name for name in _NEEDED if not hasattr(self._lib, name)]
        version = self._version() if "ncclGetVersion" not in missing else None
        if missing:
            of = "" if version is None else f" (version {version_text(version)})"
            raise NcclMissing(f"{path}{of} lacks {', '.join(missing)}")
        assert version is not None
        self.version = version
        self._lib.ncclGetErrorString.restype = ctypes.c_char_p
        stream, comm = ctypes.c_void_p, ctypes.c_void_p
        self._lib.ncclCommGetAsyncError.argtypes = [comm, ctypes.POINTER(ctypes.c_int)]
        self._lib.ncclCommAbort.argtypes = [comm]
        self._lib.ncclAllReduce.argtypes = [
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_size_t,
            ctypes.c_int,
            ctypes.c_int,
            comm,
            stream,
        ]
        self._lib.ncclCommInitRankConfig.argtypes = [
            ctypes.POINTER(ctypes.c_void_p),
            ctypes.c_int,
            UniqueId,
            ctypes.c_int,
            ctypes.POINTER(_Config),
        ]

    def _version(self) -> int:
        number = ctypes.c_int()
        code = self._lib.ncclGetVersion(ctypes.byref(number))
        if code != SUCCESS:
            raise NcclError(code, "no version", "ncclGetVersion")
        return number.value

    def unique_id(self) -> bytes:
        """The 128 bytes by which the ranks of one communicator find each other."""
        made = UniqueId()
        self._check(self._lib.ncclGetUniqueId(ctypes.byref(made)), "ncclGetUniqueId")
        return bytes(made)

    def begin(self, identity: bytes, rank: int, nranks: int) -> Any:
        """Begins a communicator; it is ready when ``settled`` says so."""
        comm = ctypes.c_void_p()
        config = _Config(ctypes.sizeof(_Config), 0xCAFEBEEF, OLDEST, 0)
        shared = UniqueId.from_buffer_copy(identity)
        code = self._lib.ncclCommInitRankConfig(
            ctypes.byref(comm), nranks, shared, rank, ctypes.byref(config)
        )
        if code not in (SUCCESS, IN_PROGRESS):
            raise NcclError(code, self._text(code), "ncclCommInitRankConfig")
        return comm

    def settled(self, comm: Any, call: str) -> bool:
        """Whether the communicator has nothing under way. Raises NcclError for an asynchronous error."""
        state = ctypes.c_int(SUCCESS)
        self._check(self._lib.ncclCommGetAsyncError(comm, ctypes.byref(state)), "ncclCommGetAsyncError")
        if state.value not in (SUCCESS, IN_PROGRESS):
            raise NcclError(state.value, self._text(state.value), call)
        return state.value == SUCCESS

    def device(self, comm: Any) -> int | None:
        """The GPU that the communicator works on, None where this NCCL does not tell."""
        if not hasattr(self._lib, "ncclCommCuDevice"):
            return None
        number = ctypes.c_int(-1)
        self._check(self._lib.ncclCommCuDevice(comm, ctypes.byref(number)), "ncclCommCuDevice")
        return number.value if number.value >= 0 else None

    def all_reduce(self, source: int, target: int, count: int, comm: Any, stream: Any, op: int = SUM) -> None:
        """Puts an all-reduce of ``count`` float32 on the stream."""
        code = self._lib.ncclAllReduce(source, target, count, FLOAT32, op, comm, stream)
        if code not in (SUCCESS, IN_PROGRESS):
            raise NcclError(code, self._text(code), "ncclAllReduce")

    def abort(self, comm: Any) -> None:
        """Ends the communicator without waiting for its peers."""
        self._lib.ncclCommAbort(comm)

    def _check(self, code: int, call: str) -> None:
        if code != SUCCESS:
            raise NcclError(code, self._text(code), call)

    def _text(self, code: int) -> str:
        said = self._lib.ncclGetErrorString(code)
        return said.decode(errors="replace") if said else "unknown error"


def loaded_file(word: str) -> str | None:
    """The file that this process has mapped under a name such as ``libnccl.so``."""
    try:
        lines = Path("/proc/self/maps").read_text(errors="replace").splitlines()
    except OSError:
        return None
    files = (line.split(None, 5)[-1] for line in lines if word in line)
    return next((file for file in files if file.startswith("/")), None)
