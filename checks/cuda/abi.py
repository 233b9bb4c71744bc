"""The functions of libcuda.so.1 that are called, with the C types of their arguments. All return a CUresult.

All are in the driver since CUDA 11.0 (450), but those in OPTIONAL.
"""

from __future__ import annotations

from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

_INT, _OUT_INT, _PTR, _OUT_PTR = c_int, POINTER(c_int), c_uint64, POINTER(c_uint64)
_HANDLE, _OUT_HANDLE, _SIZE, _OUT_SIZE = c_void_p, POINTER(c_void_p), c_size_t, POINTER(c_size_t)

FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (_OUT_INT,),
    "cuGetErrorName": (_INT, POINTER(c_char_p)),
    "cuGetErrorString": (_INT, POINTER(c_char_p)),
    "cuDeviceGetCount": (_OUT_INT,),
    "cuDeviceGet": (_OUT_INT, _INT),
    "cuDeviceGetName": (c_char_p, _INT, _INT),
    "cuDeviceGetUuid": (c_char_p, _INT),
    "cuDeviceGetUuid_v2": (c_char_p, _INT),
    "cuDeviceGetPCIBusId": (c_char_p, _INT, _INT),
    "cuDeviceTotalMem_v2": (_OUT_SIZE, _INT),
    "cuDeviceGetAttribute": (_OUT_INT, _INT, _INT),
    "cuDeviceCanAccessPeer": (_OUT_INT, _INT, _INT),
    "cuDevicePrimaryCtxRetain": (_OUT_HANDLE, _INT),
    "cuDevicePrimaryCtxRelease_v2": (_INT,),
    "cuCtxSetCurrent": (_HANDLE,),
    "cuCtxEnablePeerAccess": (_HANDLE, c_uint),
    "cuMemGetInfo_v2": (_OUT_SIZE, _OUT_SIZE),
    "cuMemAlloc_v2": (_OUT_PTR, _SIZE),
    "cuMemFree_v2": (_PTR,),
    "cuMemHostAlloc": (_OUT_HANDLE, _SIZE, c_uint),
    "cuMemFreeHost": (_HANDLE,),
    "cuMemcpyHtoDAsync_v2": (_PTR, _HANDLE, _SIZE, _HANDLE),
    "cuMemcpyDtoHAsync_v2": (_HANDLE, _PTR, _SIZE, _HANDLE),
    "cuMemcpyDtoDAsync_v2": (_PTR, _PTR, _SIZE, _HANDLE),
    "cuMemcpyPeerAsync": (_PTR, _HANDLE, _PTR, _HANDLE, _SIZE, _HANDLE),
    "cuMemsetD32Async": (_PTR, c_uint, _SIZE, _HANDLE),
    "cuStreamCreate": (_OUT_HANDLE, c_uint),
    "cuStreamQuery": (_HANDLE,),
    "cuStreamDestroy_v2": (_HANDLE,),
    "cuEventCreate": (_OUT_HANDLE, c_uint),
    "cuEventRecord": (_HANDLE, _HANDLE),
    "cuEventQuery": (_HANDLE,),
    "cuEventElapsedTime": (POINTER(c_float), _HANDLE, _HANDLE),
    "cuEventDestroy_v2": (_HANDLE,),
    "cuModuleLoadDataEx": (_OUT_HANDLE, c_char_p, c_uint, POINTER(_INT), POINTER(c_void_p)),
    "cuModuleGetFunction": (_OUT_HANDLE, _HANDLE, c_char_p),
    "cuModuleUnload": (_HANDLE,),
    "cuLaunchKernel": (_HANDLE, *(c_uint,) * 7, _HANDLE, POINTER(c_void_p), POINTER(c_void_p)),
}

OPTIONAL = frozenset({"cuDeviceGetUuid_v2"})
"""Not in every driver (11.4 and later): without it the older one of the same name is called."""

ATTRIBUTES = {
    "clock_khz": 13,
    "multiprocessors": 16,
    "integrated": 18,
    "compute_mode": 20,
    "ecc": 32,
    "memory_clock_khz": 36,
    "memory_bus_bits": 37,
    "l2_bytes": 38,
    "copy_engines": 40,
    "unified_addressing": 41,
    "major": 75,
    "minor": 76,
}
"""CUdevice_attribute (cuda.h): the ones read, by the name that Device.attributes has for them."""

NOT_READY, PEER_ALREADY_ENABLED, NOT_FOUND = 600, 704, 500
NON_BLOCKING, PORTABLE = 1, 1
"""CU_STREAM_NON_BLOCKING and CU_MEMHOSTALLOC_PORTABLE."""
JIT_ERROR_LOG, JIT_ERROR_LOG_SIZE = 5, 6
"""CU_JIT_ERROR_LOG_BUFFER and CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES."""
