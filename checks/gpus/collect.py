"""Observes this machine: NVML through a child with a deadline, the rest from files. Gives a record."""

from __future__ import annotations

import datetime
import platform
import sys
from collections.abc import Sequence

from checks.errors import BadInput
from checks.gpus import kernlog, node
from checks.gpus.supervise import Reading
from checks.record import Record, Section


def collect(deadline: float, command: Sequence[str] | None = None, reading: Reading | None = None) -> Record:
    """The record of this machine; takes at most ``deadline`` seconds and a little.

    ``command`` is the child that reads NVML, this program's own unless given; ``reading`` is NVML already
    being read.
    """
    reading = reading or Reading(deadline, command)
    try:
        sections = node.look()
        nvml, library = reading.result()
    finally:
        reading.stop()
    if library is not None:
        sections = (*sections, Section("link", node.LIBRARY, library.encode()))
    # After NVML: it is NVML that makes the driver try to start a GPU, and the kernel say why it could not.
    sections = (*sections, kernlog.look())
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    return Record(host=platform.node(), taken=now, sections=sections, nvml=nvml)


def main(args: Sequence[str]) -> int:
    """``_probe record DEADLINE``: prints the record of this machine, for a provcheck that runs elsewhere."""
    try:
        deadline = float(args[0])
    except (IndexError, ValueError):
        raise BadInput("_probe record needs a deadline in seconds") from None
    sys.stdout.write(collect(deadline).dump().decode())
    return 0
