"""Computing on all multiprocessors at once, every result held against what the host computed.

Two kinds: chains of integer and fp32 steps, and products of matrices on tensor cores where there are any.
"""

from __future__ import annotations

import ctypes
import struct
import time
from typing import TYPE_CHECKING, Any

from checks.cuda.context import Module
from checks.cuda.kernels import kernels
from checks.cuda.reference import chain, product

if TYPE_CHECKING:
    from checks.load.work import Work

U64, U32 = ctypes.c_uint64, ctypes.c_uint32
BLOCK, BLOCKS_PER_SM = 256, 8
CHAIN_STEPS, CHAIN_LANES = 256, 64
PRODUCT_STEPS, PRODUCT_LANES = 64, 32
TENSOR_CAPABILITY = (8, 0)
LAUNCH_S = 0.1
"""What one launch takes: long enough to heat, short enough for a display's watchdog."""
SHOWN = 16
"""Wrong threads that are told; the computing stops then."""


def heat(work: Work) -> dict[str, Any]:
    """Half of the time for each kind, all of it for the first where there are no tensor cores."""
    tensor = work.device.capability >= TENSOR_CAPABILITY
    seconds = work.options.seconds / (2 if tensor else 1)
    seed = work.random.getrandbits(32)
    words = [chain(lane, seed, CHAIN_STEPS) for lane in range(CHAIN_LANES)]
    table = struct.pack(f"<{CHAIN_LANES}I", *words)
    found = {"chains": _run(work, work.module, "kpro_compute", seed, CHAIN_STEPS, table, table, seconds)}
    if tensor:
        module = work.context.module(kernels("kernels_sm80.ptx"))
        numbers = product(seed, PRODUCT_STEPS)
        table = struct.pack(f"<{4 * PRODUCT_LANES}f", *numbers)
        first = struct.pack(f"<{PRODUCT_LANES}f", *numbers[::4])
        found["tensor"] = _run(work, module, "kpro_tensor", seed, PRODUCT_STEPS, table, first, seconds)
        module.unload()
    return found


def _run(
    work: Work, module: Module, name: str, seed: int, steps: int, table: bytes, last: bytes, seconds: float
) -> dict[str, Any]:
    """One kernel again and again for ``seconds``. ``last`` is what the threads of a period must end with."""
    gpu = work.context
    work.doing(f"computing ({name})")
    grid = work.device.multiprocessors * BLOCKS_PER_SM
    count = grid * BLOCK
    given, results, sms = gpu.alloc(len(table)), gpu.alloc(8 * count), gpu.alloc(4 * grid)
    host, sm_of = gpu.pinned(8 * count), gpu.pinned(4 * grid)
    gpu.h2d(given, table, None, work.stream)
    kernel = module.function(name)
    wanted = last * (count // (len(last) // 4)) + bytes(4 * count)
    found: dict[str, Any] = {"threads": count, "steps": steps, "launches": 0, "rounds": 0, "bad": []}
    rounds, spent, began = 1, 0.0, time.monotonic()
    while time.monotonic() - began < seconds and len(found["bad"]) < SHOWN:
        gpu.memset32(results, 0xFFFFFFFF, 2 * count, work.stream)
        gpu.record(work.before, work.stream)
        pointers = (U64(results), U64(results + 4 * count), U64(sms), U64(given))
        gpu.launch(kernel, grid, BLOCK, (*pointers, U32(seed), U32(steps), U32(rounds)), work.stream)
        gpu.record(work.after, work.stream)
        gpu.d2h(host, results, None, work.stream)
        gpu.d2h(sm_of, sms, None, work.stream)
        work.wait("computing")
        took = gpu.elapsed(work.before, work.after)
        spent += took
        found["launches"] += 1
        found["rounds"] += rounds
        if bytes(host.view) != wanted:
            found["bad"] += _wrong(host.view, wanted, sm_of.view, count)
        rounds = max(1, min(1 << 20, int(rounds * LAUNCH_S / max(took, 1e-6))))
    found["spent_s"] = spent
    found["steps_per_s"] = found["rounds"] * steps * count / max(spent, 1e-9)
    gpu.free_pinned(host)
    gpu.free_pinned(sm_of)
    for pointer in (given, results, sms):
        gpu.free(pointer)
    return found


def _wrong(got: memoryview, wanted: bytes, sm_of: memoryview, count: int) -> list[dict[str, Any]]:
    """The first threads whose last word or count of bad rounds is not what it must be, and their SM."""
    words, must, sms = got.cast("I"), memoryview(wanted).cast("I"), sm_of.cast("I")
    found: list[dict[str, Any]] = []
    for thread in range(count):
        if words[thread] != must[thread] or words[count + thread] != must[count + thread]:
            block = thread // BLOCK
            said = {"got": words[thread], "expected": must[thread], "bad_rounds": words[count + thread]}
            found.append({"block": block, "thread": thread % BLOCK, "sm": sms[block], **said})
            if len(found) == SHOWN:
                break
    for view in (words, must, sms):
        view.release()
    return found
