"""Who uses a GPU now: processes that have its device files open. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from checks.bdf import Bdf
from checks.snapshot import CouldNotLook
from provision.host import boot
from provision.host.boot import Opener
from provision.inspect.functions import Function
from provision.inspect.look import Look


def openers(look: Look) -> tuple[Opener, ...]:
    """Those that were listed. Raises CouldNotLook when nobody listed them."""
    return boot.openers(look.snapshot)


def all_listed(look: Look) -> bool:
    """Were all of them seen? What a user who is not root lists is there; what he does not list may be there too.
    Raises CouldNotLook when not."""
    boot.openers(look.snapshot)
    code, user = look.snapshot.command("id-u")
    if code != 0 or user.strip() != "0":
        raise CouldNotLook(f"user id {user.strip() or '?'} does not see the files that others have open")
    return True


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


def of_gpu(all_openers: Sequence[Opener], nodes: frozenset[str], on_vfio: bool = False) -> tuple[str, ...]:
    """Who has one of the GPU's nodes open, in words. A process that kept a device of VFIO alone does not tell which: it
    counts for every GPU that is on VFIO."""
    grouped = {
        one.pid for one in all_openers if re.match(r"/dev/vfio/(noiommu-)?\d|/dev/vfio/dev", one.target)
    }
    return tuple(
        f"{opener} has {opener.target} open"
        for opener in all_openers
        if opener.target in nodes
        or (on_vfio and "vfio-device" in opener.target and opener.pid not in grouped)
    )
