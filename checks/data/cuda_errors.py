"""What the driver's error codes mean for whoever runs the machine. Codes in no row keep the driver's own text."""

from __future__ import annotations

from typing import NamedTuple


class Meaning(NamedTuple):
    """``name`` is CUDA's, for a library that cannot be asked; ``cause`` and ``fix`` go into the finding."""

    name: str
    cause: str
    fix: str
    source: str


_API = "CUDA driver API, CUresult"

MEANINGS = {
    2: Meaning(
        "CUDA_ERROR_OUT_OF_MEMORY",
        "the GPU has not that much free memory, or the driver could not pin that much host memory",
        "see who holds memory with 'provcheck gpus' or nvidia-smi; raise memlock if pinning failed",
        _API,
    ),
    3: Meaning(
        "CUDA_ERROR_NOT_INITIALIZED", "the driver was not started, or is shutting down", "run again", _API
    ),
    34: Meaning(
        "CUDA_ERROR_STUB_LIBRARY",
        "the libcuda.so.1 that was found is the toolkit's stub, made for linking only",
        "take the toolkit's stubs folder out of LD_LIBRARY_PATH",
        _API,
    ),
    46: Meaning(
        "CUDA_ERROR_DEVICE_UNAVAILABLE",
        "another process has the GPU for itself (compute mode exclusive or prohibited), or it awaits a reset",
        "look at the compute mode and the processes with nvidia-smi; nvidia-smi -i N -c DEFAULT lets others in",
        _API,
    ),
    100: Meaning(
        "CUDA_ERROR_NO_DEVICE",
        "the driver shows no GPU: none is bound to it, CUDA_VISIBLE_DEVICES hides all, or a container got none",
        "look at 'provcheck gpus', at CUDA_VISIBLE_DEVICES, and at /dev/nvidia* in the container",
        _API,
    ),
    101: Meaning(
        "CUDA_ERROR_INVALID_DEVICE",
        "the number names no GPU that this process may see",
        "look at CUDA_VISIBLE_DEVICES; a bad entry there hides all that follow",
        f"{_API}; CUDA programming guide, CUDA_VISIBLE_DEVICES",
    ),
    214: Meaning(
        "CUDA_ERROR_ECC_UNCORRECTABLE",
        "an uncorrectable ECC error hit memory in use",
        "look at ECC and row remapping with 'provcheck gpus'; reset the GPU, and have it replaced if it comes back",
        f"{_API}; NVIDIA GPU memory error management guide",
    ),
    218: Meaning(
        "CUDA_ERROR_INVALID_PTX",
        "the driver's compiler refused the shipped kernels",
        "report the driver's version together with the text",
        _API,
    ),
    220: Meaning(
        "CUDA_ERROR_NVLINK_UNCORRECTABLE",
        "an NVLink had an error that it could not correct",
        "look at nvlink.state and at the kernel log for Xid 74; reset the GPUs, reseat the bridge or module",
        f"{_API}; NVIDIA Xid 74",
    ),
    222: Meaning(
        "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        "the driver is older than the shipped kernels ask for (CUDA 10.2, driver 440)",
        "use a newer driver",
        _API,
    ),
    304: Meaning(
        "CUDA_ERROR_OPERATING_SYSTEM",
        "a call to the kernel failed: mostly a device node that cannot be opened, or a cgroup that forbids it",
        "check /dev/nvidia*, /dev/nvidia-uvm and the container's device rules; run as a user who may open them",
        _API,
    ),
    700: Meaning(
        "CUDA_ERROR_ILLEGAL_ADDRESS",
        "a kernel read or wrote outside its memory; with these small kernels that is a fault of GPU or driver",
        "look at the kernel log for Xid 13 and 31; run again; reset the GPU if it comes back",
        f"{_API}; NVIDIA Xid 13 and 31",
    ),
    702: Meaning(
        "CUDA_ERROR_LAUNCH_TIMEOUT",
        "the driver killed a kernel that ran too long: it does so on a GPU that also drives a display",
        "run without a display on this GPU, or with a smaller --seconds",
        _API,
    ),
    719: Meaning(
        "CUDA_ERROR_LAUNCH_FAILED",
        "the GPU raised an exception while a kernel ran",
        "look at the kernel log for an Xid; reset the GPU if it comes back",
        _API,
    ),
    800: Meaning(
        "CUDA_ERROR_NOT_PERMITTED",
        "the operation is not permitted to this process",
        "run as root, or look at the container's rules",
        _API,
    ),
    802: Meaning(
        "CUDA_ERROR_SYSTEM_NOT_READY",
        "the NVSwitch fabric is not up: nvidia-fabricmanager does not run, failed, or is of another version",
        "systemctl status nvidia-fabricmanager; install the version of the driver and start it",
        f"{_API}; Fabric Manager user guide",
    ),
    803: Meaning(
        "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        "libcuda.so.1 and the kernel module are of different versions",
        "reboot after a driver update; in a container bring in the host's libraries, none of its own",
        _API,
    ),
    804: Meaning(
        "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
        "a forward-compatibility libcuda was found first, and this GPU or driver does not support that",
        "take the 'compat' folder out of LD_LIBRARY_PATH and ld.so.conf, or update the driver",
        f"{_API}; CUDA compatibility guide",
    ),
    999: Meaning(
        "CUDA_ERROR_UNKNOWN",
        "the driver says no more; often /dev/nvidia-uvm is missing or a container lost its device rules",
        "check /dev/nvidia-uvm and the kernel log; restart the container after 'systemctl daemon-reload'",
        f"{_API}; NVIDIA/nvidia-container-toolkit#48",
    ),
}

OUT_OF_MEMORY, UNKNOWN = 2, 999


def meaning_of(code: int | None, *, started: bool) -> Meaning | None:
    """The row of a code. ``started``: the GPU had already worked; the usual causes of 999 are those of a start."""
    if code is None or (code == UNKNOWN and started):
        return None
    return MEANINGS.get(code)
