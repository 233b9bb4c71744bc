"""Rules about many nodes: who came, and which one is bad by its pairs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from checks.gpus.rule import failed, passed, unknown, warned
from checks.model import Finding
from checks.nccl import own
from checks.nccl.measured import Run, run_of
from checks.nccl.rates import best, bus_rate
from checks.nccl.scene import Scene

SLOW_PAIR = 0.7
"""A pair of nodes below this part of the fastest pair is slow: of three pairs a bad node slows two."""


def nodes(scene: Scene) -> Iterator[Finding]:
    """nccl.node: a finding per node that is not well, one for all when all are."""
    told = scene.measured.nodes
    if told is None:
        return
    if told.get("error"):
        fix = "see that node 0 runs, that its address and port can be reached, and that all nodes share PROVCHECK_TOKEN"
        yield unknown(f"the nodes could not meet at {told.get('at')}: {told['error']}", fix=fix).finding(
            "nccl.node", f"node{told.get('node')}"
        )
        return
    joined = told.get("joined") or {}
    bad = False
    for node in range(int(told.get("nnodes") or 0)):
        entry = joined.get(str(node))
        if entry is None:
            bad = True
            text = f"node {node} never came to {told.get('at')} within {float(told.get('join_s') or 0):g} s"
            fix = f"start the same command there with --node-rank {node}; look at its network"
            yield failed(text, fix=fix).finding("nccl.node", f"node{node}")
        elif not entry.get("gpus"):
            bad = True
            text = f"node {node} takes no part: {entry.get('why') or 'it has no GPU'}"
            yield failed(text, fix="see the report that it printed itself").finding(
                "nccl.node", f"node{node}"
            )
    silent = [int(node) for step in told.get("steps") or () for node in step.get("silent") or ()]
    for node in sorted(set(silent)):
        bad = True
        yield unknown(f"node {node} sent no result", fix="see the report that it printed itself").finding(
            "nccl.node", f"node{node}"
        )
    pairs = list(_pairs(told))
    yield from _by_pairs(pairs)
    if not bad and not _blamed(pairs):
        count = sum(int(entry.get("gpus") or 0) for entry in joined.values())
        tried = f"; {len(pairs)} pairs of nodes were well" if pairs else ""
        yield passed(f"{len(joined)} nodes with {count} GPUs came{tried}").finding("nccl.node", "host")


def own_gpu(scene: Scene) -> Iterator[Finding]:
    """nccl.own_gpu: a finding per GPU that more than one rank would have. Nothing of a record without UUIDs."""
    joined = (scene.measured.nodes or {}).get("joined") or {}
    twice, untold = own.twice(joined), own.untold(joined)
    for uuid, places in twice.items():
        where = " and ".join(f"GPU {number} of node {node}" for node, number in places)
        yield failed(
            f"{where} are one: {uuid}. Nothing was measured between the nodes",
            cause="the same GPU is handed to several containers, or one machine stands under several host names: NCCL "
            "looks for a GPU that is used twice within one host name only",
            fix="give each node GPUs of its own: start it on another machine, hand the container another GPU, or name "
            "others with --gpus",
        ).finding("nccl.own_gpu", f"node{places[-1][0]}")
    if untold:
        who = ", ".join(map(str, untold))
        yield unknown(
            f"whether every rank has a GPU of its own is not known: node {who} did not say which GPUs it has",
            cause="a provcheck of another version, or a driver that tells no UUID of its own for a MIG instance",
            fix="the same provcheck on every node; see that no two nodes are one machine",
        ).finding("nccl.own_gpu", "host")
    told = [entry for entry in joined.values() if entry.get("gpus") and entry.get("uuids")]
    if len(told) > 1 and not twice and not untold:
        count = sum(len(entry["uuids"]) for entry in told)
        yield passed(f"{count} GPUs on {len(told)} nodes, no two of them one").finding("nccl.own_gpu", "host")


def _pairs(told: Mapping[str, Any]) -> Iterator[tuple[tuple[int, int], Run]]:
    for step in told.get("steps") or ():
        group = list(step.get("group") or ())
        if len(group) == 2:
            yield (int(group[0]), int(group[1])), run_of(step)


def _well(run: Run) -> bool:
    right = all(line.get("wrong") == 0 for rank in run.ranks for line in rank.sums)
    return run.whole and len(run.ranks) == run.nranks and right


def _slow(pairs: list[tuple[tuple[int, int], Run]]) -> list[tuple[int, int]]:
    rates = {pair: rate for pair, run in pairs if (rate := _rate(run)) is not None}
    if len(rates) < 3:
        return []
    usual = max(rates.values())
    return [pair for pair, rate in rates.items() if rate < SLOW_PAIR * usual]


def _rate(run: Run) -> float | None:
    size, seconds = best(run)
    return bus_rate(size, seconds, run.nranks) if size and seconds else None


def _blamed(pairs: list[tuple[tuple[int, int], Run]]) -> list[tuple[int, int]]:
    return [pair for pair, run in pairs if not _well(run)] + _slow(pairs)


def _by_pairs(pairs: list[tuple[tuple[int, int], Run]]) -> Iterator[Finding]:
    """A node that is bad in every pair that it was in is the bad one; else the pair is said as it is."""
    broken, slow = [pair for pair, run in pairs if not _well(run)], _slow(pairs)
    for kind, bad, make in (("did not come through", broken, failed), ("are slow", slow, warned)):
        good = {node for (a, b), _ in pairs if (a, b) not in bad for node in (a, b)}
        guilty = sorted({node for pair in bad for node in pair if node not in good})
        for node in guilty:
            with_whom = ", ".join(f"{a}-{b}" for a, b in bad if node in (a, b))
            text = f"node {node}: all its pairs {kind} ({with_whom}), their other halves are well with others"
            fix = "look at its own report, its network ports and cables"
            yield make(text, fix=fix).finding("nccl.node", f"node{node}")
        for a, b in bad:
            if a not in guilty and b not in guilty:
                text = f"nodes {a} and {b} {kind} with each other, and are well with others"
                fix = "look at the network between these two"
                yield make(text, fix=fix).finding("nccl.node", f"node{a}")
