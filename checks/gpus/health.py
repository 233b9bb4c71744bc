"""Rules about one GPU as a whole: is it alive, which one is it, does the driver ask for its recovery?"""

from __future__ import annotations

from checks.gpus.dump import NO_PERMISSION, UNKNOWN_ERROR, Gap, Gpu
from checks.gpus.parts import CUT
from checks.gpus.rule import Outcome, Scene, failed, first_error, passed, unknown, unread
from checks.gpus.which import address as address
from checks.gpus.which import reset as reset_of
from checks.gpus.which import smi

_RECOVERY = {
    1: "reset the GPU",
    2: "reboot the host",
    3: "stop the work that uses peer-to-peer with it",
    4: "stop the work on it, then reset it",
    5: "recover the IMEX domain",
    6: "reset it through the bus",
    7: "reboot the host",
}
"""NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, from nvml.h; 0 is none."""

_ACTIONS = {
    1: "GPU reset",
    2: "node reboot",
    3: "drain peer-to-peer",
    4: "drain and reset",
    5: "IMEX domain",
    6: "bus reset",
    7: "system reboot",
}


RESET_REQUIRED = 16

_REFUSED: dict[int | str | None, tuple[str, str, str]] = {
    8: (
        "the board has too little power",
        "an auxiliary power cable is not plugged in or not seated",
        "power off, plug all power cables of the board in, start again",
    ),
    11: (
        "the driver gets no interrupt from it",
        "interrupts are not routed to the board (firmware, IOMMU, a virtual machine's settings)",
        "read 'dmesg | grep -i nvrm', reseat the board, update the host's firmware",
    ),
    RESET_REQUIRED: (
        "it needs a reset before it can be used",
        "it met an error that only a reset clears",
        "drain the GPU, then reset it or reboot",
    ),
}
"""Codes of nvmlReturn_t with which NVML refuses a handle: word, cause, fix."""


_CLOSED: dict[int | str | None, tuple[str, str]] = {
    NO_PERMISSION: ("this user may not open its device node", "run as root, or give the user /dev/nvidia*"),
    17: (
        "a cgroup or the container keeps its device node back",
        "see node.cgroup and node.device_nodes; pass the node, restart the container",
    ),
    28: ("the driver does not know it (any more)", "see gpu.count and gpu.xid; reboot the host"),
    UNKNOWN_ERROR: (
        "in a container: it lost the device node ('systemctl daemon-reload' on the host); else the driver is stuck",
        "restart the container; on the host read 'dmesg | grep -i -e nvrm -e xid', reset the GPU or reboot",
    ),
}
"""Codes with which NVML refuses a handle and which leave open whether the GPU is well: cause, fix."""


def lost(gpu: Gpu, scene: Scene) -> Outcome:
    """Has the GPU fallen off the bus? NVML still counts it and still answers from its cache."""
    gap = gpu.lost()
    if gap is not None:
        return failed(
            f"the GPU is lost: {gap}",
            cause="it fell off the bus (Xid 79) or its firmware died; counts and names come from a cache",
            fix="stop the service, read 'dmesg | grep -i xid', reboot the host; cold, when it stays away",
        )
    if gpu.handle is not None:
        said = _REFUSED.get(gpu.handle.code)
        if said is not None:
            how = reset_of(gpu) if gpu.handle.code == RESET_REQUIRED else said[2]
            return failed(f"{said[0]}: {gpu.handle}", cause=said[1], fix=how)
        if gpu.handle.code == CUT:
            return unknown(gpu.handle.text, fix="save it again, whole")
        ours = isinstance(gpu.handle.code, str)
        cause, fix = _CLOSED.get(
            gpu.handle.code, (None, None if ours else "read 'dmesg | grep -i nvrm'; reboot the host")
        )
        return unknown(f"NVML gives no access to it: {gpu.handle}", cause=cause, fix=fix)
    live = [gpu.number("temp"), gpu.number("nvmlDeviceGetPowerUsage"), gpu.struct("nvmlDeviceGetMemoryInfo")]
    if all(isinstance(value, Gap) for value in live):
        errors = first_error(*live)
        return unknown(
            "neither temperature, power nor memory could be read, so nothing shows that it is alive",
            cause=f"NVML: {errors}; a GPU whose firmware (GSP) died ends so (Xid 119, 120)"
            if errors
            else None,
            fix="stop the work on it, read 'dmesg | grep -i xid', then"
            f" {smi(gpu, '--gpu-reset')}, or reboot the host",
        )
    return passed("answers with live values")


def identity(gpu: Gpu, scene: Scene) -> Outcome:
    """Do name, UUID and PCI address come, each its own?"""
    name, uuid, bdf = gpu.text("nvmlDeviceGetName"), gpu.text("nvmlDeviceGetUUID"), address(gpu)
    gaps = [value for value in (name, uuid, bdf) if isinstance(value, Gap)]
    if gaps:
        return unknown(f"name, UUID or PCI address could not be read: {gaps[0]}")
    twins = [
        other.subject
        for other in scene.dump.gpus
        if other.index != gpu.index and (other.text("nvmlDeviceGetUUID") == uuid or address(other) == bdf)
    ]
    if twins:
        return failed(f"{name} shares its UUID or PCI address {bdf} with {', '.join(twins)}", value=name)
    return passed(f"{name} at {bdf}", value=name)


def recovery(gpu: Gpu, scene: Scene) -> Outcome:
    """The driver's own verdict: which recovery it asks for, by its newest field and by the two that it replaced."""
    action = gpu.by_field("GET_GPU_RECOVERY_ACTION")
    if isinstance(action, int) and action != 0:
        return failed(
            f"the driver asks for recovery: {_ACTIONS.get(action, 'unknown')} (action {action})",
            value=action,
            limit=0,
            fix=_advised(gpu, action),
        )
    reset, drain = gpu.by_field("RESET_STATUS"), gpu.by_field("DRAIN_AND_RESET_STATUS")
    if isinstance(drain, int) and drain:
        return failed("the driver asks to drain and reset it", value=drain, limit=0, fix=_advised(gpu, 4))
    if isinstance(reset, int) and reset:
        return failed("the driver asks for a reset", value=reset, limit=0, fix=_advised(gpu, 1))
    repair = gpu.numbers("nvmlDeviceGetRepairStatus")
    if not isinstance(repair, Gap) and any(repair):
        parts = [word for word, pending in zip(("memory channel", "TPC"), repair, strict=False) if pending]
        return failed(
            f"a repair is pending: {', '.join(parts)}",
            value=list(repair),
            cause="a part that failed is still in use, a spare one takes over at the next reset",
            fix=reset_of(gpu),
        )
    if RESET_REQUIRED in gpu.codes:
        return failed("NVML says that it needs a reset (code 16)", value=RESET_REQUIRED, fix=_advised(gpu, 4))
    error = first_error(action, reset, drain, repair)
    if error is not None:
        return unread("recovery action", error)
    if isinstance(action, int) or isinstance(reset, int) or isinstance(drain, int):
        return passed("the driver asks for no recovery", value=0)
    return unread("recovery action", action)


def _advised(gpu: Gpu, action: int) -> str:
    """What to do for a recovery action, with the command where one GPU alone is to be reset."""
    words = _RECOVERY.get(action, "look this action up in the driver's nvml.h")
    return f"{words}: {smi(gpu, '--gpu-reset')}" if action in (1, 4) else words
