"""Whether every rank has a GPU of its own: nodes compare the UUIDs of their GPUs when they meet. Pure.

NCCL looks for a GPU that two ranks use within one host only, and a host is its name and boot id: two containers with
the same GPU, or one machine under two names, pass as two nodes (NVIDIA/nccl src/init.cc, "Duplicate GPU detected").
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

LIMIT = 64
"""GPUs of a node, and characters of a UUID."""
SLICES_SINCE = 11040
"""From CUDA 11.4 on the driver tells the UUID of a MIG instance (CUDA driver API, cuDeviceGetUuid_v2); before, that of
the GPU that it is cut from, which its neighbours have too."""


def named(gpus: Sequence[Mapping[str, Any]], tested: Collection[int], driver: Any) -> dict[str, str]:
    """CUDA's number -> UUID of each GPU that takes part, written as NVML writes it; empty where it is not known.

    ``driver`` is the newest CUDA that the driver speaks, as 1000 x major + 10 x minor.
    """
    found = {}
    for gpu in gpus:
        if gpu.get("ordinal") not in tested:
            continue
        uuid, slice_ = str(gpu.get("uuid") or ""), " MIG " in str(gpu.get("name"))
        if slice_:
            uuid = uuid.replace("GPU-", "MIG-", 1)
        blind = slice_ and not (isinstance(driver, int) and driver >= SLICES_SINCE)
        nothing = not uuid.partition("-")[2].strip("0-")
        found[str(gpu["ordinal"])] = "" if blind or nothing else uuid
    return found


def heard(told: Any) -> dict[str, str] | None:
    """The same of another node, as it came over the wire; None where it said nothing sensible."""
    if not isinstance(told, Mapping) or len(told) > LIMIT:
        return None
    if not all(isinstance(uuid, str) and len(uuid) <= LIMIT and uuid.isprintable() for uuid in told.values()):
        return None
    return {str(number)[:4]: uuid for number, uuid in told.items()}


def twice(joined: Mapping[Any, Mapping[str, Any]]) -> dict[str, list[tuple[int, str]]]:
    """UUID -> node and CUDA's number there, of each GPU that more than one rank would have."""
    places: dict[str, list[tuple[int, str]]] = {}
    for node, entry in sorted(joined.items(), key=lambda item: int(item[0])):
        for number, uuid in (entry.get("uuids") or {}).items():
            if uuid:
                places.setdefault(uuid, []).append((int(node), number))
    return {uuid: found for uuid, found in places.items() if len(found) > 1}


def untold(joined: Mapping[Any, Mapping[str, Any]]) -> list[int]:
    """The nodes with GPUs in the run that did not say which ones; none of a record that is older than the question."""
    with_gpus = {int(node): entry for node, entry in joined.items() if entry.get("gpus") and "uuids" in entry}
    return sorted(n for n, e in with_gpus.items() if not e["uuids"] or not all(e["uuids"].values()))
