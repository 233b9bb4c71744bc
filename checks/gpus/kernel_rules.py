"""Rules about the kernel log's words that are no Xid: PCIe errors, the module on itself, NCCL, nvidia-peermem."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from checks.bdf import Bdf
from checks.data.driver_lines import DRIVER_LINES, OF_NO_CONCERN
from checks.data.kernel_lines import KERNEL_LINES
from checks.gpus import kernel_events
from checks.gpus.dump import Gap
from checks.gpus.health import address
from checks.gpus.kernel_events import Event, What, since_boot
from checks.gpus.rule import Outcome, Scene, failed, passed, warned

Judged = Iterator[tuple[str, Outcome]]


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    """Made when a log has such lines: a look at a well machine has no time for them."""
    rows = (*OF_NO_CONCERN, *(row.pattern for row in DRIVER_LINES), *(row.pattern for row in KERNEL_LINES))
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in rows)


def pcie_errors(scene: Scene) -> Judged:
    """Uncorrected PCIe errors (AER) of GPUs and of the bridges above them since the boot, or a GPU's last reset."""
    log = scene.node.kernel
    if not log.there or log.error is not None:
        return
    events = since_boot(log.events)
    found: dict[Bdf, list[Event]] = {}
    for event in events:
        if event.what is What.RESET and event.bdf is not None:
            found.pop(event.bdf, None)
        elif event.what is What.AER and event.bdf is not None:
            found.setdefault(event.bdf, []).append(event)
    listed = {bdf: gpu.subject for gpu in scene.dump.gpus if isinstance(bdf := address(gpu), Bdf)}
    told = [(bdf, *who) for bdf in found if (who := _who(bdf, scene, listed, log.lines)) is not None]
    for bdf, word, ours in told:
        yield listed.get(bdf, str(bdf)), _errors(found[bdf], f"{word} at {bdf}", ours=ours)
    if not told and scene.dump.gpus:
        yield "host", passed("no uncorrected PCIe error of a GPU in the kernel log", value=0, limit=0)


def _who(bdf: Bdf, scene: Scene, listed: dict[Bdf, str], lines: Sequence[str]) -> tuple[str, bool] | None:
    """What is at this address, and whether it is surely a GPU's affair; None: a device that is no concern here."""
    on_bus = {gpu.bdf: gpu for gpu in scene.node.gpus or ()}
    if bdf in on_bus:
        return None if scene.node.given(on_bus[bdf]) is False else ("the GPU", True)
    if bdf in listed:
        return "the GPU", True
    if any(str(bdf) == port.bdf for ports in scene.node.bus.ports.values() for port in ports):
        return "a bridge above a GPU", True
    named = re.compile(rf"(?:NVRM:.*|\bnvidia ){re.escape(str(bdf)[:-2])}")
    if any(named.search(line) for line in lines):
        return "the GPU", True
    return ("a device", False) if scene.node.gpus is None else None


def _errors(events: Sequence[Event], where: str, *, ours: bool) -> Outcome:
    fatal = any(event.fatal for event in events)
    last = f", the last {events[-1].at}" if events[-1].at else ""
    lines = "1 line" if len(events) == 1 else f"{len(events)} lines"
    kind = "fatal" if fatal else "non-fatal"
    text = f"{lines} of uncorrected PCIe errors ({kind}) of {where}{last}"
    cause = "a transfer on PCIe was lost: slot, riser, cable or the board; after a fatal one the link was cut"
    fix = "read gpu.lost and gpu.xid; reseat the board and its riser when it recurs, try another slot"
    if not ours:
        cause = "the log does not say what is at this address; a GPU's error takes the GPU off the bus"
        fix = f"see what it is (lspci -s {events[-1].bdf}); give the output of 'lspci -nn' with --replay as well"
    verdict = failed if fatal and ours else warned
    return verdict(text, value=len(events), limit=0, cause=cause, fix=fix)


def driver_log(scene: Scene) -> Judged:
    """What the module says of itself, and how many of its lines no rule knows.

    Where NVML itself was asked, its list of GPUs counts more than lines that may be past; a container reads the log
    of its host, whose other devices are not its concern.
    """
    log = scene.node.kernel
    if not log.there or log.error is not None or scene.node.container:
        return
    lines = log.recent
    asked = isinstance(scene.dump.count, int) and not isinstance(scene.dump.library, Gap)
    for row in DRIVER_LINES:
        said = [line for line in lines if re.search(row.pattern, line, re.IGNORECASE)]
        if said and not asked:
            verdict = failed if row.fatal else warned
            yield (
                "host",
                verdict(f'the driver\'s module says: "{said[-1][:200]}"', cause=row.cause, fix=row.fix),
            )
            return
    strange = [line for line in lines if "NVRM: " in line and not _known(line)]
    if strange:
        text = f'{len(strange)} of the driver\'s lines are known to no rule here; the last: "{strange[-1][:160]}"'
        fix = (
            "read them (grep NVRM); look the last one up in NVIDIA/open-gpu-kernel-modules, or ask the vendor"
        )
        yield (
            "host",
            passed(text, value=len(strange)) if asked else warned(text, value=len(strange), limit=0, fix=fix),
        )
    elif any("NVRM: " in line for line in lines):
        yield "host", passed("no word of the driver's module that asks for anything", value=0, limit=0)


def _known(line: str) -> bool:
    return (
        any(pattern.search(line) for pattern in _patterns())
        or any(kernel_events.events([line]))
        or _mismatch(line)
    )


def _mismatch(line: str) -> bool:
    return "API mismatch" in line


DMA_BUF = (5, 12)
"""First kernel whose DMA-BUF serves RDMA, with the open kernel module (GPUDirect RDMA documentation)."""


def nccl_crash(scene: Scene) -> Judged:
    """A process that crashed inside libnccl."""
    log = scene.node.kernel
    if not log.there or log.error is not None:
        return
    crashes = [event for event in since_boot(log.events) if event.what is What.NCCL]
    if crashes:
        yield (
            "host",
            warned(
                f"{len(crashes)} crashes inside libnccl; the last: {crashes[-1].line[:90]}",
                value=len(crashes),
                limit=0,
                cause="NCCL hit memory that was gone: another rank died, or library and driver do not fit",
                fix="read the log of the process that crashed, then: provcheck nccl",
            ),
        )
    elif scene.dump.gpus:
        yield "host", passed("no crash inside libnccl in the kernel log", value=0, limit=0)


def peermem(scene: Scene) -> Judged:
    """nvidia-peermem: its complaints in the log, and whether it is there where RDMA needs it."""
    log = scene.node.kernel
    bad = [event for event in since_boot(log.events) if event.what is What.PEERMEM]
    if bad:
        yield (
            "host",
            warned(
                f"nvidia-peermem met an invalid context {len(bad)} times",
                value=len(bad),
                limit=0,
                cause="a program ended, or its GPU memory was freed, while the network card still held it",
                fix="see whether a program crashed at that time; update driver and MOFED together when it recurs",
            ),
        )
        return
    yield from _peermem_module(scene)


def _peermem_module(scene: Scene) -> Judged:
    modules, cards = scene.node.modules, scene.node.rdma
    if modules is None or not cards or not scene.dump.gpus:
        return
    if modules & {"nvidia_peermem", "nv_peer_mem"}:
        yield "host", passed("nvidia_peermem is loaded")
        return
    if scene.node.open_module and (scene.node.bus.kernel or (0, 0)) >= DMA_BUF:
        yield "host", passed("DMA-BUF serves RDMA here (open kernel module), nvidia_peermem is not needed")
        return
    yield (
        "host",
        warned(
            f"there are RDMA devices ({', '.join(cards[:4])}) and nvidia_peermem is not loaded",
            cause="network cards then reach GPU memory only through DMA-BUF (kernel 5.12, open kernel module) or host"
            " memory, which is slower",
            fix="modprobe nvidia_peermem, unless NCCL says that it uses DMA-BUF; one machine alone needs neither",
        ),
    )
