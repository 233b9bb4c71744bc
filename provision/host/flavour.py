"""Which kernel module the wanted GPUs can take, and whether the pinned one is among them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from checks.bdf import Bdf
from provision.data.gpu_arch import PROPRIETARY_LAST, Architecture, architecture
from provision.host.view import PciFunction
from provision.plan import Refusal
from provision.spec import Driver, Machine


def flavour_refusals(machine: Machine, functions: Sequence[PciFunction]) -> list[Refusal]:
    """Why the pinned driver cannot serve the machine's wanted GPUs. GPUs that the inventory does not name (a console
    card, those of virtual machines) have no say; what is no GPU by its class neither."""
    if machine.driver is None:
        return []
    there = {function.bdf: function for function in functions if function.is_gpu}
    found = [
        (gpu.bdf, architecture(there[Bdf.parse(gpu.bdf)].device))
        for gpu in machine.gpus
        if Bdf.parse(gpu.bdf) in there
    ]
    if len(found) > 1 and all(row.flavours for _, row in found) and not _common([row for _, row in found]):
        return [_mixed(found)]
    refusals = []
    for bdf, row in found:
        why = impossible(machine.driver, row)
        if why:
            refusals.append(
                Refusal(
                    "machine.driver",
                    f"{machine.driver.version} {machine.driver.flavour} is pinned, and {bdf} is {row.name}",
                    why,
                    _fitting([row for _, row in found]),
                )
            )
    return refusals


def impossible(driver: Driver, row: Architecture) -> str | None:
    """Why this driver cannot serve a GPU of that architecture; None when it can."""
    branch = int(driver.version.split(".")[0])
    if not row.flavours:
        return f"no branch after {row.last} knows it ({row.source})"
    if driver.flavour not in row.flavours:
        return f"only the {row.flavours[0]} module knows it ({row.source})"
    if driver.flavour == "proprietary" and branch > PROPRIETARY_LAST:
        return f"branch {PROPRIETARY_LAST} was the last with a proprietary module (NVIDIA driver 620 documentation)"
    if row.first is not None and branch < row.first:
        return f"it is known from branch {row.first} on ({row.source})"
    if row.last is not None and branch > row.last:
        return f"branch {row.last} was the last that knows it ({row.source})"
    return None


def _common(rows: Sequence[Architecture]) -> tuple[list[str], int, int] | None:
    """Flavours and range of branches that serve all; None when there are none."""
    flavours = [flavour for flavour in rows[0].flavours if all(flavour in row.flavours for row in rows)]
    first, last = max(row.first or 0 for row in rows), min(row.last or 999 for row in rows)
    return (flavours, first, last) if flavours and first <= last else None


def _mixed(found: Sequence[tuple[str, Architecture]]) -> Refusal:
    return Refusal(
        "machine.gpus",
        ", ".join(f"{bdf} is {row.name}" for bdf, row in found),
        "no driver serves all of them: "
        + "; ".join(f"{row.name}: {' or '.join(row.flavours)}{_range(row)}" for row in _distinct(found)),
        "leave the GPUs of one generation out of machine.gpus",
    )


def _distinct(found: Sequence[tuple[str, Architecture]]) -> list[Architecture]:
    return list(dict.fromkeys(row for _, row in found))


def _range(row: Architecture) -> str:
    if row.first is not None:
        return f" from {row.first}"
    return f" up to {row.last}" if row.last is not None else ""


def _fitting(rows: Sequence[Architecture]) -> str:
    common = _common(rows) if all(row.flavours for row in rows) else None
    if common is None:
        return "leave that GPU out of machine.gpus"
    flavours, first, last = common
    branches = (f", branch {first} or newer" if first else "") + (
        f", branch {last} or older" if last < 999 else ""
    )
    return f"pin Driver(flavour={flavours[0]!r}){branches}"
