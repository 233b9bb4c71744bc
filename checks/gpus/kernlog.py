"""The kernel log, as far as it speaks of NVIDIA's driver: read, kept in a record, and asked about one GPU.

``look`` observes; everything else is pure. The log is read by klogctl, else from /dev/kmsg: a container may
have the one or the other.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from checks.bdf import Bdf
from checks.data.driver_lines import MISMATCH, MODULE_VERSION
from checks.data.kernel_lines import KERNEL_LINES, KernelLine
from checks.gpus import kernel_events
from checks.gpus.kernel_events import Event
from checks.record import Section

KIND, PATH = "log", "kernel"
SILENT = "it does not mention NVIDIA's driver"
"""What a section says, beside its lines, of a saved log that is no evidence for a GPU without an Xid."""
LINES_KEPT, EVENTS_KEPT = 500, 100
_LINES_READ, _LINE = 4000, 1000  # of a record that somebody else made
_READ_ALL, _SIZE = 3, 10  # syslog(2)
_BUFFER_LIMIT = 16 << 20
_OURS = re.compile(
    r"NVRM|nvidia|D3cold|BAR\d is 0M|(?:AER|PCIe Bus Error): .*Uncorrect|unsigned module|in libnccl\.so"
    r"|\bLinux version \d|: reset done|^-- (?:Boot|Reboot)",
    re.IGNORECASE,
)
_LEVEL = re.compile(r"^<\d+>")
_SECRET = (
    (re.compile(r"(serial(?: number)?\s*[:=]\s*)\S+", re.IGNORECASE), r"\1removed"),
    (re.compile(r"\bGPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "GPU-removed"),
)
_ADDRESS = re.compile(r"\b([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2})(?:\.([0-7]))?\b", re.IGNORECASE)
_BROKEN = re.compile(r"NVRM: The NVIDIA GPU [0-9a-f:.]+(?: \(PCI ID: [0-9a-f:]+\))?$", re.IGNORECASE)
_OPENS = re.compile(r"NVRM: (?:Xid \(|GPU |loading |The NVIDIA )")
_LAST_WORD = re.compile(r"rm_init_adapter failed")


def look(read: Callable[[], str] | None = None) -> Section:
    """The lines about NVIDIA's driver, without serial numbers. Never raises: what cannot be read says why."""
    try:
        text = (read or _read)()
    except OSError as error:
        return Section(KIND, PATH, None, error.strerror or str(error))
    kept = few([_LEVEL.sub("", line) for line in text.splitlines() if _OURS.search(line)])
    for pattern, instead in _SECRET:
        kept = [pattern.sub(instead, line) for line in kept]
    return Section(KIND, PATH, "".join(f"{line[:500]}\n" for line in kept).encode())


def concerns(line: str) -> bool:
    """Is this line of any log one that is kept?"""
    return _OURS.search(line) is not None


def few(lines: list[str]) -> list[str]:
    """The newest lines, and of the older ones the last of each event: a storm must not push out another error."""
    older = [kernel_events.bare(line) for line in lines[:-LINES_KEPT]]
    last = {
        (e.what, e.bdf, e.number): at for at, line in enumerate(older) for e in kernel_events.events([line])
    }
    return [lines[at] for at in sorted(last.values())[-EVENTS_KEPT:]] + lines[-LINES_KEPT:]


def _read() -> str:
    try:
        return _klogctl()
    except OSError as error:
        try:
            return _kmsg()
        except OSError:
            raise error from None


def _klogctl() -> str:
    try:
        call = ctypes.CDLL(None, use_errno=True).klogctl
    except (AttributeError, OSError):
        raise OSError(None, "this C library has no klogctl") from None

    def ask(action: int, buffer: object, size: int) -> int:
        done = int(call(action, buffer, size))
        if done < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return done

    size = min(max(ask(_SIZE, None, 0), 1 << 16), _BUFFER_LIMIT)
    buffer = ctypes.create_string_buffer(size)
    filled = ask(_READ_ALL, buffer, size)  # before the copy that .raw makes
    return buffer.raw[:filled].decode(errors="replace")


def _kmsg() -> str:
    """Every message now in the ring, in the form of dmesg. Each read gives one."""
    handle = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    found: list[str] = []
    try:
        for _ in range(1 << 18):
            try:
                message = os.read(handle, 8192).decode(errors="replace")
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # overwritten before it was read
            head, _, text = message.partition(";")
            micro = head.split(",")[2:3] or ["0"]
            found.append(f"[{int(micro[0]) / 1e6:12.6f}] {text.splitlines()[0] if text else ''}")
    finally:
        os.close(handle)
    return "\n".join(found)


@dataclass(frozen=True)
class Story:
    """Why a GPU does not start: the row that explains it, and the kernel's own lines (one or two)."""

    row: KernelLine
    lines: tuple[str, ...]

    @property
    def quoted(self) -> str:
        return " / ".join(f'"{line}"' for line in self.lines)


@dataclass(frozen=True)
class KernelLog:
    """``lines`` without times, broken ones joined; ``events`` in their order. ``error``: why it could not be read.
    ``there`` is False when the log is no part of the evidence."""

    lines: tuple[str, ...] = ()
    error: str | None = None
    events: tuple[Event, ...] = ()
    there: bool = True
    silent: bool = False
    """A saved log that does not mention NVIDIA's driver: nothing follows from the Xid that it does not have."""

    @property
    def recent(self) -> Sequence[str]:
        """The lines since the driver's module was last started, or since the boot."""
        return kernel_events.since_start(self.lines)

    @property
    def refused(self) -> tuple[str, str] | None:
        """The versions of a library and of the module that turned it away, as told last: API mismatch."""
        for at, line in reversed(list(enumerate(self.recent))):
            if found := re.search(MISMATCH, line):
                module = re.search(MODULE_VERSION, " ".join(self.recent[at : at + 3]).replace("NVRM: ", ""))
                return found[1], module[1] if module else "of another version"
        return None

    def stories(self) -> dict[Bdf | None, Story]:
        """What went wrong since the driver's last start, by GPU; None: the log does not say which. Without those that
        fell off the bus, which are told as such."""
        found: dict[Bdf | None, Story] = {}
        for burst in _bursts(self.recent):
            story = _story([line for line in burst if re.search(r"NVRM|nvidia|BAR\d is 0M", line)])
            if story is not None and story.row.name != "off-the-bus":
                found[_of(burst)] = story
        return found

    def about(self, bdf: Bdf) -> Story | None:
        """The last thing that went wrong with this GPU.

        The driver says much of it without an address, just before the line that has one; so lines are taken in
        bursts, each of which belongs to the GPU that it names.
        """
        for burst in reversed(list(_bursts(self.lines))):
            if _of(burst) == bdf and (story := _story(burst)) is not None:
                return story
        return None


def parse(section: Section | None) -> KernelLog:
    if section is None:
        return KernelLog(error="it is not in the evidence", there=False)
    if section.data is None:
        return KernelLog(error=section.error or "there is none")
    return replace(read(section.data.decode(errors="replace")), silent=section.error == SILENT)


def read(text: str) -> KernelLog:
    """The kernel log as dmesg or journalctl prints it, or as records of /dev/kmsg; with or without times. A message
    that the driver broke over several lines is one again."""
    whole = _by_time([line[:_LINE] for line in kernel_events.split(text)[-_LINES_READ:]])
    pairs = list(_joined((kernel_events.when(line), kernel_events.bare(line).rstrip()) for line in whole))
    lines = tuple(line for _, line in pairs)
    return KernelLog(lines, events=tuple(kernel_events.events(lines, [at for at, _ in pairs])))


def _by_time(lines: Sequence[str]) -> list[str]:
    """Only the first line of a message has a time, where the log has any."""
    whole: list[str] = []
    timed = any(map(kernel_events.timed, lines))
    for line in lines:
        if (
            whole
            and timed
            and not kernel_events.timed(line)
            and len(whole[-1]) < _LINE
            and _goes_on(whole[-1], line)
            and line.lstrip().startswith("NVRM: ")
        ):
            whole[-1] += f" {line.strip().removeprefix('NVRM: ')}"
        else:
            whole.append(line)
    return whole


def _goes_on(before: str, line: str) -> bool:
    """Lines from several sources may lack times here and there: one that opens a story of its own is no rest."""
    return not _OPENS.search(line) and not before.rstrip().endswith(".")


_Timed = tuple[str | None, str]


def _joined(lines: Iterator[_Timed]) -> Iterator[_Timed]:
    """Without such times, or with one on every line: a message that names a GPU goes on up to its full stop. A message
    has the time of its first line."""
    whole, parts = "", 0
    since: str | None = None
    for at, line in lines:
        if whole and parts < 5 and line.lstrip().startswith("NVRM: ") and not _ADDRESS.search(line):
            whole, parts = f"{whole} {line.lstrip().removeprefix('NVRM: ').strip()}", parts + 1
            if whole.endswith("."):
                yield since, whole
                whole = ""
            continue
        if whole:
            yield since, whole
            whole = ""
        if _BROKEN.search(line):
            whole, parts, since = line, 0, at
        else:
            yield at, line
    if whole:
        yield since, whole


def _addressed(line: str) -> Bdf | None:
    found = _ADDRESS.search(line)
    try:
        return Bdf.parse(f"{found[1]}.{found[2] or 0}") if found else None
    except ValueError:
        return None


def _bursts(lines: Sequence[str]) -> Iterator[list[str]]:
    burst: list[str] = []
    owner: Bdf | None = None
    for line in lines:
        here = _addressed(line)
        if owner is not None and here is not None and here != owner:
            yield burst
            burst, owner = [], None
        burst.append(line)
        owner = owner or here
        if _LAST_WORD.search(line):
            yield burst
            burst, owner = [], None
    yield burst


def _of(burst: Sequence[str]) -> Bdf | None:
    return next(filter(None, map(_addressed, burst)), None)


def _story(burst: Sequence[str]) -> Story | None:
    for row in KERNEL_LINES:
        telling = next((line for line in reversed(burst) if re.search(row.pattern, line)), None)
        if telling is not None:
            end = next((line for line in reversed(burst) if "RmInitAdapter failed!" in line), telling)
            return Story(row, tuple(dict.fromkeys((telling, end))))
    return None
