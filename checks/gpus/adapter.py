"""GPUs that the driver holds and NVML does not show: the adapter did not start, and the kernel log says why."""

from __future__ import annotations

from collections.abc import Iterator

from checks.bdf import Bdf
from checks.gpus.dump import (
    DIED,
    DRIVER_NOT_LOADED,
    LIBRARY_NOT_FOUND,
    MISMATCH,
    NO_PERMISSION,
    TIMEOUT,
    UNKNOWN_ERROR,
    Gap,
)
from checks.gpus.kernlog import Story
from checks.gpus.node import PciGpu
from checks.gpus.rule import Outcome, Scene, failed, passed, skipped, unknown

NVML_SILENT = frozenset(
    {
        *(LIBRARY_NOT_FOUND, DRIVER_NOT_LOADED, NO_PERMISSION, MISMATCH, UNKNOWN_ERROR),
        *(TIMEOUT, DIED, "ImportError", "ForeignBinding"),
    }
)
"""Ways of not starting NVML that say nothing about any adapter (nvml.h, and the collector's own words)."""


def held(scene: Scene) -> list[PciGpu]:
    """GPUs bound to the nvidia driver. One that the driver was told to exclude is none of them."""
    return [gpu for gpu in scene.node.gpus or () if gpu.driver == "nvidia" and not gpu.excluded]


def unlisted(scene: Scene) -> tuple[list[PciGpu], bool]:
    """GPUs that belong here, are held by the driver and are not shown by NVML.

    The second part is True when some GPU of NVML gave no address: then these are only so many of the list.
    """
    here = [gpu for gpu in held(scene) if scene.node.given(gpu)]
    if scene.dump.init is not None:
        return here, False
    addresses = [_address(gpu.struct("nvmlDeviceGetPciInfo")) for gpu in scene.dump.gpus]
    nameless = addresses.count(None)
    missing = [gpu for gpu in here if gpu.bdf not in addresses]
    return missing[nameless:], nameless > 0


def _address(pci: object) -> Bdf | None:
    try:
        return Bdf.parse(str(pci["busId"])) if isinstance(pci, dict) else None
    except (KeyError, ValueError):
        return None


def started(scene: Scene) -> Iterator[tuple[str, Outcome]]:
    """One outcome per GPU that did not start, with its address as subject; else one for the host."""
    if scene.node.gpus is None:
        yield from _told(scene) or [("host", skipped("the PCI bus is not in the evidence"))]
        return
    outcomes = list(_per_gpu(scene)) or [told for told in _told(scene) if told[0] == "host"]
    if outcomes:
        yield from outcomes
        return
    if _untold(scene):
        yield (
            "host",
            unknown(
                "this container has more GPU device nodes than NVML shows GPUs, and which GPU is whose cannot be told",
                cause="/proc/driver/nvidia/gpus does not give their minor numbers here",
                fix="run provcheck on the host: it names the GPU",
            ),
        )
    elif not any(scene.node.given(gpu) for gpu in held(scene)):
        word = (
            "passed into this container"
            if scene.node.container and held(scene)
            else "held by the nvidia driver"
        )
        yield "host", skipped(f"no GPU is known to be {word}")
    elif _silent(scene):
        yield (
            "host",
            unknown(f"NVML could not be asked which GPUs started: {scene.dump.init or scene.dump.count}"),
        )
    else:
        yield "host", passed("NVML shows every GPU that the nvidia driver holds here")


def _told(scene: Scene) -> list[tuple[str, Outcome]]:
    """By the kernel log alone: GPUs that the driver could not start and that NVML does not show."""
    listed = {_address(gpu.struct("nvmlDeviceGetPciInfo")) for gpu in scene.dump.gpus if gpu.handle is None}
    asked = isinstance(scene.dump.count, int)
    found = []
    for bdf, story in scene.node.kernel.stories().items():
        if bdf in listed or (bdf is None and asked):
            continue
        seen = f"the driver could not start the GPU at {bdf}" if bdf else "the driver could not start a GPU"
        text = f"{seen}; the kernel: {story.quoted}"
        found.append((str(bdf or "host"), failed(text, cause=story.row.cause, fix=story.row.fix)))
    return found


def _silent(scene: Scene) -> bool:
    if scene.dump.init is not None:
        return scene.dump.init.code in NVML_SILENT
    return isinstance(scene.dump.count, Gap)


def _per_gpu(scene: Scene) -> Iterator[tuple[str, Outcome]]:
    missing, ambiguous = unlisted(scene)
    for gpu in missing:
        story = scene.node.kernel.about(gpu.bdf)
        if _silent(scene) and story is None:
            continue
        if ambiguous and story is None:
            text = f"NVML shows no GPU at {gpu.bdf}, and gave no address for another: it may be that one"
            yield str(gpu.bdf), unknown(text, fix="see gpu.lost and gpu.identity of the others")
        else:
            yield str(gpu.bdf), _not_started(scene, gpu, story)
    yield from _not_taken(scene)


def _not_started(scene: Scene, gpu: PciGpu, story: Story | None) -> Outcome:
    seen = f"the nvidia driver is bound to {gpu.bdf} but the adapter did not initialise"
    if story is not None:
        return failed(f"{seen}; the kernel: {story.quoted}", cause=story.row.cause, fix=story.row.fix)
    if scene.node.kernel.error is not None:
        return failed(
            f"{seen}; the kernel log could not be read: {scene.node.kernel.error}",
            cause="not known: NVML does not show it, and the kernel's own word could not be had here",
            fix=f"on the host, as root: dmesg | grep -e NVRM -e {gpu.bdf}",
        )
    nodes = scene.node.nodes
    if nodes is not None and gpu.minor is not None and gpu.minor not in nodes:
        return failed(
            f"{seen}: nobody has opened it, it has no device node /dev/nvidia{gpu.minor}",
            cause="the device nodes were not made after the driver was loaded",
            fix=f"nvidia-modprobe -c {gpu.minor}, then nvidia-modprobe -u -c 0; kpro-devices.service does it at boot",
        )
    return failed(
        f"{seen}; the kernel log says nothing about it (any more)",
        cause="NVML does not show it",
        fix="open it once (nvidia-smi) and read 'dmesg | grep -i nvrm'; then switch the host off and on",
    )


def _not_taken(scene: Scene) -> Iterator[tuple[str, Outcome]]:
    """GPUs without a driver that the kernel says nvidia refused; told where GPUs are missing, since an old console
    card that no current driver knows is nobody's loss."""
    count = scene.dump.count
    seen = count if isinstance(count, int) else 0
    if scene.node.container or not scene.expect or seen >= scene.expect:
        return
    for gpu in scene.node.gpus or ():
        story = scene.node.kernel.about(gpu.bdf) if gpu.driver is None else None
        if story is not None:
            text = f"the nvidia driver did not take {gpu.bdf}; the kernel: {story.quoted}"
            yield str(gpu.bdf), failed(text, cause=story.row.cause, fix=story.row.fix)


def _untold(scene: Scene) -> bool:
    """In a container whose GPUs cannot be told from its host's: are there more device nodes than GPUs?"""
    node, count = scene.node, scene.dump.count
    unclear = any(node.given(gpu) is None for gpu in held(scene))
    if not unclear or node.nodes is None or _silent(scene):
        return False
    return len(node.nodes - node.seat.others) > (count if isinstance(count, int) else 0)
