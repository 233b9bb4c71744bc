"""Rules about the kernel log: Xid per GPU, SXid of the switches.

Only what happened after the last boot counts, and for a GPU only what happened after its last reset or the last
load of the driver. What came before is told as past.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from checks.bdf import Bdf
from checks.data.sxids import OTHERWISE, SXIDS
from checks.data.xids import (
    ABOUT_MEMORY,
    APPLICATION,
    ENGINE_NAMES,
    KINDS,
    NVLINK5,
    OF_AN_ENGINE,
    RECOVERY,
    XIDS,
    Xid,
)
from checks.gpus.dump import Gap, Gpu
from checks.gpus.health import address
from checks.gpus.kernel_events import Event, What, since_boot
from checks.gpus.kernlog import LINES_KEPT
from checks.gpus.rule import Outcome, Scene, passed, skipped, unknown, warned
from checks.model import Status

Judged = Iterator[tuple[str, Outcome]]

_RANK = {Status.FAIL: 3, Status.WARN: 2, Status.PASS: 1}
_FALLEN = XIDS[79]
_ASK = (
    "as root: dmesg | grep -e NVRM -e SXid; a container without the right asks its host, or root allows it by"
)
_SILENT = "the log does not mention NVIDIA's driver at all: that no Xid is in it says nothing of the GPUs"
_CUT_LOG = (
    "it begins after the driver's load, it is of another machine or of no kernel, or no driver was loaded"
)
_WHOLE_LOG = (
    "give the kernel's log of the whole boot: journalctl -k -b, or dmesg from before it was overwritten"
)
_CLOSED = f"{_ASK} sysctl kernel.dmesg_restrict=0"


def xid(scene: Scene) -> Judged:
    """Xids of each GPU since its last reset; a GPU that NVML does not list has its PCI address as subject."""
    log = scene.node.kernel
    if not log.there:
        return
    if scene.node.gpus == () and not scene.dump.gpus:
        yield "host", skipped("no GPU is on the bus")
        return
    if log.error is not None:
        text = (
            f"the kernel log could not be read ({log.error}): whether GPUs reported errors (Xid) is not known"
        )
        yield "host", unknown(text, fix=_CLOSED)
        return
    if log.silent:
        yield "host", unknown(_SILENT, cause=_CUT_LOG, fix=_WHOLE_LOG)
        return
    events = since_boot(log.events)
    listed = {bdf: gpu for gpu in scene.dump.gpus if isinstance(bdf := address(gpu), Bdf)}
    named = list(dict.fromkeys(event.bdf for event in events if event.bdf and _is_error(event)))
    for bdf, gpu in listed.items():
        yield gpu.subject, _of_one(events, bdf, gpu)
    foreign = _not_ours(scene)
    for bdf in named:
        if bdf not in listed and bdf not in foreign:
            yield str(bdf), _of_one(events, bdf, None)
    if any(event.bdf is None and _is_error(event) for event in events):
        yield "host", _of_one(events, None, None)
    elif not listed and not named:
        yield "host", _nobody(events)


def _nobody(events: Sequence[Event]) -> Outcome:
    """No GPU is listed and none is named."""
    last = max((at for at, event in enumerate(events) if event.what is What.LOAD), default=-1)
    if any(event.what is What.PROBE for event in events[last + 1 :]):
        fix = "read the lines before it, which name the GPU; see driver.adapter_init on the machine itself"
        return warned(
            "no Xid, but the driver could not take one of the devices (probe routine failed)", fix=fix
        )
    return passed("no Xid in the kernel log", value=0, limit=0)


def _not_ours(scene: Scene) -> set[Bdf]:
    """A container reads its host's log: what the other GPUs of that host did is not its concern."""
    return {gpu.bdf for gpu in scene.node.gpus or () if scene.node.given(gpu) is False}


def _is_error(event: Event) -> bool:
    return event.what in (What.XID, What.FALLEN)


def _of_one(events: Sequence[Event], bdf: Bdf | None, gpu: Gpu | None) -> Outcome:
    healed_at = max(
        (
            at
            for at, event in enumerate(events)
            if event.what is What.LOAD or (event.what is What.RESET and bdf is not None and event.bdf == bdf)
        ),
        default=-1,
    )
    mine = [(at, event) for at, event in enumerate(events) if _is_error(event) and event.bdf == bdf]
    active = [event for at, event in mine if at > healed_at]
    past = [event for at, event in mine if at < healed_at]
    before = f"; before its last reset: {_counted(past)}" if past else ""
    if not active:
        return passed(f"no Xid since the driver was loaded{before}", value=0, limit=0)
    if gpu is not None and _mended(active, gpu):
        text = f"{_counted(active)}: the rows were remapped and none is pending, so it is healed{before}"
        return passed(text, value=len(active), limit=0)
    in_force = _in_force(active, gpu)
    if not in_force:
        text = f"{_counted(active)}: no recovery is asked for any more{before}"
        return passed(text, value=len(active), limit=0)
    worst = max(in_force, key=lambda event: (_RANK[status_of(event)], event.what is What.FALLEN))
    row = row_of(worst)
    status = status_of(worst)
    text = f"{_counted(active)}{_by(worst)}{before}"
    if row is None:
        return warned(
            f"{text}: not in the catalogue",
            value=worst.number,
            cause=f"this provcheck knows no Xid {worst.number}",
            fix="look it up in NVIDIA's Xid catalog; read gpu.recovery, which is the driver's own advice",
        )
    fix = row.fix or (_WATCH if _nonfatal(worst, row) else KINDS[row.kind].fix)
    if worst.action:
        fix = RECOVERY.get(worst.action, _ACTION_UNKNOWN)[1]
    return Outcome(status, text, value=worst.number, cause=row.cause, fix=fix)


_ACTION_UNKNOWN = ("an action that this provcheck does not know", "look it up in the driver's nvml.h")


def _in_force(events: Sequence[Event], gpu: Gpu | None) -> list[Event]:
    """Of the messages on the recovery that is asked for, only the newest still holds, and none where the driver asks
    for no recovery any more."""
    newest = next((event for event in reversed(events) if event.number == 154), None)
    told = newest is not None and newest.action is not None
    if told and gpu is not None and gpu.by_field("GET_GPU_RECOVERY_ACTION") == 0:
        newest = None
    return [event for event in events if event.number != 154 or event is newest]


_WATCH = "nothing at once: watch nvlink.errors and the log; when it recurs, call the vendor with its subcode"


def _nonfatal(event: Event, row: Xid) -> bool:
    return row.kind == NVLINK5 and event.fatal is False


def row_of(event: Event) -> Xid | None:
    """The catalogue's row, None for a number that it does not know."""
    if event.what is What.FALLEN:
        return _FALLEN
    engine = any(name.lower() in (event.process or "").lower() for name in ENGINE_NAMES)
    if engine and event.number in OF_AN_ENGINE:
        return OF_AN_ENGINE[event.number]
    return XIDS.get(event.number or 0)


def status_of(event: Event) -> Status:
    row = row_of(event)
    if row is None:
        return Status.WARN
    if _nonfatal(event, row):
        return Status.WARN
    if event.number == 154 and event.action is not None:
        return Status.FAIL if event.action else Status.PASS
    return row.status or KINDS[row.kind].status


def _mended(active: Sequence[Event], gpu: Gpu) -> bool:
    numbers = {event.number for event in active}
    rows = gpu.numbers("nvmlDeviceGetRemappedRows")
    if gpu.by_field("GET_GPU_RECOVERY_ACTION") == 0:
        numbers.discard(154)  # it only says that the action changed, and none is asked for now
    if 63 not in numbers or not numbers <= ABOUT_MEMORY or isinstance(rows, Gap):
        return False
    return rows[2] == 0 and rows[3] == 0


def _counted(events: Sequence[Event]) -> str:
    """Each number once, worst first: ``Xid 64 row remapping failed, Xid 13 graphics engine exception (214 times)``."""
    xids = [event for event in events if event.what is What.XID]
    if not any(event.number == 79 for event in xids):  # which the driver tells a second time in other words
        xids = list(events)
    counts = Counter(_number(event) for event in xids)
    newest = {_number(event): event for event in xids}
    ranked = sorted(counts, key=lambda number: -_RANK[status_of(newest[number])])
    return ", ".join(_name(newest[number]) + _times(counts[number], newest[number].at) for number in ranked)


def _number(event: Event) -> int | None:
    return event.number if event.what is What.XID else 79


def _times(count: int, at: str | None) -> str:
    """``(3 times, the last Nov 24 03:12:44)``: how often, and when last, as far as the log says."""
    often = "" if count == 1 else f"{'at least ' * (count >= LINES_KEPT)}{count} times"
    last = at and (f"the last {at}" if often else f"at {at}")
    said = ", ".join(filter(None, (often, last)))
    return f" ({said})" if said else ""


def _name(event: Event) -> str:
    if event.what is What.FALLEN:
        return "the GPU has fallen off the bus"
    row = row_of(event)
    if row is None:
        return f"Xid {event.number}"
    word = KINDS[row.kind].word
    if event.action:
        word = f"the driver asks: {RECOVERY.get(event.action, _ACTION_UNKNOWN)[0]}"
    if row.kind == NVLINK5 and event.fatal is not None:
        word = "fatal" if event.fatal else "not fatal"
    return f"Xid {event.number} {row.name} [{word}]"


def _by(event: Event) -> str:
    row = row_of(event)
    if event.process is None or row is None or row.kind != APPLICATION:
        return ""
    return f" by {event.process}"


def sxid(scene: Scene) -> Judged:
    """Errors of the NVSwitches since the driver was loaded, from the kernel log and fabric manager's."""
    log = scene.node.kernel
    if not log.there and not scene.node.fabric_log:
        return
    if log.there and log.error is not None:
        text = f"the kernel log could not be read ({log.error}): errors of NVSwitches (SXid) are not known"
        if scene.node.switches:
            yield "host", unknown(text, fix=_CLOSED)
        return
    events = since_boot(log.events)
    loaded = max((at for at, event in enumerate(events) if event.what is What.LOAD), default=-1)
    mine = [event for event in (*events[loaded + 1 :], *scene.node.fabric_events) if event.what is What.SXID]
    if mine:
        yield "host", _switches(mine)
    elif scene.node.switches or scene.node.fabric_log:
        yield "host", passed("no error of an NVSwitch (SXid) since the driver was loaded", value=0, limit=0)


def _switches(events: Sequence[Event]) -> Outcome:
    counts = Counter((event.bdf, event.number) for event in events)
    worst = max(events, key=lambda event: _RANK[_sxid_status(event)])
    row = SXIDS.get(worst.number or 0)
    name = f" {row.name}" if row else ""
    grade = {True: "fatal", False: "non-fatal", None: "of unknown gravity"}[worst.fatal]
    text = (
        f"SXid {worst.number}{name} ({grade}) on the NVSwitch at {worst.bdf or 'an address that is not told'}"
    )
    if len(events) > 1:
        text += f"; {len(events)} errors of {len(counts)} kinds in all"
    cause = row.cause if row else "a number that this provcheck does not know"
    fix = row.fix if row else OTHERWISE[worst.fatal is not False]
    return Outcome(_sxid_status(worst), text, value=worst.number, cause=cause, fix=fix)


def _sxid_status(event: Event) -> Status:
    row = SXIDS.get(event.number or 0)
    if event.fatal is not False:
        return Status.FAIL
    return Status.PASS if row is not None and row.harmless else Status.WARN
