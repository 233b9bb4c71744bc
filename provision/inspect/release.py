"""Could a GPU be released while the machine runs, or does it take a reboot, by the rows that the plan uses. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from checks.snapshot import CouldNotLook
from provision.host import boot
from provision.host.release.reasons import ROWS
from provision.host.release.reasons import Look as Rows
from provision.host.vms import VmReference
from provision.inspect import guests
from provision.inspect.functions import Function
from provision.inspect.report import NONE, Way
from provision.inspect.seen import Seen

T = TypeVar("T")


@dataclass(frozen=True)
class Places:
    """What could hold the GPU and was not looked at: files that are there, and kinds that a tree says nothing of."""

    unread: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()


_EVERYWHERE = Places()


def evidence(seen: Seen, pinned: tuple[str, str] | None) -> tuple[Rows, tuple[str, ...]]:
    """What the rows look at, and what of it is missing."""
    look = seen.look
    snapshot, ask = look.snapshot, look.attempt
    missing: list[str] = []

    def part(name: str, value: T | None, empty: T) -> T:
        if value is None:
            missing.append(name)
            return empty
        return value

    if not seen.all_openers:
        missing.append("open device files")
    loaded = seen.loaded
    rows = Rows(
        part("running command line", ask("running command line", lambda: look.needed("/proc/cmdline")), ""),
        part("running kernel", ask("running kernel", lambda: boot.running_kernel(snapshot)), "?"),
        ask("kernels with modules", lambda: boot.module_trees(snapshot)) or ("?",),
        part("loaded modules", dict(seen.modules) if seen.modules is not None else None, {}),
        seen.openers,
        look.attempt("framebuffers", lambda: look.text("/proc/fb") or "") or "",
        part("kernel log", ask("kernel log", lambda: boot.kernel_log(snapshot)), ()),
        (loaded.version, loaded.flavour) if loaded is not None and loaded.version != NONE else None,
        pinned,
    )
    return rows, tuple(missing)


def way(
    rows: Rows,
    missing: Sequence[str],
    gpu: Function,
    users: Sequence[str],
    taking: Sequence[VmReference],
    places: Places = _EVERYWHERE,
) -> Way:
    """The answer for one GPU; ``taking``: the virtual machines whose start would take it."""
    if gpu.driver == "nvidia":
        machines = [one for one in missing if one.startswith("virtual machines")]
        return Way(
            "unknown" if places.unread else "nothing",
            (),
            tuple(dict.fromkeys((*machines, *places.unread, *places.kinds))),
        )
    lacking = list(dict.fromkeys((*missing, *places.unread, *places.kinds)))
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
    defined = tuple(
        {
            "row": "vm-definition",
            "seen": f"{one.where}: {one.text.strip()}",
            "why": guests.meaning(one),
            "next": guests.next_step(one),
            "source": "qemu-server, PVE/QemuServer/PCI.pm",
        }
        for one in taking
    )
    if any(outcome == "refuse" for outcome, _ in found) or users or defined:
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
        return Way("refused", (*used, *defined, *reasons), tuple(lacking))
    if found:
        return Way("reboot", reasons, tuple(lacking))
    return Way("unknown" if lacking or gpu.driver is None else "online", (), tuple(lacking))
