"""What an operator sees of an inspection: a table of the GPUs, what holds each, and what could not be told."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from provision.inspect.report import GpuReport, Held, Report


def show(reports: Sequence[Report], console: Console | None = None) -> None:
    """Machine by machine, on the standard output."""
    out = console or Console(highlight=False, soft_wrap=True)
    for report in reports:
        _machine(out, report)


def _machine(out: Console, report: Report) -> None:
    out.print(f"[bold]{escape(report.machine)}[/]")
    _facts(out, report)
    if report.gpus is None:
        out.print("  GPUs: unknown")
    elif not report.gpus:
        out.print("  no NVIDIA GPU")
    else:
        out.print(_table(report.gpus))
        for gpu in report.gpus:
            _gpu(out, gpu)
    shown = {id(held) for gpu in report.gpus or () for held in gpu.holders}
    rest = [held for held in report.holders if id(held) not in shown]
    if rest and not report.gpus:
        out.print("  what holds GPUs, or keeps the driver away:")
        for held in rest:
            _held(out, held)
    for finding in report.findings:
        colour = "red" if finding.kind == "problem" else "cyan"
        out.print(f"  [{colour}]{finding.kind}[/] {escape(finding.subject)}: {escape(finding.seen)}")
        out.print(f"      {escape(finding.meaning)}")
        if finding.next_step:
            out.print(f"      next: {escape(finding.next_step)}")
    if report.unknown:
        out.print("  [yellow]could not be told:[/]")
        for what, why in report.unknown.items():
            out.print(f"      {escape(what)}: {escape(why)}")


def _facts(out: Console, report: Report) -> None:
    for name, value in report.host.items():
        out.print(f"  {escape(name)}: {escape(_plain(value))}")


def _plain(value: object) -> str:
    if value is None or value == []:
        return "none"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(one)}" for key, one in value.items()) or "none"
    if isinstance(value, (list, tuple)):
        return "; ".join(_plain(one) for one in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _table(gpus: Sequence[GpuReport]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("  GPU", "model", "architecture", "driver", "group", "minor", "in use", "release"):
        table.add_column(name, overflow="fold")
    for gpu in gpus:
        used = "yes" if gpu.used_by else "unknown" if gpu.use_not_looked_at else "no"
        cells = (
            gpu.bdf,
            gpu.model,
            gpu.architecture,
            gpu.driver,
            gpu.group,
            gpu.minor,
            used,
            gpu.release.how,
        )
        table.add_row("  " + escape(cells[0]), *(escape(cell) for cell in cells[1:]))
    return table


def _gpu(out: Console, gpu: GpuReport) -> None:
    out.print(f"  {escape(gpu.bdf)}")
    for part in gpu.companions:
        kind = "bridge, never touched" if part["bridge"] else part["class"]
        out.print(f"      with {part['bdf']} ({escape(str(kind))}), driver {escape(str(part['driver']))}")
    for held in gpu.holders:
        _held(out, held)
    if gpu.holders_not_looked_at:
        out.print(f"      holders not looked at: {escape(', '.join(gpu.holders_not_looked_at))}")
    for user in gpu.used_by:
        out.print(f"      [red]in use:[/] {escape(user)}")
    for reason in gpu.release.reasons:
        out.print(f"      {gpu.release.how}: {escape(reason['seen'])}; {escape(reason['why'])}")
    if gpu.release.not_looked_at:
        out.print(f"      release not sure, not looked at: {escape(', '.join(gpu.release.not_looked_at))}")


def _held(out: Console, held: Held) -> None:
    out.print(f"      held by {escape(held.path)}:{held.line}: {escape(held.text.strip())}")
    out.print(f"          {escape(held.what)}")
    if held.instead:
        out.print(f"          next: {escape(held.instead)}")
