"""The binding to libcuda by its real ctypes path: devices, memory, peers, kernels, errors, deadlines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from checks.cuda.driver import load
from checks.cuda.errors import CudaError, CudaMissing
from checks.data.cuda_errors import MEANINGS
from tests.doubles.build import library
from tests.unit.checks.load_rig import environment

HEADERS = ("/usr/local/cuda/include/cuda.h", "/usr/local/cuda-13.0/include/cuda.h", "/usr/include/cuda.h")

# One process per case: a double reads its faults once, as a driver keeps its state.
PROLOGUE = """
import ctypes, json
from checks.cuda.driver import load
from checks.cuda.errors import CudaError, CudaMissing, CudaTimeout
from checks.cuda.kernels import kernels
U64, U32 = ctypes.c_uint64, ctypes.c_uint32
cuda = load()
cuda.init()
"""


def ran(body: str, cuda: str = "") -> Any:
    done = subprocess.run(
        [sys.executable, "-c", PROLOGUE + body],
        env=environment(cuda),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_missing_library_and_a_missing_function_are_said() -> None:
    with pytest.raises(CudaMissing, match="cannot be loaded"):
        load("/nonexistent/libcuda.so.1")
    with pytest.raises(CudaMissing, match="cuStreamQuery"):
        load(str(library("cuda", hidden=("cuStreamQuery",)) / "libcuda.so.1"))


def test_devices_are_those_that_cuda_visible_devices_shows() -> None:
    body = """
import os
print(json.dumps([[d.ordinal, d.uuid, d.bdf, d.capability] for d in cuda.devices()]))
"""
    assert [row[2] for row in ran(body, "gpus=3")] == ["0000:10:00.0", "0000:11:00.0", "0000:12:00.0"]


@pytest.mark.parametrize(("fault", "arrives"), [("", [0, 2**64 - 1]), ("corrupt-peer:0-1", [1, 2049])])
def test_a_peer_copy_is_verified_on_the_destination(fault: str, arrives: list[int]) -> None:
    body = """
a, b, n = cuda.context(0), cuda.context(1), 4096
src, dst, out = a.alloc(4 * n), b.alloc(4 * n), b.alloc(16)
a.launch(a.module(kernels("kernels.ptx"))("kpro_fill_u32"), 4, 64, [U64(src), U64(n), U32(9)])
a.synchronize(2)
a.enable_peer(b); a.enable_peer(b)
a.peer_copy(dst, b, src, a, 4 * n)
a.synchronize(2)
b.memset32(out, 0, 2); b.memset32(out + 8, 0xFFFFFFFF, 2)
b.launch(b.module(kernels("kernels.ptx"))("kpro_check_u32"), 4, 64, [U64(dst), U64(n), U32(9), U64(out)])
said = b.read(out, 16, 2)
print(json.dumps([int.from_bytes(said[:8], "little"), int.from_bytes(said[8:], "little")]))
"""
    assert ran(body, fault) == arrives


@pytest.mark.parametrize(("wrong", "bad"), [(0.0, 0), (1.0, 1)])
def test_sums_over_ranks_are_checked_word_by_word(wrong: float, bad: int) -> None:
    body = f"""
gpu, n, ranks = cuda.context(0), 1000, 3
module = gpu.module(kernels("kernels.ptx"))
parts = [gpu.alloc(4 * n) for _ in range(ranks)]
for rank, part in enumerate(parts):
    gpu.launch(module("kpro_fill_f32"), 4, 64, [U64(part), U64(n), U32(5), U32(rank)])
host = gpu.pinned(4 * n)
total = [0.0] * n
for part in parts:
    gpu.d2h(host, part); gpu.synchronize(2)
    floats = host.view.cast("f")
    total = [t + f for t, f in zip(total, floats)]
    floats.release()
total[77] += {wrong}
data = b"".join(bytes(ctypes.c_float(t)) for t in total)
out = gpu.alloc(16)
gpu.h2d(parts[0], data); gpu.memset32(out, 0, 2); gpu.memset32(out + 8, 0xFFFFFFFF, 2)
args = [U64(parts[0]), U64(n), U32(5), U32(ranks), U64(out)]
gpu.launch(module("kpro_check_sum_f32"), 4, 64, args)
said = gpu.read(out, 16, 2)
print(json.dumps([int.from_bytes(said[:8], "little"), int.from_bytes(said[8:], "little")]))
"""
    assert ran(body) == [bad, 77 if bad else 2**64 - 1]


def test_a_kernel_that_touches_a_peer_without_access_kills_its_context() -> None:
    body = """
a, b = cuda.context(0), cuda.context(1)
far = b.alloc(4096)
fill = a.module(kernels("kernels.ptx"))("kpro_fill_u32")
codes = []
for _ in range(2):
    try:
        a.launch(fill, 1, 64, [U64(far), U64(64), U32(1)])
    except CudaError as error:
        codes.append(error.code)
print(json.dumps(codes))
"""
    assert ran(body) == [700, 700]


def test_waiting_ends_at_its_deadline() -> None:
    body = """
import time
gpu = cuda.context(0)
at = gpu.alloc(4096)
gpu.memset32(at, 1, 1024)
start = time.monotonic()
try:
    gpu.synchronize(0.2, what="a fill")
except CudaTimeout as error:
    print(json.dumps([str(error), time.monotonic() - start]))
"""
    text, took = ran(body, "never")
    assert text == "a fill is not done after 0.2 s"
    assert took < 1


def test_memory_is_counted_and_given_back() -> None:
    body = """
gpu = cuda.context(0)
before = gpu.mem_info()[0]
at = gpu.alloc(1 << 20)
during = gpu.mem_info()[0]
gpu.free(at)
print(json.dumps([before - during, gpu.mem_info()[0] - before]))
"""
    assert ran(body) == [1 << 20, 0]


def test_an_error_has_code_name_text_cause_and_fix() -> None:
    error = CudaError(802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized", "cuInit")
    assert str(error) == "cuInit gave 802 CUDA_ERROR_SYSTEM_NOT_READY: system not yet initialized"
    assert "fabricmanager" in str(error.cause)
    assert error.fix
    assert CudaError(12345, "?", "?", "cuInit").cause is None


@pytest.mark.parametrize("code", sorted(MEANINGS))
def test_names_of_codes_are_those_of_cuda_h(code: int) -> None:
    header = next((Path(p) for p in HEADERS if Path(p).is_file()), None)
    if header is None:
        pytest.skip("no cuda.h on this machine")
    assert f"{MEANINGS[code].name} " in header.read_text()
    assert any(
        line.split("=")[-1].strip(" ,") == str(code)
        for line in header.read_text().splitlines()
        if line.strip().startswith(f"{MEANINGS[code].name} ")
    )
