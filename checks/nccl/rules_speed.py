"""Rules about speed: bus bandwidth against the limit, the transport in use, the rank that is late. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from checks.gpus.rule import Outcome, failed, passed, skipped, unknown, warned
from checks.model import Finding
from checks.nccl import debuglog, limits
from checks.nccl.limits import Limit, NoLimit
from checks.nccl.measured import Rank, Run
from checks.nccl.rates import best, bus_rate, curve
from checks.nccl.scene import Scene, bytes_text

FULL = 1 << 30
"""Bytes from which on a ring reaches its rate: a healthy pair read 0.81 of the limit at 256 MiB, 0.90 here."""
THRESHOLDS = {"nvlink": (0.85, 0.75), "pcie": (0.40, 0.25), "socket": (0.50, 0.25)}
"""Kind of limit -> ratio from which on it passes, ratio under which it fails. Sockets: NCCL came to 0.54 to 0.69
of one TCP connection each way (5.4 to 7.0 GB/s) between two names of one machine (docs/measurements.md)."""
IMPOSSIBLE = 1.1
"""A ring was never seen above 0.99 of NCCL's model: what is above this is no ring, no true time, or a wrong limit."""
SHOWN = tuple(1 << power for power in (20, 24, 28, 30))
LATE_RATIO, LATE_S = 2.0, 0.002
_ONE = "one GPU: nothing to compare it with"


def bus_bandwidth(scene: Scene) -> Iterator[Finding]:
    """The best of three medians as a ratio of what the links can do."""
    run = scene.first
    if run is None or not run.ranks:
        return
    yield _bandwidth(scene, run).finding("nccl.busbw", "host")


def _bandwidth(scene: Scene, run: Run) -> Outcome:
    if run.nranks == 1:
        return skipped("one GPU: no link between GPUs to measure")
    size, seconds = best(run)
    if not size or not seconds:
        return unknown("not measured: the ranks did not come to the timed all-reduces")
    busbw = bus_rate(size, seconds, run.nranks)
    text = f"{busbw:.1f} GB/s at {bytes_text(size)} over {run.nranks} GPUs{_by_size(run)}"
    value = {"value": round(busbw, 2), "unit": "GB/s"}
    if any(log.nvls for (number, _), log in scene.logs.items() if number == 0):
        return skipped(f"{text} with NVLS, which goes beyond the links' own rate: no ratio", **value)
    limit = _limit(scene)
    if isinstance(limit, NoLimit):
        if scene.measured.nodes:
            return skipped(
                f"{text}; between nodes the network is the limit, not known here: {limit.reason}", **value
            )
        return unknown(f"{text}; no limit to hold it against: {limit.reason}", **value)
    ratio = busbw / limit.gbytes
    good, bad = THRESHOLDS[limit.kind]
    told = f"{text}: {ratio:.2f} of {limit.gbytes:.1f} ({limit.said})"
    more = {**value, "limit": round(limit.gbytes, 2)}
    if busbw > IMPOSSIBLE * limit.most:
        return warned(
            f"{told}: more than they can carry, so either the measurement or the limit is wrong",
            cause="the links counted are not the ones in use, NCCL used another algorithm than a ring (NCCL_ALGO, "
            "NVLS), or the GPU's clock is wrong",
            fix="compare with nccl-tests; keep 'provcheck nccl --record FILE' and report it",
            **more,
        )
    if ratio >= good:
        return passed(told, **more)
    if size < FULL and limit.kind != "socket":
        make = skipped if scene.measured.size < FULL else unknown
        return make(f"{told}; only from {bytes_text(FULL)} on does the ratio say anything", **more)
    cause, fix = _slow_cause(scene)
    if ratio >= bad:
        return warned(f"{told}, below {good:g}", cause=cause, fix=fix, **more)
    return failed(f"{told}, below {bad:g}", cause=cause, fix=fix, **more)


def _limit(scene: Scene) -> Limit | NoLimit:
    if scene.measured.nodes is not None:
        return limits.of_sockets(scene.measured.nodes.get("sockets"))
    seen = [scene.nvml(ordinal) for ordinal in scene.measured.gpus]
    gpus = [gpu for gpu in seen if gpu is not None]
    return (
        limits.of_ring(gpus, scene.p2p) if len(gpus) == len(seen) else NoLimit("NVML did not show these GPUs")
    )


def _by_size(run: Run) -> str:
    """Some points of the curve, in words."""
    seconds = curve(run)
    if not seconds:
        return ""
    least = min(seconds)
    told = [f"{bytes_text(least)} in {seconds[least] * 1e6:.0f} us"]
    told += [
        f"{bytes_text(size)} {bus_rate(size, time, run.nranks):.1f}"
        for size, time in seconds.items()
        if size in SHOWN
    ]
    return f" ({', '.join(told)})"


def _slow_cause(scene: Scene) -> tuple[str, str]:
    if scene.measured.nodes is not None:
        return (
            "NCCL uses the sockets badly: few connections or threads (NCCL_NSOCKS_PERTHREAD, NCCL_SOCKET_NTHREADS), a "
            "slow processor, or other traffic meanwhile",
            "try NCCL_SOCKET_NTHREADS=4 and NCCL_NSOCKS_PERTHREAD=4, and measure again on idle nodes",
        )
    late = late_rank(scene)
    if late is not None:
        return f"{scene.rank(late[0])} is late to every collective", "see nccl.slow_rank"
    if any(name.startswith(("SHM", "NET")) for name in _transports(scene)):
        return "the data does not go over the links: see nccl.transport", "see nccl.transport"
    return (
        "links that are down or retrying, a GPU that is throttled, other traffic on the links",
        "see nvlink.state, gpu.throttle and pcie.width in 'provcheck gpus'; measure again on an idle host",
    )


def _transports(scene: Scene) -> dict[str, int]:
    return debuglog.used(log for (number, _), log in scene.logs.items() if number == 0)


def transport(scene: Scene) -> Iterator[Finding]:
    """What carried the data, by NCCL's own log."""
    run = scene.first
    if run is None or not run.ranks:
        return
    yield _transport(scene, run).finding("nccl.transport", "host")


def _transport(scene: Scene, run: Run) -> Outcome:
    if run.nranks == 1:
        return skipped("one GPU: nothing is carried anywhere")
    hosts = (scene.measured.nodes or {}).get("of_rank", {})
    hops = {hop for (number, _), log in scene.logs.items() if number == 0 for hop in log.hops}
    inside = [hop for hop in hops if hosts.get(str(hop.src)) == hosts.get(str(hop.dst))]
    used = _transports(scene)
    if not used:
        return unknown(
            "NCCL logged no channel between ranks", fix="is NCCL_DEBUG_FILE writable for the ranks?"
        )
    text = ", ".join(f"{name} on {count} hop{'s' if count > 1 else ''}" for name, count in used.items())
    told = {**scene.measured.environment, **run.extra}
    off = " ".join(
        f"{name}={told[name]}"
        for name in ("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_P2P_LEVEL")
        if told.get(name) not in (None, "", "0")
    )
    why = f"the environment says {off}" if off else None
    names = {hop.transport for hop in inside}
    if any(name.startswith("NET") for name in names):
        return failed(
            f"{text}: the network carries data inside one host",
            value=text,
            cause=why or "neither peer access nor shared memory could be used between these processes",
            fix="take the variable out of the service"
            if off
            else "see nccl.peer_copy, and /dev/shm: the ranks must share one",
        )
    access = {tuple(pair) for pair in scene.measured.look.get("access") or ()}
    gpus = scene.measured.gpus
    possible = all((a, b) in access for a in gpus for b in gpus if a != b)
    if "SHM" in names and possible:
        return warned(
            f"{text}: through host memory, though the driver allows peer access",
            value=text,
            cause=why or "NCCL finds the way between the GPUs too long for peer access (NCCL_P2P_LEVEL)",
            fix="take the variable out of the service"
            if off
            else "if nccl.peer_copy is green, try NCCL_P2P_LEVEL=SYS and compare nccl.busbw",
        )
    return passed(f"{text}: no peer access between these GPUs" if names == {"SHM"} else text, value=text)


def slow_rank(scene: Scene) -> Iterator[Finding]:
    """Whether one rank comes late to the collectives, so that all wait for it."""
    run = scene.first
    if run is None or not run.ranks:
        return
    if run.nranks == 1:
        yield skipped(_ONE).finding("nccl.slow_rank", "host")
        return
    own = _own(run)
    if len(own) < len(run.ranks):
        yield unknown("not measured: the ranks did not come to the paced all-reduces").finding(
            "nccl.slow_rank", "host"
        )
        return
    late = late_rank(scene)
    if late is None:
        span = f"{min(own.values()) * 1e3:.2f} to {max(own.values()) * 1e3:.2f} ms"
        yield passed(f"each rank comes to a collective after {span} of its own work").finding(
            "nccl.slow_rank", "host"
        )
        return
    rank, mine, others = late
    yield warned(
        f"{scene.rank(rank)} comes {(mine - others) * 1e3:.1f} ms late to every collective ({mine / others:.1f} times "
        "the others' own work): all wait for it",
        value=round(mine, 6),
        limit=round(others, 6),
        unit="s",
        cause="its GPU is throttled or shared, its process has too little CPU, or it sits on the wrong NUMA node",
        fix="see gpu.throttle, gpu.processes and gpu.numa in 'provcheck gpus', and the CPUs that the process may use",
    ).finding("nccl.slow_rank", scene.subject(rank))


def late_rank(scene: Scene) -> tuple[Rank, float, float] | None:
    """The latest rank with its own seconds and the median of the others', None when none is late."""
    run = scene.first
    own = _own(run) if run else {}
    if run is None or len(own) < 2:
        return None
    number = max(own, key=lambda rank: own[rank])
    others = statistics.median(seconds for rank, seconds in own.items() if rank != number)
    mine = own[number]
    if mine < others * LATE_RATIO or mine - others < LATE_S:
        return None
    return next(rank for rank in run.ranks if rank.rank == number), mine, others


def _own(run: Run) -> dict[int, float]:
    told = {rank.rank: rank.first("own_s") for rank in run.ranks}
    return {
        rank: statistics.median(seconds)
        for rank, seconds in told.items()
        if isinstance(seconds, list) and seconds
    }
