"""The report at the end of ``provision demo``: a typed value in, text out. Pure.

Nothing is claimed that the value does not show: a part that was not reached says "not shown", and what rests on
a replayed record says REPLAYED wherever it appears.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from provision.run.errors import EXIT_ERROR, EXITS_TOLD

SHOWN, WRONG, NOT_SHOWN = "shown", "WRONG", "not shown"
_COLOURS = {SHOWN: "green", WRONG: "red", NOT_SHOWN: "yellow"}


@dataclass(frozen=True)
class Timed:
    """One step with the seconds that it took; ``note`` for example "from the cache"."""

    title: str
    seconds: float
    note: str = ""


@dataclass(frozen=True)
class GpuSeen:
    """A GPU before and after: what held it at boot, then its driver, its device node inside the container."""

    bdf: str
    locked_by: tuple[str, ...]
    driver: str | None = None
    node: str | None = None


@dataclass(frozen=True)
class GateSeen:
    """A verdict of the gate. ``evidence`` is provcheck's: live or replayed; ``kernel`` the line that it quoted."""

    verdict: str
    evidence: str
    kernel: str | None = None

    def __str__(self) -> str:
        return f"REPLAYED ({self.verdict})" if self.evidence == "replayed" else self.verdict


@dataclass(frozen=True)
class Demo:
    """All that the demonstration saw. None, or empty: it did not get so far.

    ``boot_seconds`` is the first boot of the virtual host, the measure of this machine; ``pin`` the driver that
    the inventory asks for, ``driver`` what /proc/driver/nvidia/version says. ``exit_code`` is the demonstration's,
    ``stopped`` why it ended early. An interrupted one was cut in the middle: what is not yet as it must be is not
    wrong.
    """

    steps: tuple[Timed, ...]
    boot_seconds: float | None = None
    gpus: tuple[GpuSeen, ...] = ()
    pin: str | None = None
    driver: str | None = None
    live_gate: GateSeen | None = None
    gate: GateSeen | None = None
    answer: str | None = None
    second_run_changes: int | None = None
    exit_code: int = 0
    stopped: str | None = None


class Claim(NamedTuple):
    """``state`` is SHOWN, WRONG or NOT_SHOWN; ``seen`` says what it rests on."""

    what: str
    seen: str
    state: str


def claims(demo: Demo) -> tuple[Claim, ...]:
    """What the demonstration is for, part by part, in the order of the runbook."""
    cut = demo.exit_code in EXITS_TOLD
    return tuple(
        claim._replace(state=NOT_SHOWN) if cut and claim.state == WRONG else claim for claim in _claims(demo)
    )


def complete(demo: Demo) -> bool:
    """Did everything end as it must, and was all of it shown?"""
    return demo.exit_code == 0 and all(claim.state == SHOWN for claim in claims(demo))


def ends_with(demo: Demo) -> int:
    """The exit code that was told, or 1 when all ended with 0 and not all of it was shown."""
    return demo.exit_code if demo.exit_code or complete(demo) else EXIT_ERROR


def _claims(demo: Demo) -> Iterator[Claim]:
    if not demo.gpus:
        yield Claim("GPUs locked, then released", "", NOT_SHOWN)
    for gpu in demo.gpus:
        locked = ", ".join(gpu.locked_by)
        yield _claim(f"{gpu.bdf} was locked", locked and f"by {locked}", bool(locked))
        seen = gpu.driver and f"driver {gpu.driver}, {gpu.node or 'no device node'} in the container"
        yield _claim(f"{gpu.bdf} is released", seen, gpu.driver == "nvidia" and gpu.node is not None)
    seen = demo.driver and f"{demo.driver}, wanted {demo.pin or 'nothing'}"
    yield _claim("driver as pinned", seen, demo.driver == demo.pin)
    live = demo.live_gate
    seen = f"{live}; the kernel: {live.kernel or 'not quoted'}" if live else None
    red = live is not None and (live.evidence, live.verdict) == ("live", "fail") and bool(live.kernel)
    yield _claim("an honest gate refuses GPUs without silicon", seen, red)
    green = demo.gate is not None and demo.gate.verdict in ("pass", "warn")
    yield _claim("gate of the service", str(demo.gate) if demo.gate else None, green)
    yield _claim("the service answers", demo.answer and repr(demo.answer), bool(demo.answer))
    count = demo.second_run_changes
    yield _claim("a second run changes nothing", None if count is None else f"{count} changes", count == 0)


def _claim(what: str, seen: str | None, well: bool) -> Claim:
    return Claim(what, seen or "", (SHOWN if well else WRONG) if seen else NOT_SHOWN)


def render(demo: Demo, *, width: int = 110, colour: bool = False) -> str:
    """The report as text of at most ``width`` columns, with terminal colours when asked."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    out = io.StringIO()
    console = Console(
        file=out, width=width, force_terminal=colour, color_system="standard" if colour else None
    )
    steps = Table("step", box=None, pad_edge=False, show_edge=False, title="report", title_justify="left")
    steps.add_column("seconds", justify="right")
    steps.add_column("of a boot", justify="right")
    steps.add_column("")
    for step in demo.steps:
        steps.add_row(
            Text(step.title), f"{step.seconds:.1f}", _ratio(step.seconds, demo.boot_seconds), Text(step.note)
        )
    total = sum(step.seconds for step in demo.steps)
    steps.add_row("all", f"{total:.1f}", _ratio(total, demo.boot_seconds), style="bold")
    console.print(steps)
    console.print()
    seen = Table(box=None, pad_edge=False, show_edge=False, show_header=False)
    for claim in claims(demo):
        seen.add_row(Text(claim.state, style=_COLOURS[claim.state]), Text(claim.what), Text(claim.seen))
    console.print(seen)
    console.print()
    console.print(Text(_end(demo), style="green" if complete(demo) else "red"))
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def _ratio(seconds: float, boot: float | None) -> str:
    return f"{seconds / boot:.2f}" if boot else "-"


def _end(demo: Demo) -> str:
    if complete(demo):
        replayed = demo.gate is not None and demo.gate.evidence == "replayed"
        rest = "; the service's gate judged a composed record: REPLAYED" if replayed else ""
        return f"everything was shown{rest}"
    lacking = [claim.what for claim in claims(demo) if claim.state != SHOWN]
    if demo.exit_code in EXITS_TOLD:
        return f"interrupted; not shown: {', '.join(lacking)}" if lacking else "interrupted"
    parts = f"not shown or wrong: {', '.join(lacking)}"
    if demo.exit_code == 0:
        return f"every part ended well, but not all was seen, so this ends with {ends_with(demo)}: {parts}"
    why = f": {demo.stopped}" if demo.stopped else ""
    return f"ended with {demo.exit_code}{why}" + (f"; {parts}" if lacking else "")
