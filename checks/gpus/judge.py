"""All rules of ``provcheck gpus``, in the order of the report. Adding a check is adding a row here.

Pure: the same scene gives the same findings, live or replayed.
"""

from __future__ import annotations

from collections.abc import Iterator

from checks.gpus import adapter, driver, health, links
from checks.gpus.dump import GPU_IS_LOST, Gap, Gpu
from checks.gpus.host_rules import NODE_RULES
from checks.gpus.rule import GpuRule, HostRule, Outcome, Scene, passed, skipped, unknown, warned
from checks.model import Finding

HOST_RULES = (
    HostRule("driver.responds", driver.responds),
    HostRule("driver.loaded", driver.loaded),
    HostRule("driver.library", driver.library),
    HostRule("driver.floor", driver.floor),
    HostRule("gpu.count", driver.count),
)

ADAPTER_RULE = "driver.adapter_init"
"""Judges what NVML does not show: one finding per such GPU, by its PCI address, else one for the host."""

GPU_RULES = (
    GpuRule("gpu.lost", health.lost),
    GpuRule("gpu.identity", health.identity),
    GpuRule("gpu.recovery", health.recovery),
    GpuRule("gpu.ecc", health.ecc),
    GpuRule("gpu.row_remap", health.row_remap),
    GpuRule("gpu.pcie_width", links.pcie_width),
    GpuRule("gpu.throttle", health.throttle),
    GpuRule("gpu.temperature", health.temperature),
    GpuRule("gpu.power_limit", health.power_limit),
    GpuRule("nvlink.state", links.nvlink),
    GpuRule("fabric.state", links.fabric),
)


def judge(scene: Scene) -> tuple[Finding, ...]:
    """One finding per rule and subject, passes included."""
    if scene.expect == 0:
        return tuple(_none_wanted(scene))
    adapters = (outcome.finding(ADAPTER_RULE, subject) for subject, outcome in adapter.started(scene))
    around = (o.finding(rule.id, subject) for rule in NODE_RULES for subject, o in rule.judge(scene))
    return (*_host(scene), *adapters, *_gpus(scene), *around)


def _none_wanted(scene: Scene) -> Iterator[Finding]:
    seen = scene.dump.count
    surplus = seen if isinstance(seen, int) else 0
    for rule in (*HOST_RULES, *GPU_RULES):
        outcome = skipped("no GPU is wanted here")
        if rule.id == "gpu.count":
            outcome = passed("0 of 0 GPUs", value=0, limit=0)
            if surplus:
                fix = "correct the inventory, or --expect"
                outcome = warned(f"{surplus} GPUs where none is wanted", value=surplus, limit=0, fix=fix)
        yield outcome.finding(rule.id, "host")
    yield skipped("no GPU is wanted here").finding(ADAPTER_RULE, "host")


def _host(scene: Scene) -> Iterator[Finding]:
    for rule in HOST_RULES:
        if scene.dump.init is not None and rule.id == "driver.floor":
            yield unknown(f"the GPUs could not be asked: {scene.dump.init}").finding(rule.id, "host")
        else:
            yield rule.judge(scene).finding(rule.id, "host")


def _gpus(scene: Scene) -> Iterator[Finding]:
    if scene.dump.init is not None or isinstance(scene.dump.count, Gap):
        yield from _not_enumerated(scene)
    elif not scene.dump.gpus:
        for rule in GPU_RULES:
            yield skipped("NVML lists no GPU: see gpu.count").finding(rule.id, "host")
    for gpu in scene.dump.gpus:
        for rule in GPU_RULES:
            yield _judge_gpu(rule, gpu, scene).finding(rule.id, gpu.subject)


def _not_enumerated(scene: Scene) -> Iterator[Finding]:
    gap = scene.dump.init or scene.dump.count
    for rule in GPU_RULES:
        outcome = unknown(f"the GPUs could not be asked: {gap}")
        if rule.id == "gpu.lost" and isinstance(gap, Gap) and gap.code == GPU_IS_LOST:
            outcome = health.lost(Gpu(0, {}, gap), scene)
        yield outcome.finding(rule.id, "host")


def _judge_gpu(rule: GpuRule, gpu: Gpu, scene: Scene) -> Outcome:
    """A lost GPU still answers from caches: nothing but gpu.lost is believed of it."""
    if rule.id != "gpu.lost" and gpu.lost() is not None:
        return unknown("the GPU is lost: what it still answers proves nothing")
    if rule.id != "gpu.lost" and gpu.handle is not None:
        return unknown(f"NVML gives no access to it: {gpu.handle}")
    return rule.judge(gpu, scene)
