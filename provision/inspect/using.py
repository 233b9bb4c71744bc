"""Who uses a GPU now: processes that have its device files open. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from checks.bdf import Bdf
from checks.snapshot import CouldNotLook
from provision.host import boot
from provision.host.boot import Opener
from provision.inspect.functions import Function
from provision.inspect.look import Look


def openers(look: Look) -> tuple[Opener, ...]:
    """Raises CouldNotLook when they were not listed, or by a user who sees only his own processes."""
    found = boot.openers(look.snapshot)
    code, user = look.snapshot.command("id-u")
    if code != 0 or user.strip() != "0":
        raise CouldNotLook(f"user id {user.strip() or '?'} does not see the files that others have open")
    return found


def nodes_of(gpu: Function, parts: Sequence[Function], minors: Mapping[Bdf, int]) -> frozenset[str]:
    """The device nodes through which the GPU is used: its own, those of VFIO for its group and its functions."""
    groups = {one.group for one in (gpu, *parts) if one.group and one.group.isdecimal()}
    nodes = {f"/dev/vfio/{prefix}{group}" for group in groups for prefix in ("", "noiommu-")}
    nodes |= {
        f"/dev/vfio/devices/{one.seen.vfio_dev}" for one in (gpu, *parts) if one.seen and one.seen.vfio_dev
    }
    if gpu.bdf in minors:
        nodes.add(f"/dev/nvidia{minors[gpu.bdf]}")
    return frozenset(nodes)


def of_gpu(all_openers: Sequence[Opener], nodes: frozenset[str]) -> tuple[str, ...]:
    """Who has one of the GPU's nodes open, in words."""
    return tuple(f"{opener} has {opener.target} open" for opener in all_openers if opener.target in nodes)
