"""Which driver holds the GPUs, where nothing but the bus was seen."""

from __future__ import annotations

from checks.gpus.node import PciGpu
from checks.gpus.rule import Outcome, Scene, failed, passed, warned


def held_by_others(scene: Scene) -> Outcome:
    """Nothing but the bus was seen, and not every GPU of it is with the driver."""
    every, others = scene.node.gpus or (), scene.node.other_drivers
    ours = len(every) - len(others)
    text = f"{ours} of {len(every)} GPUs are with the nvidia driver: {scene.node.held_by()}"
    if scene.expect is not None and ours >= scene.expect:
        return passed(text, value=ours, limit=scene.expect)
    verdict = failed if scene.expect or not ours else warned
    return verdict(
        text,
        value=ours,
        limit=scene.expect,
        cause="vfio-pci keeps a GPU for virtual machines; nouveau took it first; without one the module is missing",
        fix=f"release it from {_names(others)}, load the driver (modprobe nvidia), read 'dmesg | grep -i nvrm'"
        + ("" if scene.expect else "; when it is meant so, say --expect N of those that should be here"),
    )


def _names(gpus: tuple[PciGpu, ...]) -> str:
    return (
        ", ".join(dict.fromkeys(gpu.driver for gpu in gpus if gpu.driver))
        or "whatever keeps the driver from it"
    )
