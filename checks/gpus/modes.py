"""Rules about settings of a GPU that decide whether a launch can use it: persistence, MIG, compute mode."""

from __future__ import annotations

from checks.gpus.dump import NO_PERMISSION, Gap, Gpu
from checks.gpus.rule import (
    COMPUTE_MODES,
    Outcome,
    Scene,
    failed,
    first_error,
    passed,
    unread,
    warned,
)

EXCLUSIVE_THREAD, PROHIBITED, EXCLUSIVE_PROCESS = 1, 2, 3
"""nvmlComputeMode_t; 0 is default."""

_WORDS = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}


def persistence(gpu: Gpu, scene: Scene) -> Outcome | None:
    """Does the driver keep the GPU set up while nobody uses it?"""
    key = "nvmlDeviceGetPersistenceMode"
    if not scene.holds(key):
        return None
    mode = gpu.number(key)
    if isinstance(mode, Gap):
        return unread("persistence mode", mode)
    if mode:
        return passed("persistence mode is on", value=1)
    return warned(
        "persistence mode is off: each first use waits seconds for the GPU's start, and settings are lost in between",
        value=0,
        limit=1,
        fix=f"systemctl enable --now nvidia-persistenced, or nvidia-smi -i {gpu.index} -pm 1 until the next boot",
    )


def mig_on(gpu: Gpu) -> bool:
    """Whether it is divided now. What NVML says of the whole GPU's memory is then no sum of anything."""
    mode = gpu.numbers("nvmlDeviceGetMigMode")
    return not isinstance(mode, Gap) and mode[0] == 1


def of_slices(gpu: Gpu, gap: object) -> bool:
    """Whether ``gap`` is only that the whole of a divided GPU is not told: NVML refuses it with NotSupported, and with
    NoPermission to all but root (nvmlDeviceGetMemoryInfo in nvml.h)."""
    return isinstance(gap, Gap) and (gap.absent or gap.code == NO_PERMISSION) and mig_on(gpu)


def mig(gpu: Gpu, scene: Scene) -> Outcome | None:
    """Is the GPU whole or divided, as the launch needs it? A divided one cannot take part in tensor parallelism."""
    if not scene.holds("nvmlDeviceGetMigMode"):
        return None
    mode = gpu.numbers("nvmlDeviceGetMigMode")
    planned = scene.plan.mig
    if isinstance(mode, Gap):
        if mode.absent and planned:
            return failed(
                "MIG is planned, and this GPU or driver cannot do it",
                value="off",
                limit="on",
                fix="plan whole GPUs here, or use a board with MIG",
            )
        return unread("MIG mode", mode)
    current, pending = mode
    number = gpu.index
    if bool(current) != planned:
        switch = f"nvidia-smi -i {number} -mig {int(planned)}, then reset the GPU (nvidia-smi -i {number} --gpu-reset)"
        if planned:
            more = "; it will be on after the next reset" if pending else ""
            return failed(f"MIG is planned and off{more}", value="off", limit="on", fix=switch)
        return failed(
            f"MIG is on and not planned: {_devices(gpu)}",
            value="on",
            limit="off",
            cause="programs see slices, NCCL and tensor parallelism cannot span them",
            fix=f"{switch}; when slices are meant, say so with --mig",
        )
    if bool(pending) != bool(current):
        fix = f"nvidia-smi -i {number} -mig {int(planned)}, or reset the GPU knowingly"
        return warned(
            f"MIG will be {'on' if pending else 'off'} after the next reset", value=list(mode), fix=fix
        )
    if not current:
        return passed("MIG is off", value="off")
    return _instances(gpu)


def _instances(gpu: Gpu) -> Outcome:
    devices = gpu.mig()
    error = first_error(devices)
    if error is not None:
        return unread("MIG devices", error)
    if not isinstance(devices, Gap) and not devices:
        return failed(
            "MIG is on and has no device: nothing can run here",
            value=0,
            fix=f"make instances (nvidia-smi mig -i {gpu.index} -cgi PROFILE -C); they do not outlive a reboot",
        )
    if not isinstance(devices, Gap) and any("err" in device for device in devices):
        return unread("a MIG device", Gap(next(d["err"] for d in devices if "err" in d)))
    return passed(f"MIG is on, as planned: {_devices(gpu)}", value="on")


def _devices(gpu: Gpu) -> str:
    devices = gpu.mig()
    return "its devices are not in the evidence" if isinstance(devices, Gap) else f"{len(devices)} devices"


def compute_mode(gpu: Gpu, scene: Scene) -> Outcome | None:
    """May a program open the GPU, and may a second one?"""
    key = "nvmlDeviceGetComputeMode"
    if not scene.holds(key):
        return None
    mode, planned = gpu.number(key), scene.plan.compute_mode
    if isinstance(mode, Gap):
        return unread("compute mode", mode)
    word = _WORDS.get(mode, f"number {mode}")
    names = {number: name.upper().replace("-", "_") for name, number in COMPUTE_MODES.items()}
    fix = f"nvidia-smi -i {gpu.index} -c {names.get(planned or 0, 'DEFAULT')}"
    if planned is not None and mode != planned:
        return failed(
            f"compute mode is {word}, planned {_WORDS.get(planned, planned)}",
            value=mode,
            limit=planned,
            fix=fix,
        )
    if planned is not None:
        return passed(f"compute mode is {word}, as planned", value=mode, limit=planned)
    if mode == PROHIBITED:
        return failed(
            "compute mode is prohibited: no program can open this GPU",
            value=mode,
            limit=0,
            cause="CUDA hides it or ends with error 46 (all devices busy or unavailable)",
            fix=fix,
        )
    if mode in (EXCLUSIVE_PROCESS, EXCLUSIVE_THREAD):
        return warned(
            f"compute mode is {word}: a second process on this GPU is refused",
            value=mode,
            limit=0,
            cause="a server that uses several processes per GPU, or a check beside it, ends with error 46",
            fix=f"{fix}, unless MPS or a scheduler wants it so",
        )
    if mode:
        return warned(f"compute mode is {word}, which is not known here", value=mode, limit=0, fix=fix)
    return passed("compute mode is default", value=0)
