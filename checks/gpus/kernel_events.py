"""What the kernel log says of GPUs and NVSwitches, as events: Xid, SXid, resets, crashes. Pure.

The log may come as dmesg prints it (with or without times, -T, -x), from journalctl, or as records of /dev/kmsg.
``split`` and ``bare`` make one form of all of them; ``events`` reads that form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain, repeat

from checks.bdf import Bdf

_DATE = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_HEADS = (
    re.compile(r"^\d{1,4},\d+,\d+,[^;]{0,8}[^;]*;"),  # /dev/kmsg: prefix,sequence,microseconds,flags;text
    re.compile(r"^<\d+>"),
    re.compile(
        rf"^(?:kern|user|mail|daemon|auth|authpriv|syslog|cron|local\d)\s*:[a-z]+\s*:\s*(?:{_DATE}\s*|\[[^\]]*\]\s*)?"
    ),  # dmesg -x, --time-format
    re.compile(
        rf"^(?:\S{{1,12}} +\d+\.? \d\d:\d\d:\d\d(?:\.\d+)?|{_DATE}) \S+ kernel: ?"
    ),  # journalctl, syslog
    re.compile(rf"^{_DATE} "),
    re.compile(r"^\[[ 0-9]*\.\d+\](?:\s*\[[ TC]*\d+\])?\s?"),  # seconds since boot, perhaps the caller
    re.compile(r"^\[\S{1,12} \S{1,12} [ 0-9]\d \d\d:\d\d:\d\d \d{4}\]\s?"),  # dmesg -T, in any language
    re.compile(r"^\[(?:[A-Z][a-z]{2} *\d+ \d\d:\d\d| *\+\d+\.\d+)\]\s?"),  # dmesg -H
    re.compile(r"^[\w.-]{1,64} kernel: "),  # journalctl -o short-monotonic, its time already gone
)
_ANYBODYS = re.compile(rf"^{_DATE} (?!\S+ kernel: )")
"""A date alone heads the lines of every program's log; of dmesg --time-format iso it is known by what the lines say."""
_FOREIGN_HEAD = re.compile(r"^.{1,200}?(?=NVRM: |nvidia-nvswitch\d*: SXid \()")
"""What else stands before the driver's own words: months and days of another language, a host's or a collector's
name, the marks of a quotation."""
_WRITTEN_BREAK = re.compile(r"\\(?:n|x0a)\s*(?=NVRM: )")
_ADDRESS = r"(?:PCI:)?((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?)"
_PLACE = rf"(?:{_ADDRESS}[^)]*|[^)]*)"  # one that is not understood hides no error
_XID = re.compile(rf"NVRM: Xid \({_PLACE}\):\s*(\d{{1,5}})\b,?\s*(.*)", re.IGNORECASE)
_SXID = re.compile(rf"nvidia-nvswitch\d*: SXid \({_PLACE}\):\s*(\d{{1,5}})\b,?\s*(.*)", re.IGNORECASE)
_FALLEN = re.compile(
    r"NVRM:(?:.*\b([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?)\b)?.*fallen off the bus", re.I
)
_SWITCH = re.compile(
    rf"detected NVSwitch (non-fatal|fatal) error (\d{{1,5}}) .*?pci(?: bus id)? {_ADDRESS}(.*)", re.IGNORECASE
)
_ACTION = re.compile(r"recovery action changed from .* to (?:0x)?([0-9a-f]{1,4})\b", re.IGNORECASE)
_PROCESS = re.compile(r"name=([^,]+?)(?:,|$)")
_NONFATAL = re.compile(r"\bnon-?fatal\b|\bSeverity 0\b", re.I)
_FATAL = re.compile(r"\bfatal\b|\bSeverity [1-9]", re.I)
_REST = re.compile(r"Data \{|Severity \d+ Engine instance")
"""Second and third line of an SXid: its severity again as a number, and its registers."""
_BOOT = re.compile(r"^Linux version \d|^-- (?:Reboot|Boot [0-9a-f]+) --$")
_START = re.compile(r"nvidia-nvlink: Nvlink Core is being initialized")
_LOAD = re.compile(r"NVRM: loading NVIDIA UNIX")
_RESET = re.compile(
    r"\b(?:nvidia|vfio-pci|pci) ([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): reset done\b", re.I
)
_AER = (
    re.compile(
        r"AER: (?:Multiple )?Uncorrect(?:ed|able) \((?P<word>Non-?Fatal|Fatal)\) error (?:message )?received"
        rf"(?: from|:) (?P<at>{_ADDRESS})",
        re.I,
    ),
    re.compile(
        r"(?P<at>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): (?:AER: )?PCIe Bus Error: .*"
        r"severity=Uncorrect(?:ed|able) \((?P<word>Non-?Fatal|Fatal)\)",
        re.I,
    ),
)
"""drivers/pci/pcie/aer.c of Linux: what a port received, and what the device itself said."""
_NCCL = re.compile(r"segfault at .* in libnccl\.so|traps: .* in libnccl\.so")
_PEERMEM = re.compile(r"nvidia-peermem .*invalid context", re.IGNORECASE)
_PROBE = re.compile(r"NVRM: The NVIDIA probe routine failed")
_DRIVER = re.compile(r"NVRM: |^nvidia[\w-]*:? |\[nvidia-drm\]|\bnvidia [0-9a-f]{4}:[0-9a-f]{2}:", re.I)
_HOST = re.compile(
    rf"^(?:\S{{1,12}} +\d+\.? \d\d:\d\d:\d\d(?:\.\d+)?|{_DATE}|\[ *\d+\.\d+\]) (\S+) kernel:(?: |$)"
)
_NO_HOST = frozenset({"localhost", "(none)"})
"""What stands there before a machine has its name."""
_SPEAKS = re.compile(
    r"^(?:NVRM|nvidia(?:-nvswitch\d*|-nvlink|-uvm|-modeset)?): |^nvidia-peermem "
    r"|^\w+ [0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]: "
)


class What(Enum):
    XID = "Xid"
    SXID = "SXid"
    FALLEN = "fallen off the bus"
    BOOT = "boot"
    LOAD = "driver loaded"
    RESET = "reset"
    NCCL = "crash in NCCL"
    PEERMEM = "nvidia-peermem"
    PROBE = "probe failed"
    AER = "PCIe error"


@dataclass(frozen=True)
class Event:
    """``fatal``: what the text says, None when it does not. ``process`` None: not said. ``bdf`` None: not told, or not
    understood."""

    what: What
    line: str
    bdf: Bdf | None = None
    number: int | None = None
    process: str | None = None
    fatal: bool | None = None
    at: str | None = None
    """When, in words, as far as the log has times."""

    @property
    def action(self) -> int | None:
        """Of Xid 154: the recovery that is asked for now, as NVML numbers it; 0: none any more."""
        found = _ACTION.search(self.line) if self.number == 154 else None
        return int(found[1], 16) if found else None


def split(text: str) -> list[str]:
    """The lines of a log, times and all. Breaks written as ``\\n`` or ``\\x0a`` are breaks again; what continues a
    /dev/kmsg record (a leading space: SUBSYSTEM=, DEVICE=) is left out."""
    found: list[str] = []
    records = False
    for raw in _WRITTEN_BREAK.sub("\n", text).splitlines():
        line = raw.rstrip()
        records = records or _HEADS[0].match(line) is not None
        if line and not (records and raw.startswith(" ") and "NVRM: " not in raw):
            found.append(line)
    return found


def timed(line: str) -> bool:
    """Does the line begin with a time, a level or a host, as the first line of a message does?"""
    return any(head.match(line) for head in _HEADS)


_WHEN = (
    re.compile(rf"^(?:\S+\s*:\S+\s*: *)?({_DATE})"),
    re.compile(r"^(\S{1,12} +\d+\.? \d\d:\d\d:\d\d)(?:\.\d+)? "),
    re.compile(r"^(?:\S+\s*:\S+\s*: *)?(?:<\d+>)?\[(\S{1,12} \S{1,12} [ 0-9]\d \d\d:\d\d:\d\d \d{4})\]"),
    re.compile(r"^\[([A-Z][a-z]{2} *\d+ \d\d:\d\d)\]"),
)
_SECONDS = re.compile(r"^(?:\S+\s*:\S+\s*: *)?(?:<\d+>)?\[ *(\d{1,12}\.\d)\d*\]")
_MICROSECONDS = re.compile(r"^\d{1,4},\d+,(\d{1,18}),[^;]*;")


def when(line: str) -> str | None:
    """The time of a line of a log in words: ``Nov 24 03:12:44``, ``1234.5 s after boot``; None without one."""
    for form in _WHEN:
        if found := form.match(line):
            return found[1]
    if found := _SECONDS.match(line):
        return f"{found[1]} s after boot"
    found = _MICROSECONDS.match(line)
    return f"{int(found[1]) / 1e6:.1f} s after boot" if found else None


def bare(line: str) -> str:
    """One message without level, time and host."""
    for _ in range(3):
        for head in _HEADS:
            shorter = head.sub("", line, count=1)
            if shorter != line:
                line = shorter
                break
        else:
            break
    return _FOREIGN_HEAD.sub("", line, count=1)


def speaks(line: str) -> bool:
    """Does a line speak in the driver's name, or tell an event?"""
    message = bare(line)
    return _SPEAKS.match(message) is not None or any(events([message]))


def is_kernel_log(text: str) -> bool:
    """Does a line speak in the driver's name, or do most lines bear the kernel's times?"""
    found = split(text)
    if any(map(speaks, found)):
        return True
    return bool(found) and 2 * sum(timed(line) and not _ANYBODYS.match(line) for line in found) > len(found)


def events(messages: Iterable[str], times: Iterable[str | None] = ()) -> Iterator[Event]:
    """The events of messages as ``kernlog.read`` gives them, in order; ``times``: of each message, where known."""
    last: Event | None = None
    for line, at in zip(messages, chain(times, repeat(None))):  # noqa: B905, the times have no end
        event = _event(line)
        if event is None or (last is not None and _goes_on(last, event)):
            continue
        last = event if at is None else replace(event, at=at)
        yield last


def since_boot(found: Sequence[Event]) -> list[Event]:
    """Those of the newest boot."""
    last = max((at for at, event in enumerate(found) if event.what is What.BOOT), default=-1)
    return list(found[last + 1 :])


def since_start(lines: Sequence[str]) -> Sequence[str]:
    """The lines since the driver's module began to start for the last time, or since the boot."""
    return lines[max((at for at, line in enumerate(lines) if opens(line)), default=0) :]


def opens(line: str) -> bool:
    """Does the module begin to start here, or the boot?"""
    return _START.search(line) is not None or _BOOT.search(line) is not None


def mentions(line: str) -> bool:
    """Does a line of a log speak of NVIDIA's driver? A kernel's own name may have the word in it."""
    message = bare(line)
    return _BOOT.search(message) is None and _DRIVER.search(message) is not None


def host(line: str) -> str | None:
    """The machine that a line of journalctl or syslog names, without its domain; None where it names none."""
    found = _HOST.match(line)
    name = found[1].lower() if found else ""
    if not name or name in _NO_HOST:
        return None
    return name if name.replace(".", "").isdecimal() else name.partition(".")[0]


def _goes_on(last: Event, event: Event) -> bool:
    """Whether it is the second or third line of the SXid before it."""
    same = (last.what, last.bdf, last.number) == (What.SXID, event.bdf, event.number)
    return same and event.what is What.SXID and _REST.search(event.line) is not None


def _event(line: str) -> Event | None:
    if found := _XID.search(line):
        process = _PROCESS.search(found[3])
        name = process[1].strip("'\" ") if process else None
        known = name if name and name != "<unknown>" else None
        return Event(What.XID, line, _bdf(found[1]), int(found[2]), known, _fatal(found[3]))
    if found := _SXID.search(line):
        return Event(What.SXID, line, _bdf(found[1]), int(found[2]), None, _fatal(found[3]))
    if found := _SWITCH.search(line):
        return Event(What.SXID, line, _bdf(found[3]), int(found[2]), None, found[1].lower() == "fatal")
    if found := _FALLEN.search(line):
        return Event(What.FALLEN, line, _bdf(found[1]))
    if found := _RESET.search(line):
        return Event(What.RESET, line, _bdf(found[1]))
    for form in _AER:
        if found := form.search(line):
            return Event(What.AER, line, _bdf(found["at"]), fatal=found["word"].lower() == "fatal")
    plain = (
        (_BOOT, What.BOOT),
        (_LOAD, What.LOAD),
        (_NCCL, What.NCCL),
        (_PEERMEM, What.PEERMEM),
        (_PROBE, What.PROBE),
    )
    return next((Event(what, line) for pattern, what in plain if pattern.search(line)), None)


def _fatal(text: str) -> bool | None:
    if _NONFATAL.search(text):
        return False
    return True if _FATAL.search(text) else None


def _bdf(text: str | None) -> Bdf | None:
    """Without a domain it is in the first."""
    if text is None:
        return None
    try:
        return Bdf.parse(text if text.count(":") == 2 else f"0000:{text}")
    except ValueError:
        return None
