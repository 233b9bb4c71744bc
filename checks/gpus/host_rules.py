"""The rules about the machine around its GPUs, in the order of the report. Adding one is adding a row here.

A rule gives an outcome per subject, and none at all for evidence that the record never had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from checks.gpus import host_bus_rules, host_kernel, host_seat_rules, kernel_rules
from checks.gpus.rule import Outcome, Scene


class NodeRule(NamedTuple):
    id: str
    judge: Callable[[Scene], Iterator[tuple[str, Outcome]]]


NODE_RULES = (
    NodeRule("gpu.xid", host_kernel.xid),
    NodeRule("pcie.errors", kernel_rules.pcie_errors),
    NodeRule("driver.log", kernel_rules.driver_log),
    NodeRule("fabric.sxid", host_kernel.sxid),
    NodeRule("fabric.manager", host_bus_rules.fabric_manager),
    NodeRule("node.iommu", host_bus_rules.iommu),
    NodeRule("pcie.acs", host_bus_rules.acs),
    NodeRule("node.device_nodes", host_seat_rules.device_nodes),
    NodeRule("node.cgroup", host_seat_rules.cgroup),
    NodeRule("node.shm", host_seat_rules.shm),
    NodeRule("node.memlock", host_seat_rules.memlock),
    NodeRule("node.environment", host_seat_rules.environment),
    NodeRule("node.nccl_crash", kernel_rules.nccl_crash),
    NodeRule("driver.peermem", kernel_rules.peermem),
)
