"""Environment variables that harm GPU work, or that are left over from a hunt for a fault.

``bad`` is a regular expression for values that are meant (whole value); ``warns`` False: said, without a warning.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Variable(NamedTuple):
    name: str
    bad: str
    what: str
    fix: str
    source: str
    warns: bool = True


_DCGM = "DCGM, software test 'environment variables'"
_CUDA = "CUDA C++ Programming Guide, CUDA environment variables"
_NCCL = "NCCL documentation, environment variables"
_ANY, _ON = r".+", r"(?!0$|$).+"
_REMOVE = "remove it from the service's environment"
_WORKAROUND = (
    "it works around a fault and costs speed: mend the fault (provcheck nccl names it), then remove it"
)

_ROWS = (
    Variable("NSIGHT_CUDA_DEBUGGER", _ON, "a debugger is loaded into every CUDA program", _REMOVE, _DCGM),
    Variable("CUDA_INJECTION32_PATH", _ANY, "a library is loaded into every CUDA program", _REMOVE, _DCGM),
    Variable("CUDA_INJECTION64_PATH", _ANY, "a library is loaded into every CUDA program", _REMOVE, _DCGM),
    Variable("CUDA_AUTO_BOOST", _ANY, "clocks are steered by hand", _REMOVE, _DCGM),
    Variable("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", _ON, "a failing kernel writes the GPU's memory to disk", _REMOVE,
             _DCGM),
    Variable("CUDA_COREDUMP_FILE", _ANY, "GPU core dumps are on", _REMOVE, _DCGM),
    Variable("CUDA_DEVICE_WAITS_ON_EXCEPTION", _ON, "a failing program waits for a debugger instead of ending",
             _REMOVE, _DCGM),
    Variable("CUDA_PROFILE", _ON, "the old profiler is on", _REMOVE, _DCGM),
    Variable("COMPUTE_PROFILE", _ON, "the old profiler is on", _REMOVE, _DCGM),
    Variable("OPENCL_PROFILE", _ON, "the old profiler is on", _REMOVE, _DCGM),
    Variable("CUDA_LAUNCH_BLOCKING", _ON, "every kernel launch waits for its end: much slower", _REMOVE, _CUDA),
    Variable("CUDA_VISIBLE_DEVICES", r"|-1|NoDevFiles|none|void", "all GPUs are hidden from CUDA programs",
             "remove it, or name the GPUs that are meant", _CUDA),
    Variable("NVIDIA_VISIBLE_DEVICES", r"void|none", "the container runtime hands in no GPU",
             "set it to all, or name the GPUs that are meant", "NVIDIA Container Toolkit documentation", False),
    Variable("CUDA_DISABLE_PTX_JIT", _ON, "kernels without code for this GPU cannot be compiled", _REMOVE, _CUDA),
    Variable("CUDA_FORCE_PTX_JIT", _ON, "every kernel is compiled anew at start", _REMOVE, _CUDA),
    Variable("NCCL_P2P_DISABLE", r"1", "GPUs do not copy to each other directly", _WORKAROUND, _NCCL),
    Variable("NCCL_P2P_LEVEL", r"LOC|0", "GPUs do not copy to each other directly", _WORKAROUND, _NCCL),
    Variable("NCCL_SHM_DISABLE", r"1", "processes of one machine speak through the network", _WORKAROUND, _NCCL),
    Variable("NCCL_IB_DISABLE", r"1", "InfiniBand and RoCE are not used", _WORKAROUND, _NCCL),
    Variable("NCCL_NVLS_ENABLE", r"0", "the switches' own reduction is off", _WORKAROUND, _NCCL, False),
    Variable("NCCL_CUMEM_ENABLE", r"0", "the newer memory interface is off", _WORKAROUND, _NCCL, False),
    Variable("NCCL_IGNORE_DISABLED_P2P", r"1", "NCCL keeps quiet about NVLinks that do not work", _WORKAROUND, _NCCL),
    Variable("NCCL_ALGO", _ANY, "NCCL's own choice of algorithm is overruled", _REMOVE, _NCCL, False),
    Variable("NCCL_PROTO", _ANY, "NCCL's own choice of protocol is overruled; LL128 may corrupt where it is not safe",
             _REMOVE, _NCCL),
    Variable("NCCL_DEBUG", r"(?i:INFO|TRACE)", "NCCL writes much to the log", "set it to WARN", _NCCL),
    Variable("NCCL_ASYNC_ERROR_HANDLING", _ANY, "the old name of TORCH_NCCL_ASYNC_ERROR_HANDLING: no effect now",
             "use the new name", "PyTorch documentation, torch.distributed", False),
    Variable("TORCH_NCCL_ASYNC_ERROR_HANDLING", r"0", "a rank whose peer died waits for ever", _REMOVE,
             "PyTorch documentation, torch.distributed"),
    Variable("LD_PRELOAD", r".*(?:compute-sanitizer|libnvidia-(?:ml|ptx)|cuda).*",
             "a library takes the place of the driver's own in every program", _REMOVE, "ld.so(8)"),
)  # fmt: skip

ENVIRONMENT = {row.name: row for row in _ROWS}

RELATED = re.compile(r"(?:CUDA|NCCL|NVIDIA|TORCH_NCCL|NVSHMEM|VLLM_NCCL|SGLANG_NCCL|LD)_[A-Z0-9_]+$")
"""Variables whose names are kept in a record, without their values."""
