"""Rule about each pair of GPUs: what the driver says of the way between them. It is only a saying: copies that the
driver calls fine arrive damaged or never on some machines, so the data path itself is tried by ``provcheck nccl``."""

from __future__ import annotations

from collections.abc import Iterator

from checks.bdf import Bdf
from checks.gpus.dump import NOT_READ, Gap, Gpu, Pair
from checks.gpus.getters import LINKS
from checks.gpus.nvlink import active
from checks.gpus.rule import Outcome, Scene, failed, first_error, passed, skipped, unknown, warned
from checks.gpus.which import address

WORDS = {
    0: "OK",
    1: "chipset not supported",
    2: "GPU not supported",
    3: "topology not supported",
    4: "disabled by a driver option",
    5: "not supported",
    6: "unknown",
}
"""nvmlGpuP2PStatus_t"""

_ANCESTORS = {
    0: "on one board",
    10: "behind one PCIe switch",
    20: "behind several PCIe switches",
    30: "behind one host bridge",
    40: "within one NUMA node",
    50: "across NUMA nodes",
}
"""nvmlGpuTopologyLevel_t"""

_SWITCH = 2
"""NVML_NVLINK_DEVICE_TYPE_SWITCH"""

_SAYING = "the driver's word, not the data path: 'provcheck nccl' tries that"


def pairs(scene: Scene) -> Iterator[tuple[str, Outcome]]:
    """One outcome per pair that the evidence holds, both directions together, by ``pair A-B``."""
    gpus = {gpu.index: gpu for gpu in scene.dump.gpus}
    if not gpus:
        yield "host", skipped("NVML lists no GPU: see gpu.count")
        return
    if scene.dump.p2p is None:
        if scene.live:
            yield "host", unknown("peer-to-peer capabilities could not be read")
        return
    ways: dict[tuple[int, int], list[Pair]] = {}
    for way in scene.dump.p2p:
        ways.setdefault((min(way.a, way.b), max(way.a, way.b)), []).append(way)
    if len(gpus) == 1:
        yield "host", skipped("one GPU: there is no pair to look at")
    elif not ways:
        yield "host", unknown("no pair of GPUs could be asked for its peer-to-peer capabilities")
    for (a, b), both in sorted(ways.items()):
        yield f"pair {a}-{b}", _pair(gpus[a], gpus[b], both)


def _pair(one: Gpu, other: Gpu, ways: list[Pair]) -> Outcome:
    for gpu in (one, other):
        if gpu.handle is not None or gpu.lost() is not None:
            return unknown(
                f"{gpu.subject} is lost or not accessible: what is said of the pair proves nothing"
            )
    linked = _linked(one, other, ways)
    statuses = [status for way in ways for status in (way.read, way.write) if status != NOT_READ]
    bad = [status for status in statuses if isinstance(status, int) and status not in (0, 6)]
    told = f"{WORDS.get(bad[0], bad[0])}" if bad else "OK"
    where = f", {place}" if (place := _place(ways)) else ""
    if bad and linked:
        return failed(
            f"NVLinks join them, and no peer-to-peer: {told}",
            value=bad[0],
            limit=0,
            cause="the driver does not use the links: fabric, access control or a driver option (NVIDIA/nccl#2329)",
            fix="read fabric.state; look for NVreg_ options in /etc/modprobe.d and for ACS and IMEX settings; reboot",
        )
    if bad and all(status in (2, 5) or (status == 1 and _consumer(one, other)) for status in bad):
        return skipped(
            f"no peer-to-peer: {told}{where}; copies between them go through host memory", value=bad[0]
        )
    if bad:
        return warned(
            f"no peer-to-peer: {told}{where}; copies between them go through host memory",
            value=bad[0],
            limit=0,
            cause="the way between the two slots does not carry peer traffic, or an option forbids it",
            fix="put both boards under one host bridge, or see NVreg_ options in /etc/modprobe.d; look at pcie.acs",
        )
    if not statuses:
        place = _place(ways)
        if linked:
            return passed(f"NVLinks join them{where} ({_SAYING})")
        return (
            skipped(f"they are {place}; whether peer-to-peer works is not in the evidence")
            if place
            else unknown("peer-to-peer was not read")
        )
    answers = [value for way in ways for value in (*_rights(way), way.topo)]
    error = first_error(*answers)
    if error is not None:
        return unknown(f"peer-to-peer could not be read: {error}")
    if 6 in statuses:
        return unknown("the driver does not know whether peer-to-peer works between them", value=6, limit=0)
    if any(isinstance(status, Gap) for status in statuses):
        return skipped("this driver says nothing of peer-to-peer")
    seen = any(way.nvlink != NOT_READ for way in ways) or one.has("nvlink")
    by = " over NVLink" if linked else " over PCIe" if seen else ""
    return passed(f"peer-to-peer{by} is OK{where} ({_SAYING})", value=0, limit=0)


def _consumer(*gpus: Gpu) -> bool:
    """The driver refuses peer-to-peer over PCIe between GeForce boards, and calls it the chipset's fault ("CNS" in
    nvidia-smi topo -p2p): no slot and no option mends that."""
    return all("GeForce" in gpu.name for gpu in gpus)


def _rights(way: Pair) -> tuple[int | Gap, ...]:
    return way.read, way.write, way.nvlink, way.atomics, way.pci


def _place(ways: list[Pair]) -> str | None:
    levels = [way.topo for way in ways if isinstance(way.topo, int)]
    return _ANCESTORS.get(max(levels)) if levels else None


def _linked(one: Gpu, other: Gpu, ways: list[Pair]) -> bool:
    """Do NVLinks join the two: by the driver's word, through the same switches, or by the address at their end?"""
    if any(way.nvlink == 0 for way in ways):
        return True
    ups = active(one), active(other)
    if not all(ups):
        return False
    through_switch = all(
        any(gpu.link(number, "remote_type") == _SWITCH for number in up)
        for gpu, up in zip((one, other), ups, strict=True)
    )
    return through_switch or _ends_at(one, other) or _ends_at(other, one)


def _ends_at(one: Gpu, other: Gpu) -> bool:
    there = address(other)
    for number in range(LINKS):
        remote = one.link_remote(number)
        if one.link(number, "state") != 1 or isinstance(remote, Gap):
            continue
        try:
            if Bdf.parse(str(remote.get("busId"))) == there:
                return True
        except ValueError:
            continue
    return False
