"""libcuda.so.1 by ctypes: the library, its devices, their contexts.

    cuda = load()                        raises CudaMissing
    cuda.init()                          raises CudaError, as every call below
    for device in cuda.devices(): ...
    with cuda.context(0) as gpu: ...     checks.cuda.context

A call into the driver can hang for ever (a dead GSP, a lost GPU): whoever uses this runs in a child process
with a deadline. Waiting for the GPU polls and has a deadline of its own.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from checks.cuda import abi
from checks.cuda.errors import CudaError, CudaMissing
from checks.data.cuda_errors import MEANINGS

if TYPE_CHECKING:
    from checks.cuda.context import Context

SONAME = "libcuda.so.1"


@dataclass(frozen=True)
class Device:
    """One GPU as CUDA numbers it. ``memory`` in bytes; ``attributes`` by the names of abi.ATTRIBUTES."""

    ordinal: int
    name: str
    uuid: str
    bdf: str
    memory: int
    capability: tuple[int, int]
    attributes: dict[str, int] = field(repr=False)

    @property
    def multiprocessors(self) -> int:
        return self.attributes["multiprocessors"]


def load(path: str | None = None) -> Cuda:
    """The driver's library, ``path`` or the one the loader finds. Raises CudaMissing."""
    name = path or SONAME
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise CudaMissing(f"{name} cannot be loaded: {error}") from None
    functions = {}
    for symbol, types in abi.FUNCTIONS.items():
        try:
            function = getattr(library, symbol)
        except AttributeError:
            if symbol in abi.OPTIONAL:
                continue
            raise CudaMissing(
                f"{name} has no function {symbol}: it is no driver that is still used"
            ) from None
        function.argtypes, function.restype = types, ctypes.c_int
        functions[symbol] = function
    return Cuda(functions)


class Cuda:
    """The loaded library. ``call`` is the one way into it."""

    def __init__(self, functions: dict[str, Any]) -> None:
        self._functions = functions

    def call(self, symbol: str, *args: Any, allow: tuple[int, ...] = ()) -> int:
        """Calls ``symbol``; gives 0 or one of ``allow``. Raises CudaError for any other code."""
        code = int(self._functions[symbol](*args))
        if code != 0 and code not in allow:
            raise CudaError(
                code, self._said("cuGetErrorName", code), self._said("cuGetErrorString", code), symbol
            )
        return code

    def _said(self, symbol: str, code: int) -> str:
        answer = ctypes.c_char_p()
        if self._functions[symbol](code, ctypes.byref(answer)) == 0 and answer.value is not None:
            return answer.value.decode(errors="replace")
        meaning = MEANINGS.get(code)
        return meaning.name if meaning else "a code that this driver does not name"

    def init(self) -> None:
        """Starts the driver in this process."""
        self.call("cuInit", 0)

    @property
    def version(self) -> int:
        """The newest CUDA that the driver speaks, as 1000 x major + 10 x minor. Works before ``init``."""
        return self._int("cuDriverGetVersion")

    def count(self) -> int:
        """How many GPUs this process may see: CUDA_VISIBLE_DEVICES holds."""
        return self._int("cuDeviceGetCount")

    def devices(self) -> list[Device]:
        return [self.device(ordinal) for ordinal in range(self.count())]

    def device(self, ordinal: int) -> Device:
        """Name, UUID, PCI address and limits of one GPU."""
        handle = self.handle(ordinal)
        name = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, len(name), handle)
        bdf = ctypes.create_string_buffer(32)
        self.call("cuDeviceGetPCIBusId", bdf, len(bdf), handle)
        memory = ctypes.c_size_t()
        self.call("cuDeviceTotalMem_v2", ctypes.byref(memory), handle)
        attributes = {
            key: self._int("cuDeviceGetAttribute", number, handle) for key, number in abi.ATTRIBUTES.items()
        }
        return Device(
            ordinal,
            name.value.decode(errors="replace"),
            self._uuid(handle),
            bdf.value.decode(errors="replace").lower(),
            memory.value,
            (attributes["major"], attributes["minor"]),
            attributes,
        )

    def handle(self, ordinal: int) -> int:
        """The CUdevice of an ordinal."""
        return self._int("cuDeviceGet", ordinal)

    def can_access(self, device: int, peer: int) -> bool:
        """Whether the driver lets one GPU address the other's memory."""
        return bool(self._int("cuDeviceCanAccessPeer", self.handle(device), self.handle(peer)))

    def context(self, ordinal: int) -> Context:
        """The primary context of a GPU, the one that CUDA's runtime and NCCL use too."""
        from checks.cuda.context import Context

        return Context(self, ordinal)

    def _uuid(self, handle: int) -> str:
        symbol = "cuDeviceGetUuid_v2" if "cuDeviceGetUuid_v2" in self._functions else "cuDeviceGetUuid"
        raw = ctypes.create_string_buffer(16)
        self.call(symbol, raw, handle)
        text = raw.raw.hex()
        # NVML and CUDA_VISIBLE_DEVICES write it like this; a MIG slice has MIG- in front.
        return f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def _int(self, symbol: str, *args: Any) -> int:
        value = ctypes.c_int()
        self.call(symbol, ctypes.byref(value), *args)
        return value.value
