"""What an operator sees of an inspection: the machine, then each GPU with what holds it and what fits it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from provision.inspect.report import UNKNOWN, Finding, GpuReport, Held, Report
from provision.inspect.show_host import lines
from provision.printable import escape, printable

_KINDS = {"problem": "red", "warning": "yellow", "note": "cyan"}


def show(reports: Sequence[Report], console: Console | None = None) -> None:
    """Machine by machine, on the standard output."""
    out = console or Console(highlight=False)
    for report in reports:
        _machine(out, report)


def _machine(out: Console, report: Report) -> None:
    other = report.tree_of not in (None, report.machine)
    tree = (
        f", read from a tree of {'a machine without a name' if report.tree_of == UNKNOWN else report.tree_of}"
    )
    out.print(f"[bold]{escape(report.machine)}[/]{escape(tree) if other else ''}")
    _rows(out, lines(report.host), 2)
    if report.gpus is None:
        _rows(out, [("GPUs", "unknown")], 2)
    elif not report.gpus:
        _rows(out, [("GPUs", "no NVIDIA GPU")], 2)
    before = None
    for gpu in report.gpus or ():
        out.print(f"\n  [bold]GPU {escape(gpu.bdf)}[/]  {escape(gpu.model)}, {escape(gpu.architecture)}")
        _rows(out, _gpu(gpu, before), 4)
        before = gpu
    shown = {id(held) for gpu in report.gpus or () for held in gpu.holders}
    rest = [row for held in report.holders if id(held) not in shown for row in _held(held)]
    if rest and not report.gpus:
        _rows(out, rest, 2)
    told = {(held.path, held.line) for gpu in report.gpus or () for held in gpu.holders}
    # What is told at a GPU is not told again.
    findings = [one for one in report.findings if not (one.kind == "note" and _place(one) in told)]
    if findings:
        out.print()
        _rows(out, (row for finding in findings for row in _finding(finding)), 2)
    if report.unknown:
        out.print("\n  [yellow]could not be told[/]")
        _rows(out, report.unknown.items(), 4)


def _place(finding: Finding) -> tuple[str, int] | None:
    path, _, number = finding.subject.partition(": ")[0].rpartition(":")
    return (path, int(number)) if number.isdecimal() else None


def _rows(out: Console, rows: Iterable[tuple[str, str]], indent: int) -> None:
    """Heading and text side by side, a heading said once. On a terminal a long text goes on below itself; elsewhere a
    line stays one, for grep."""
    if not out.is_terminal:
        _plainly(out, list(rows), indent)
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    last = None
    for heading, text in rows:
        colour = {**_KINDS, "in use": "red"}.get(heading, "dim")
        table.add_row("" if heading == last else f"[{colour}]{escape(heading)}[/]", escape(text))
        last = heading
    if table.row_count:
        out.print(Padding(table, (0, 0, 0, indent)))


def _plainly(out: Console, rows: Sequence[tuple[str, str]], indent: int) -> None:
    width = max((len(heading) for heading, _ in rows), default=0)
    for heading, text in rows:
        out.print(f"{'':{indent}}{heading:<{width}}  {printable(text)}", markup=False, soft_wrap=True)


def _gpu(gpu: GpuReport, before: GpuReport | None) -> Iterator[tuple[str, str]]:
    minor = f", /dev/nvidia{gpu.minor}" if gpu.minor.isdecimal() else ""
    yield "driver", f"{gpu.driver}, IOMMU group {gpu.group}{minor}"
    for part in gpu.companions:
        kind = "bridge, never touched" if part["bridge"] else part["class"]
        yield "with", f"{part['bdf']} {kind}, driver {part['driver']}"
    if gpu.console not in ("none", "unknown"):
        yield "console", gpu.console
    for container in gpu.containers:
        yield "passed to", container
    for held in gpu.holders:
        yield from _held(held)
    if gpu.holders_not_looked_at:
        yield "not looked at", ", ".join(gpu.holders_not_looked_at)
    for user in gpu.used_by:
        yield "in use", user
    if not gpu.used_by:
        unseen = ", ".join(gpu.use_not_looked_at)
        yield "use", f"unknown: {unseen} not looked at" if unseen else "nobody uses it"
    yield "release", _release(gpu)
    for reason in gpu.release.reasons:
        yield "release", f"{reason['seen']}; {reason['why']}"
    more = [one for one in gpu.release.not_looked_at if one not in gpu.holders_not_looked_at]
    if more:
        yield "release", f"not sure, not looked at: {', '.join(more)}"
    if before is not None and before.drivers == gpu.drivers:
        yield "fits", f"what fits GPU {before.bdf}"
    else:
        yield from _fits(gpu)


def _release(gpu: GpuReport) -> str:
    if gpu.driver == "nvidia":
        if gpu.release.not_looked_at:
            return "on nvidia now; what holds it at the next boot was not looked at everywhere"
        if gpu.holders:
            return "on nvidia now; what is told above counts from the next boot on"
        return "nothing to do: it is on nvidia and nothing holds it"
    if gpu.release.how == "unknown" and gpu.holders_not_looked_at:
        return "unknown: what could hold it was not looked at everywhere"
    return {
        "online": "can be done while the machine runs",
        "reboot": "takes a reboot:",
        "refused": "refused:",
    }.get(gpu.release.how, gpu.release.how)


def _fits(gpu: GpuReport) -> Iterator[tuple[str, str]]:
    """Drivers that fit, one line a version; of those that do not, the reasons, each with its versions."""
    fitting: dict[tuple[str, str, str], list[str]] = {}
    not_fitting: dict[str, list[str]] = {}
    for row in gpu.drivers:
        if row["state"]:
            yield from _chosen(row)
            continue
        if row["fits"]:
            key = (row["version"], ", ".join(row["routes"]), "; ".join(row["notes"]))
            fitting.setdefault(key, []).append(row["flavour"])
        for why in row["why_not"]:
            if row["version"] not in not_fitting.setdefault(why, []):
                not_fitting[why].append(row["version"])
    for (version, routes, notes), flavours in fitting.items():
        yield "fits", f"{version} {' or '.join(flavours)} (by {routes})" + (f"; {notes}" if notes else "")
    for why, versions in not_fitting.items():
        yield "fits not", f"{', '.join(versions)}: {why}"


def _chosen(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is loaded or pinned, whether it fits or not."""
    name = f"{row['version']} {row['flavour']} ({', '.join(row['state'])})"
    if row["fits"]:
        yield "fits", f"{name} fits" + (f"; {'; '.join(row['notes'])}" if row["notes"] else "")
    for why in row["why_not"]:
        yield "fits not", f"{name}: {why}"


def _held(held: Held) -> Iterator[tuple[str, str]]:
    yield "held by", f"{held.path}:{held.line}: {held.text.strip()}"
    yield "held by", f"    {held.what}"
    if held.instead:
        yield "held by", f"    next: {held.instead}"


def _finding(finding: Finding) -> Iterator[tuple[str, str]]:
    yield finding.kind, f"{finding.subject}: {finding.seen}"
    yield finding.kind, f"    {finding.meaning}"
    if finding.next_step:
        yield finding.kind, f"    next: {finding.next_step}"
