"""Rules about one GPU's way to the host: lanes, generation, replayed packets, the BAR1 window."""

from __future__ import annotations

from checks.data.boards import board_of, integrated
from checks.gpus.dump import Gap, Gpu
from checks.gpus.growth import before, grown
from checks.gpus.heat import idle
from checks.gpus.modes import of_slices
from checks.gpus.rule import Outcome, Scene, failed, first_error, passed, skipped, unread, warned

_WIDTH, _WIDEST = "nvmlDeviceGetCurrPcieLinkWidth", "nvmlDeviceGetMaxPcieLinkWidth"
_NOW, _HERE, _BOARD = (
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetGpuMaxPcieLinkGeneration",
)
MIB = 1 << 20
SMALL_BAR1 = 256 * MIB
"""Window of a board without resizable BAR: enough to work, too small to map memory for its peers."""

MANY_REPLAYS = 80
"""DCGM's own default for max_pcie_replays, from which its PCIe test fails (dcgmi diag, level 2)."""


def pcie_width(gpu: Gpu, scene: Scene) -> Outcome:
    """Lanes in use against lanes that board and slot have. The generation falls at idle by design."""
    if integrated(gpu.name):
        return skipped(f"{gpu.name} is part of its host's chip: its link is no slot's")
    width, widest = gpu.number(_WIDTH), gpu.number(_WIDEST)
    if isinstance(width, Gap):
        return unread("PCIe width", width)
    if isinstance(widest, Gap):
        return unread("greatest PCIe width", widest)
    generation = gpu.number(_NOW)
    suffix = "" if isinstance(generation, Gap) else f" gen{generation}"
    if width >= widest:
        return _slot(gpu, scene, widest, f"x{width}{suffix}")
    fix = "look again while it copies; reseat the board and its riser, clean the contacts, try another slot"
    full = [other for other in scene.siblings(gpu) if other.number(_WIDTH) == widest]
    said = f"x{width} of x{widest}{suffix}"
    if idle(gpu) and not full:
        cause = "some boards narrow an idle link; no sibling at full width says otherwise"
        return warned(said, value=width, limit=widest, unit="lanes", cause=cause, fix=fix)
    with_siblings = f", {full[0].subject} runs at x{widest}" if full else ""
    cause = "lanes were lost: copies to and from this GPU are slower by as much"
    return failed(f"{said}{with_siblings}", value=width, limit=widest, unit="lanes", cause=cause, fix=fix)


def _slot(gpu: Gpu, scene: Scene, widest: int, said: str) -> Outcome:
    """All lanes that the slot has are in use; has it as many as the board, or as the siblings' slots?"""
    board = board_of(gpu.name)
    wider = [n for one in scene.siblings(gpu) if isinstance(n := one.number(_WIDEST), int) and n > widest]
    lanes = max((*wider, board.lanes if board and board.lanes else 0))
    if lanes > widest:
        return warned(
            f"{said}: slot or riser give x{widest}, the board has x{lanes}",
            value=widest,
            limit=lanes,
            unit="lanes",
            fix="move the board to a slot with all its lanes, or see that the slot is not split (bifurcation)",
        )
    return passed(said, value=widest, limit=widest, unit="lanes")


def pcie_generation(gpu: Gpu, scene: Scene) -> Outcome | None:
    """The generation that slot and board reach together against the board's own. That in use falls at idle by
    design; what it is while the GPU copies is measured by ``provcheck load``."""
    if not scene.holds(_HERE, _BOARD):
        return None
    if integrated(gpu.name):
        return skipped(f"{gpu.name} is part of its host's chip: its link is no slot's")
    now, here, own = gpu.number(_NOW), gpu.number(_HERE), gpu.number(_BOARD)
    if isinstance(here, Gap):
        return unread("greatest PCIe generation", here)
    faster = [n for one in scene.siblings(gpu) if isinstance(n := one.number(_HERE), int) and n > here]
    board = max((*faster, here if isinstance(own, Gap) else own))
    if here < board:
        sibling = ", siblings reach it" if faster else ""
        return warned(
            f"slot and board reach gen{here} together, the board alone gen{board}{sibling}",
            value=here,
            limit=board,
            cause="an older slot or riser, or a generation set in the firmware set-up",
            fix="set the slot to its greatest generation in the firmware set-up, or use another slot or riser",
        )
    error = first_error(now, own)
    if error is not None:
        return unread("PCIe generation", error)
    if isinstance(now, Gap) or now >= here:
        return passed(f"gen{here}", value=here, limit=here)
    why = "it is idle" if idle(gpu) else "'provcheck load' measures it while it copies"
    return passed(f"gen{now} now, gen{here} when needed: {why}", value=here, limit=here)


def replays(gpu: Gpu) -> int | Gap:
    """Packets sent again since the driver was loaded."""
    counted = gpu.number("nvmlDeviceGetPcieReplayCounter")
    field = gpu.by_field("PCIE_REPLAY_COUNTER")
    return field if isinstance(counted, Gap) and isinstance(field, int) else counted


def pcie_replay(gpu: Gpu, scene: Scene) -> Outcome | None:
    """Packets that had to be sent again: only how many more than in the earlier record says something."""
    if not scene.holds("nvmlDeviceGetPcieReplayCounter"):
        return None
    if integrated(gpu.name):
        return skipped(f"{gpu.name} is part of its host's chip: its link is no slot's")
    count = replays(gpu)
    error = first_error(gpu.number("nvmlDeviceGetPcieReplayCounter"), gpu.by_field("PCIE_REPLAY_COUNTER"))
    if error is not None:
        return unread("PCIe replay counter", error)
    if isinstance(count, Gap):
        return unread("PCIe replay counter", count)
    more = grown(gpu, scene, replays)
    if more:
        verdict = failed if more > MANY_REPLAYS else warned
        return verdict(
            f"PCIe packets sent again since the earlier record: {more}",
            value=more,
            limit=MANY_REPLAYS,
            cause="bits go wrong on the way between slot and board",
            fix="reseat board and riser, clean the contacts, try another slot or a lower generation",
        )
    told = "none more than in the earlier record" if before(gpu, scene) else "a number alone is no finding"
    return passed(f"{count} packets sent again since the driver was loaded: {told}", value=count)


def bar1(gpu: Gpu, scene: Scene) -> Outcome | None:
    """The window through which peers and network cards reach the GPU's memory."""
    key = "nvmlDeviceGetBAR1MemoryInfo"
    if not scene.holds(key):
        return None
    if integrated(gpu.name):
        return skipped(f"{gpu.name} shares its host's memory: there is no window to it")
    window = gpu.struct(key)
    if of_slices(gpu, window):
        return skipped("MIG is on: BAR1 belongs to its devices")
    if isinstance(window, Gap):
        return unread("BAR1 size", window)
    size = window.get("bar1Total")
    if not isinstance(size, int):
        return unread("BAR1 size", Gap("NoSize", "the answer has no bar1Total"))
    others = [n for one in scene.siblings(gpu) if isinstance(n := _bar1(one), int)]
    memory, board = _memory(gpu), board_of(gpu.name)
    less = None
    if size <= 0:
        less = "no BAR1 window"
    elif max(others, default=0) > size:
        less = f"BAR1 of {_size(size)}, a sibling has {_size(max(others))}"
    elif size < SMALL_BAR1 and len(scene.dump.gpus) > 1:
        less = f"BAR1 of {_size(size)}"
    elif board is not None and board.ecc and memory and size < memory:
        less = f"BAR1 of {_size(size)}, less than the {_size(memory)} of memory"
    if less:
        return warned(
            f"{less}: peers and network cards reach only that part of its memory",
            value=size // MIB,
            limit=(max(others, default=0) or memory or SMALL_BAR1) // MIB,
            unit="MiB",
            cause="resizable BAR or above-4G decoding is off, or a virtual machine was given a small window",
            fix="turn on above-4G decoding and resizable BAR in the firmware set-up of the host",
        )
    return passed(f"BAR1 of {_size(size)}", value=size // MIB, unit="MiB")


def _size(size: int) -> str:
    return f"{size / (1024 * MIB):.4g} GiB" if size >= 1024 * MIB else f"{size // MIB} MiB"


def _bar1(gpu: Gpu) -> int | None:
    window = gpu.struct("nvmlDeviceGetBAR1MemoryInfo")
    size = None if isinstance(window, Gap) else window.get("bar1Total")
    return size if isinstance(size, int) else None


def _memory(gpu: Gpu) -> int:
    info = gpu.struct("nvmlDeviceGetMemoryInfo")
    total = 0 if isinstance(info, Gap) else info.get("total")
    return total if isinstance(total, int) else 0
