"""Could a GPU be released while the machine runs, or does it take a reboot, by the rows that the plan uses. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from checks.snapshot import CouldNotLook
from provision.host import boot, view
from provision.host.release.reasons import ROWS
from provision.host.release.reasons import Look as Rows
from provision.inspect.functions import Function
from provision.inspect.look import Look
from provision.inspect.report import Way

T = TypeVar("T")

_NEEDED = (
    "command line",
    "kernel",
    "modules",
    "openers",
    "console",
    "kernel log",
)


def evidence(look: Look, pinned: tuple[str, str] | None) -> tuple[Rows, tuple[str, ...]]:
    """What the rows look at, and what of it is missing."""
    missing: list[str] = []

    def part(name: str, value: T | None, empty: T) -> T:
        if value is None:
            missing.append(name)
            return empty
        return value

    snapshot, ask = look.snapshot, look.attempt
    rows = Rows(
        part(_NEEDED[0], ask("running command line", lambda: look.needed("/proc/cmdline")), ""),
        part(_NEEDED[1], ask("running kernel", lambda: boot.running_kernel(snapshot)), "?"),
        ask("kernels with modules", lambda: boot.module_trees(snapshot)) or ("?",),
        part(_NEEDED[2], ask("loaded modules", lambda: boot.modules(snapshot)), {}),
        part(_NEEDED[3], ask("open device files", lambda: boot.openers(snapshot)), ()),
        look.attempt("framebuffers", lambda: look.text("/proc/fb")) or "",
        part(_NEEDED[5], ask("kernel log", lambda: boot.kernel_log(snapshot)), ()),
        ask("loaded driver", lambda: view.driver(snapshot)),
        pinned,
    )
    return rows, tuple(missing)


def way(rows: Rows, missing: Sequence[str], gpu: Function, users: Sequence[str]) -> Way:
    """The answer for one GPU."""
    if gpu.driver == "nvidia":
        return Way("nothing")
    lacking = list(missing)
    if gpu.seen is None:
        lacking.append("sysfs")
    pci = gpu.as_pci()
    found: list[tuple[str, dict[str, str]]] = []
    for row in ROWS:
        try:
            text = row.seen(rows, pci)
        except (CouldNotLook, ValueError):
            text = None
        if text:
            told = {"row": row.id, "seen": text, "why": row.why, "next": row.next_step, "source": row.source}
            found.append((row.outcome, told))
    reasons = tuple(told for _, told in found)
    if any(outcome == "refuse" for outcome, _ in found) or users:
        used = tuple(
            {
                "row": "in-use",
                "seen": user,
                "why": "who uses it would lose it, and the unbind would wait without end",
                "next": "end what uses it, then look again",
                "source": "kernel, drivers/vfio/vfio_main.c",
            }
            for user in users
        )
        return Way("refused", (*used, *reasons), tuple(lacking))
    if found:
        return Way("reboot", reasons, tuple(lacking))
    return Way("unknown" if lacking or gpu.driver is None else "online", (), tuple(lacking))
