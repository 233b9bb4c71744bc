"""``nvidia-smi -q``, whole or any excerpt of it: an outline of ``key : value`` per GPU, read by rows."""

from __future__ import annotations

import re
from typing import Any

from checks.bdf import Bdf
from checks.gpus import parts
from checks.gpus.texts import smi_cut
from checks.gpus.texts.evidence import Evidence, gap, number
from checks.gpus.texts.smi_rows import assemble

Path = tuple[str, ...]
DEPTH = 8
"""Headings above a value; nvidia-smi has four."""
Outline = dict[Path, str]

_GPU = re.compile(r"^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*$")
UNREACHED = re.compile(
    r"Unable to determine the device handle for GPU\s*(?:(\d{1,3}):\s+)?([0-9A-Fa-f:.]+?):? *:?\s*"
    r"(GPU is lost|Unknown Error|GPU requires reset)",
    re.IGNORECASE,
)
_COLON = re.compile(r":(?= |$)")
_HEADINGS = re.compile(
    r"^\s*(?:Fabric|Retired Pages|Remapped Rows|ECC (?:Mode|Errors)|Clocks (?:Event|Throttle) Reasons|PCI|MIG Mode|"
    r"FB Memory Usage|BAR1 Memory Usage|Temperature|(?:GPU )?Power Readings|GPU Link Info|Max Clocks)\s*$|"
    r"^\s*GPU Recovery Action\s*:|^=+NVSMI LOG=+",
    re.MULTILINE,
)


def recognises(text: str) -> bool:
    return _HEADINGS.search(text) is not None or UNREACHED.search(text) is not None


def read(text: str) -> Evidence:
    head: Outline = {}
    devices: dict[int, dict[str, Any]] = {}
    blocks: list[tuple[str | None, list[str]]] = [(None, [])]
    places: dict[int, tuple[int, re.Match[str]]] = {}
    for line in text.splitlines():
        found = _GPU.match(line)
        if found:
            blocks.append((found[1], []))
        elif (lost := UNREACHED.search(line)) is not None:
            blocks.append((f"!{lost[3]}", []))
            places[len(blocks) - 2] = int(lost[1] or len(blocks) - 2), lost
        else:
            blocks[-1][1].append(line)
    first = outline(blocks[0][1])
    if len(blocks) == 1:
        # An excerpt without the line that names its GPU.
        devices[0] = assemble(first, None)
    head = first
    for index, (bus, lines) in enumerate(blocks[1:]):
        if bus is not None and bus.startswith("!"):
            place, said = places[index]
            devices[place] = unreached(said)
        else:
            devices[index] = assemble(outline(lines), bus)
    count = smi_cut.count(
        number(head.get(("Attached GPUs",), "")), [(bus, lines) for bus, lines in blocks[1:]]
    )
    if isinstance(count, dict):  # of one GPU alone, or of the first few: which index it has is not told
        for index, (bus, _) in enumerate(blocks[1:]):
            if bus is not None and not bus.startswith("!") and len(blocks) == 2:
                devices[index] = {**devices[index], **parts.unindexed(bus)}
    driver = head.get(("Driver Version",))
    known = driver if driver and re.fullmatch(r"\d+(\.\d+)+", driver) else None
    return Evidence(devices={i: d for i, d in devices.items() if d}, driver=known, count=count)


def unreached(said: re.Match[str]) -> dict[str, Any]:
    """The device of a line that UNREACHED matches: by its address where the line gives no index."""
    try:
        address = str(Bdf.parse(said[2]))
    except ValueError:
        return {"handle": gap(said[3])}
    known = parts.unindexed(address)
    if said[1] is not None:
        del known[parts.UNINDEXED]
    return {**known, "handle": gap(said[3])}


def outline(lines: list[str]) -> Outline:
    """Every value by the headings above it: ``("ECC Mode", "Current")``. The first of two equal paths holds."""
    stack: list[tuple[int, str]] = []
    found: Outline = {}
    for line in lines:
        if not line.strip() or line.startswith("="):
            continue
        indent = len(line) - len(line.lstrip())
        while stack and stack[-1][0] >= indent:
            stack.pop()
        pair = _COLON.search(line)
        key = (line if pair is None else line[: pair.start()]).strip()
        if pair is not None:
            found.setdefault((*(name for _, name in stack[-DEPTH:]), key), line[pair.end() :].strip())
        stack.append((indent, key))
        if len(found) > 20000:
            break
    return found
