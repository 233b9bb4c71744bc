"""Observes this machine: NVML through a child with a deadline, the rest from files. Gives a record."""

from __future__ import annotations

import datetime
import json
import platform
import sys
from collections.abc import Sequence
from typing import Any

from checks import child
from checks.errors import BadInput
from checks.gpus import kernlog, node
from checks.gpus.dump import DIED, TIMEOUT
from checks.record import Record, Section


def collect(deadline: float, command: Sequence[str] | None = None) -> Record:
    """The record of this machine; takes at most ``deadline`` seconds and a little.

    ``command`` is the child that reads NVML, this program's own unless given.
    """
    sections = node.look()
    ended = child.run(command or child.self_command("_probe", "nvml"), deadline)
    nvml, library = assemble(ended, deadline)
    if library is not None:
        sections = (*sections, Section("link", node.LIBRARY, library.encode()))
    # After NVML: it is NVML that makes the driver try to start a GPU, and the kernel say why it could not.
    sections = (*sections, kernlog.look())
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    return Record(host=platform.node(), taken=now, sections=sections, nvml=nvml)


def assemble(ended: child.Ended, deadline: float) -> tuple[dict[str, Any], str | None]:
    """The lines of the child as an NVML dump, and the file of the library. What is missing says why."""
    lines = [_line(raw) for raw in ended.stdout.splitlines()]
    head = next((line["head"] for line in lines if "head" in line), None)
    library = next((line["library"] for line in lines if "library" in line), None)
    devices = [line["device"] for line in lines if "device" in line]
    whole = any("end" in line for line in lines)
    if ended.timed_out:
        why = {"err": TIMEOUT, "cls": TIMEOUT, "msg": f"no answer within {deadline:g} s"}
    else:
        said = ended.stderr.splitlines()[-1:] or [""]
        why = {
            "err": DIED,
            "cls": DIED,
            "msg": f"the child ended with {ended.code}: {said[0][:200]}".rstrip(": "),
        }
    if head is None:
        return {"binding": None, "nvmlInit": why}, library
    if head.get("nvmlInit") is not None:
        return head, library
    count = head.get("nvmlDeviceGetCount")
    missing = count - len(devices) if isinstance(count, int) and not whole else 0
    return {**head, "devices": [*devices, *({"handle": why} for _ in range(missing))]}, library


def _line(raw: bytes) -> dict[str, Any]:
    try:
        line = json.loads(raw)
    except ValueError:
        return {}  # the last line of a child that was cut off
    return line if isinstance(line, dict) else {}


def main(args: Sequence[str]) -> int:
    """``_probe record DEADLINE``: prints the record of this machine, for a provcheck that runs elsewhere."""
    try:
        deadline = float(args[0])
    except (IndexError, ValueError):
        raise BadInput("_probe record needs a deadline in seconds") from None
    sys.stdout.write(collect(deadline).dump().decode())
    return 0
