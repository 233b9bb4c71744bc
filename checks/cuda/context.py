"""One GPU at work: memory, copies, kernels, and waiting with a deadline.

Every method makes its own context current, so that several GPUs can be driven from one thread. A stream of
None is the default one. Sizes are bytes, device pointers plain numbers.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from typing import Any

from checks.cuda import abi
from checks.cuda.driver import Cuda
from checks.cuda.errors import CudaError, CudaTimeout

Handle = ctypes.c_void_p
_POLL = 0.0005


class Pinned:
    """Host memory that the GPU copies from and to by itself; ``view`` is the same memory for Python."""

    def __init__(self, address: int, size: int) -> None:
        self.address, self.size = address, size
        self.view = memoryview((ctypes.c_ubyte * size).from_address(address)).cast("B")


class Function:
    """A kernel of a loaded module."""

    def __init__(self, handle: Handle, name: str) -> None:
        self.handle, self.name = handle, name


class Module:
    """Kernels made by the driver from PTX text."""

    def __init__(self, context: Context, handle: Handle) -> None:
        self._context, self._handle = context, handle

    def function(self, name: str) -> Function:
        """Raises CudaError (500, not found) when the PTX has no kernel of that name."""
        handle = Handle()
        self._context.call("cuModuleGetFunction", ctypes.byref(handle), self._handle, name.encode())
        return Function(handle, name)

    __call__ = function

    def unload(self) -> None:
        self._context.call("cuModuleUnload", self._handle)


class Context:
    """The primary context of GPU ``ordinal``; ``close`` gives it back, and with the last one its memory."""

    def __init__(self, cuda: Cuda, ordinal: int) -> None:
        self.cuda, self.ordinal = cuda, ordinal
        self._device = cuda.handle(ordinal)
        self.handle = Handle()
        cuda.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.handle), self._device)

    def __enter__(self) -> Context:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # After an error the context may be dead, and giving it back may hang; the process ends anyway.
        if kind is None:
            self.close()

    def close(self) -> None:
        self.cuda.call("cuDevicePrimaryCtxRelease_v2", self._device)

    def call(self, symbol: str, *args: Any, allow: tuple[int, ...] = ()) -> int:
        """A call that works on the current context. Raises CudaError."""
        self.cuda.call("cuCtxSetCurrent", self.handle)
        return self.cuda.call(symbol, *args, allow=allow)

    # Memory

    def mem_info(self) -> tuple[int, int]:
        """Free and total bytes."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def alloc(self, size: int) -> int:
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), size)
        return pointer.value

    def free(self, pointer: int) -> None:
        """Waits for work on that memory: use it only when the work is known to be done."""
        self.call("cuMemFree_v2", pointer)

    def pinned(self, size: int) -> Pinned:
        """Page-locked host memory that every context may use."""
        pointer = Handle()
        self.call("cuMemHostAlloc", ctypes.byref(pointer), size, abi.PORTABLE)
        assert pointer.value is not None
        return Pinned(pointer.value, size)

    def free_pinned(self, memory: Pinned) -> None:
        memory.view.release()
        self.call("cuMemFreeHost", Handle(memory.address))

    # Copies; all asynchronous, so wait before the host's side is read or reused

    def h2d(
        self, dst: int, src: Pinned | bytes, size: int | None = None, stream: Handle | None = None
    ) -> None:
        """Host to GPU. ``bytes`` must live until the copy is done."""
        address = (
            Handle(src.address) if isinstance(src, Pinned) else ctypes.cast(ctypes.c_char_p(src), Handle)
        )
        length = size if size is not None else src.size if isinstance(src, Pinned) else len(src)
        self.call("cuMemcpyHtoDAsync_v2", dst, address, length, stream)

    def d2h(self, dst: Pinned, src: int, size: int | None = None, stream: Handle | None = None) -> None:
        """GPU to pinned host memory."""
        length = dst.size if size is None else size
        self.call("cuMemcpyDtoHAsync_v2", Handle(dst.address), src, length, stream)

    def read(self, src: int, size: int, deadline_s: float) -> bytes:
        """A small piece of GPU memory, after all work on the default stream. Raises CudaTimeout."""
        into = self.pinned(max(size, 1))
        self.d2h(into, src, size)
        self.synchronize(deadline_s, what="reading a result")
        data = bytes(into.view[:size])
        self.free_pinned(into)
        return data

    def d2d(self, dst: int, src: int, size: int, stream: Handle | None = None) -> None:
        self.call("cuMemcpyDtoDAsync_v2", dst, src, size, stream)

    def memset32(self, dst: int, value: int, count: int, stream: Handle | None = None) -> None:
        """``count`` 32-bit words."""
        self.call("cuMemsetD32Async", dst, value & 0xFFFFFFFF, count, stream)

    # Peers

    def can_access(self, other: Context) -> bool:
        return self.cuda.can_access(self.ordinal, other.ordinal)

    def enable_peer(self, other: Context) -> None:
        """Lets kernels and copies of this GPU address the other's memory; done already is fine."""
        self.call("cuCtxEnablePeerAccess", other.handle, 0, allow=(abi.PEER_ALREADY_ENABLED,))

    def peer_copy(
        self,
        dst: int,
        dst_ctx: Context,
        src: int,
        src_ctx: Context,
        size: int,
        stream: Handle | None = None,
    ) -> None:
        """From one GPU's memory to another's, on a stream of this context."""
        self.call("cuMemcpyPeerAsync", dst, dst_ctx.handle, src, src_ctx.handle, size, stream)

    # Streams, events, kernels

    def stream(self) -> Handle:
        """A stream that does not wait for the default one."""
        handle = Handle()
        self.call("cuStreamCreate", ctypes.byref(handle), abi.NON_BLOCKING)
        return handle

    def event(self) -> Handle:
        handle = Handle()
        self.call("cuEventCreate", ctypes.byref(handle), 0)
        return handle

    def record(self, event: Handle, stream: Handle | None = None) -> None:
        self.call("cuEventRecord", event, stream)

    def elapsed(self, start: Handle, end: Handle) -> float:
        """Seconds between two events that have both happened."""
        milliseconds = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(milliseconds), start, end)
        return milliseconds.value / 1000

    def module(self, ptx: str) -> Module:
        """Compiles PTX in the driver. Raises CudaError, with the compiler's words where it gave any."""
        handle, log = Handle(), ctypes.create_string_buffer(4096)
        options = (ctypes.c_int * 2)(abi.JIT_ERROR_LOG, abi.JIT_ERROR_LOG_SIZE)
        values = (Handle * 2)(ctypes.addressof(log), len(log))
        try:
            self.call("cuModuleLoadDataEx", ctypes.byref(handle), ptx.encode(), 2, options, values)
        except CudaError as error:
            words = log.value.decode(errors="replace").strip()
            text = f"{error.text} ({words[:300]})" if words else error.text
            raise CudaError(error.code, error.name, text, error.call) from None
        return Module(self, handle)

    def launch(
        self, function: Function, grid: int, block: int, args: Sequence[Any], stream: Handle | None = None
    ) -> None:
        """``args`` are ctypes values of the kernel's own types; c_uint64 for a pointer."""
        pointers = (Handle * max(len(args), 1))(*(ctypes.addressof(arg) for arg in args))
        self.call("cuLaunchKernel", function.handle, grid, 1, 1, block, 1, 1, 0, stream, pointers, None)

    # Waiting

    def synchronize(
        self,
        deadline_s: float,
        stream: Handle | None = None,
        *,
        what: str = "the work",
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        """Waits until the stream is empty; ``meanwhile`` runs between two looks. Raises CudaTimeout."""
        self._wait("cuStreamQuery", stream, deadline_s, what, meanwhile)

    def wait_event(
        self,
        event: Handle,
        deadline_s: float,
        *,
        what: str = "the work",
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        """The same until ``event`` has happened."""
        self._wait("cuEventQuery", event, deadline_s, what, meanwhile)

    def _wait(
        self,
        query: str,
        handle: Handle | None,
        deadline_s: float,
        what: str,
        meanwhile: Callable[[], None] | None,
    ) -> None:
        end = time.monotonic() + deadline_s
        while self.call(query, handle, allow=(abi.NOT_READY,)) == abi.NOT_READY:
            if time.monotonic() > end:
                raise CudaTimeout(what, deadline_s)
            if meanwhile is not None:
                meanwhile()
            time.sleep(_POLL)
