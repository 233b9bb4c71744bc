"""Kernel logs in all their forms, and fabric manager's own log."""

from __future__ import annotations

import re
from dataclasses import replace

from checks.gpus import kernel_events, kernlog, node
from checks.gpus.texts import log_order
from checks.gpus.texts.evidence import Evidence
from checks.record import Section

_STARTED = re.compile(r"Fabric Manager version .* is running with the following configuration", re.IGNORECASE)
_FABRIC_LINE = re.compile(r"^\[[A-Z][a-z]{2} \d{1,2} \d{4} [\d:]{8}\] \[[A-Z]+\] \[tid \d+\]", re.MULTILINE)


def is_fabric(text: str) -> bool:
    return _FABRIC_LINE.search(text) is not None


def fabric(text: str) -> Evidence:
    """Only its errors and warnings, those of switches and those since its last start: the rest is of no use."""
    every = text.splitlines()
    start = max((at for at, line in enumerate(every) if _STARTED.search(line)), default=0)
    lines = [
        line
        for at, line in enumerate(every)
        if re.search(r"\[(?:ERROR|WARNING|CRITICAL)\]", line) and (at >= start or "NVSwitch" in line)
    ]
    data = "".join(f"{line[:500]}\n" for line in lines[-kernlog.LINES_KEPT :]).encode()
    return Evidence((Section("log", node.FABRIC_LOG, data),))


def is_kernel(text: str) -> bool:
    return kernel_events.is_kernel_log(text)


def kernel(text: str) -> Evidence:
    whole = "".join(f"{line}\n" for line in kernel_events.split(text) if not line.startswith("#"))
    section = kernlog.look(lambda: whole)
    lines = (section.data or b"").decode(errors="replace").splitlines()
    log_order.one_machine(lines, "this is a kernel log")
    if not any(map(kernel_events.mentions, lines)):
        section = replace(section, error=kernlog.SILENT)
    log = kernlog.parse(section)
    extra = {("driver.adapter_init", str(bdf or "host")) for bdf in log.stories()}
    if log.refused:
        extra.add(("driver.library", "host"))
    return Evidence((section,), extra=frozenset(extra))
