"""From a measurement to findings, in the order in which a person would look. Pure."""

from __future__ import annotations

from checks.model import Finding
from checks.nccl import rules_nodes, rules_pairs, rules_ranks, rules_speed, rules_start
from checks.nccl.scene import Scene

RULES = (
    rules_start.library,
    rules_start.runtime,
    rules_start.gpus,
    rules_start.environment,
    rules_pairs.peer_copies,
    rules_nodes.nodes,
    rules_nodes.own_gpu,
    rules_ranks.came_through,
    rules_ranks.sums,
    rules_speed.transport,
    rules_speed.bus_bandwidth,
    rules_speed.slow_rank,
)


def judge(scene: Scene) -> tuple[Finding, ...]:
    """All findings on one measurement."""
    return tuple(finding for rule in RULES for finding in rule(scene))
