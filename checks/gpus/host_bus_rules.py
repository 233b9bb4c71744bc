"""Rules about the bus around the GPUs: IOMMU, ACS redirection, and the fabric manager that NVSwitches need."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from checks.gpus.dump import Gap
from checks.gpus.host_bus import Port
from checks.gpus.node import PciGpu
from checks.gpus.rule import Outcome, Scene, failed, passed, skipped, unknown, warned
from checks.model import Status

Judged = Iterator[tuple[str, Outcome]]

_IDENTITY = ("identity", "identity-paging")
_ASK_IT = "provcheck load copies between every pair and compares: believe that more than any switch"


def _here(scene: Scene) -> list[PciGpu]:
    """GPUs of this machine that the nvidia driver may use together."""
    return [gpu for gpu in scene.node.gpus or () if gpu.driver in ("nvidia", None) and scene.node.given(gpu)]


def iommu(scene: Scene) -> Judged:
    """Does an IOMMU translate what the GPUs write to each other? Peer copies may then hang or arrive damaged."""
    groups = scene.node.bus.groups
    gpus = [gpu for gpu in _here(scene) if gpu.bdf in groups]
    if not gpus:
        return
    kinds = {str(gpu.bdf): groups[gpu.bdf] for gpu in gpus}
    said = ", ".join(sorted({kind or "none" for kind in kinds.values()}))
    if not any(kinds.values()):
        virtual = scene.node.bus.virtual
        where = "a virtual machine without its own IOMMU" if virtual else "no IOMMU is active"
        text = f"{where}: nothing here translates what GPUs write"
        yield "host", skipped(text) if virtual is not False else passed(text, value="off")
        return
    translated = [bdf for bdf, kind in kinds.items() if kind and kind not in _IDENTITY]
    if not translated:
        yield "host", passed("the IOMMU passes the GPUs' addresses through", value=said)
    elif len(gpus) < 2:
        yield (
            "host",
            skipped(f"the IOMMU translates ({said}); with one GPU there is no peer to write to", value=said),
        )
    elif _linked(scene) and not scene.node.rdma:
        text = f"the IOMMU translates ({said}), and the GPUs copy to each other over NVLink, past it"
        yield "host", passed(text, value=said)
    else:
        options = " ".join(scene.node.bus.options) or "none about it"
        yield (
            "host",
            warned(
                f"the IOMMU translates the addresses of {len(translated)} GPUs ({said})",
                value=said,
                limit="identity",
                cause="copies between GPUs over PCIe take the way through the IOMMU: slow, or they hang or arrive"
                f" damaged on some boards (kernel options: {options})",
                fix=f"iommu=pt on the kernel command line, unless this host gives GPUs to virtual machines; {_ASK_IT}",
            ),
        )


def _linked(scene: Scene) -> bool:
    """Every GPU has active NVLinks. Network cards with RDMA reach GPUs over PCIe all the same."""
    return bool(scene.dump.gpus) and all(1 in gpu.links() for gpu in scene.dump.gpus)


def acs(scene: Scene) -> Judged:
    """Do bridges on the way to a GPU send what is meant for its neighbour up to the processor?"""
    ports = scene.node.bus.ports
    gpus = [gpu for gpu in _here(scene) if gpu.bdf in ports]
    if not gpus:
        return
    if len(gpus) < 2:
        yield "host", skipped("one GPU: it has no neighbour to write to")
        return
    way = {port.bdf: port for gpu in gpus for port in ports[gpu.bdf]}
    if not way:
        yield "host", skipped("no bridge is above the GPUs, as in a virtual machine")
        return
    bad = [port for port in way.values() if port.redirects]
    closed = [port for port in way.values() if port.error is not None]
    if bad:
        yield "host", _redirected(scene, bad, [str(gpu.bdf) for gpu in gpus])
    elif closed:
        text = (
            f"ACS of {len(closed)} of {len(way)} bridges above the GPUs could not be read: {closed[0].error}"
        )
        yield "host", unknown(text, fix="run provcheck as root, or look at ACSCtl in 'sudo lspci -vvv'")
    else:
        yield (
            "host",
            passed(
                f"none of the {len(way)} bridges above the GPUs redirects (ReqRedir, CmpltRedir)",
                value=0,
                limit=0,
            ),
        )


def _redirected(scene: Scene, bad: list[Port], gpus: list[str]) -> Outcome:
    names = ", ".join(f"{port.bdf} ({port.control:#06x})" for port in bad[:4])
    if scene.node.bus.virtual:
        return skipped(f"a virtual machine needs ACS: {names}")
    return warned(
        f"{len(bad)} bridges above the {len(gpus)} GPUs redirect peer requests: {names}",
        value=len(bad),
        limit=0,
        cause="copies between GPUs over PCIe go up to the processor and through its IOMMU: slow, or they hang",
        fix="switch ACS off in the firmware setup, or with setpci on these bridges after each boot; leave it on where"
        f" GPUs go to virtual machines; {_ASK_IT}",
    )


def services_known(scene: Scene) -> bool:
    return scene.node.services is not None and bool(scene.node.gpus)


def fabric_manager(scene: Scene) -> Judged:
    """Does nvidia-fabricmanager run where NVSwitches need it, in the driver's own version, and what does it say?"""
    found = list(_manager(scene))
    if scene.node.fabric_errors and not any(outcome.status is Status.FAIL for _, outcome in found):
        found = [("host", _complaint(scene.node.fabric_errors))]
    yield from found


def _complaint(errors: Sequence[str]) -> Outcome:
    other = next((line for line in errors if _OTHER_VERSION.search(line)), None)
    if other is not None:
        return failed(
            f"nvidia-fabricmanager does not fit the driver: {other[:160]}",
            cause="it refuses any driver of another version than its own; CUDA then ends with error 802",
            fix="install fabric manager and driver of one version, hold both packages, restart it",
        )
    return warned(
        f"nvidia-fabricmanager logged {len(errors)} errors; the last: {errors[-1][:160]}",
        value=len(errors),
        limit=0,
        fix="read /var/log/fabricmanager.log and fabric.state of every GPU; restart it when that is not completed",
    )


_OTHER_VERSION = re.compile(r"do(?:es)?n['o ]?t match (?:with )?.*driver version|version mismatch", re.I)


def _manager(scene: Scene) -> Judged:
    node = scene.node
    if node.gpus is None:
        return
    if not node.switches:
        if services_known(scene):
            yield "host", skipped("no NVSwitch is on the bus: no fabric manager is needed here")
        return
    there = f"{len(node.switches)} NVSwitches are on the bus: they need nvidia-fabricmanager"
    services = node.services
    if services is None:
        yield "host", skipped(f"{there}; whether it runs is not in the evidence: see fabric.state")
        return
    if node.container:
        yield "host", skipped(f"{there}, which runs outside of this container: see fabric.state")
        return
    fix = "systemctl enable --now nvidia-fabricmanager; its version must be exactly the driver's"
    if not services.fabric_manager:
        cause = (
            "CUDA ends with error 802 on boards with NVSwitches, although nvidia-smi and all links look well"
        )
        yield "host", failed(f"{there}, and it does not run", cause=cause, fix=fix)
        return
    driver, version = scene.dump.driver, services.fabric_version
    if version is None or isinstance(driver, Gap):
        yield "host", passed("nvidia-fabricmanager runs; its version could not be told")
    elif version != driver:
        yield (
            "host",
            failed(
                f"nvidia-fabricmanager is {version}, the driver {driver}",
                value=version,
                limit=driver,
                cause="it refuses any other version than its own, at the latest when it starts again",
                fix=f"install fabric manager {driver}, hold both packages, restart it",
            ),
        )
    else:
        yield "host", passed(f"nvidia-fabricmanager {version} runs, as the driver", value=version)
