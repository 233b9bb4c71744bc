"""All rules of ``provcheck gpus``, in the order of the report. Adding a check is adding a row here.

Pure: the same scene gives the same findings, live or replayed.
"""

from __future__ import annotations

from collections.abc import Iterator

from checks.gpus import (
    adapter,
    clocks,
    driver,
    fabric,
    firmware,
    growth,
    health,
    heat,
    memory,
    modes,
    numa,
    nvlink,
    p2p,
    pcie,
    processes,
)
from checks.gpus.dump import GPU_IS_LOST, NOT_READ, Gap, Gpu
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

GROWTH_RULE = "gpu.growth"

GPU_RULES = (
    GpuRule("gpu.lost", health.lost),
    GpuRule("gpu.identity", health.identity),
    GpuRule("gpu.vbios", firmware.vbios),
    GpuRule("gpu.recovery", health.recovery),
    GpuRule("gpu.ecc", memory.ecc),
    GpuRule("gpu.row_remap", memory.row_remap),
    GpuRule("gpu.retired_pages", memory.retired_pages),
    GpuRule("gpu.inforom", firmware.inforom),
    GpuRule("gpu.gsp", firmware.gsp),
    GpuRule("gpu.pcie_width", pcie.pcie_width),
    GpuRule("gpu.pcie_generation", pcie.pcie_generation),
    GpuRule("gpu.pcie_replay", pcie.pcie_replay),
    GpuRule("gpu.bar1", pcie.bar1),
    GpuRule("gpu.numa", numa.numa),
    GpuRule("gpu.throttle", heat.throttle),
    GpuRule("gpu.temperature", heat.temperature),
    GpuRule("gpu.power_limit", heat.power_limit),
    GpuRule("gpu.clocks", clocks.clocks),
    GpuRule("gpu.persistence", modes.persistence),
    GpuRule("gpu.mig", modes.mig),
    GpuRule("gpu.compute_mode", modes.compute_mode),
    GpuRule("gpu.memory", processes.memory),
    GpuRule("gpu.processes", processes.processes),
    GpuRule("nvlink.state", nvlink.state),
    GpuRule("nvlink.symmetry", nvlink.symmetry),
    GpuRule("nvlink.errors", nvlink.errors),
    GpuRule("fabric.state", fabric.fabric),
    GpuRule(GROWTH_RULE, growth.compared),
)

PAIR_RULE = "pcie.p2p"
"""Judges pairs of GPUs: one finding per pair, by ``pair A-B``, or one for the host."""


def judge(scene: Scene) -> tuple[Finding, ...]:
    """One finding per rule and subject, passes included."""
    if scene.expect == 0:
        return tuple(_none_wanted(scene))
    adapters = (outcome.finding(ADAPTER_RULE, subject) for subject, outcome in adapter.started(scene))
    pairs = (outcome.finding(PAIR_RULE, subject) for subject, outcome in p2p.pairs(scene))
    around = (o.finding(rule.id, subject) for rule in NODE_RULES for subject, o in rule.judge(scene))
    return (*_host(scene), *adapters, *_gpus(scene), *(() if _blind(scene) else pairs), *around)


def _asked(scene: Scene) -> tuple[GpuRule, ...]:
    """The rules about GPUs; growth is only asked for with an earlier record."""
    return tuple(rule for rule in GPU_RULES if rule.id != GROWTH_RULE or scene.since is not None)


def _blind(scene: Scene) -> bool:
    """Whether NVML gave no list of GPUs at all."""
    return scene.dump.init is not None or isinstance(scene.dump.count, Gap)


def left_out(findings: tuple[Finding, ...], ids: frozenset[str]) -> tuple[Finding, ...]:
    """The findings, with those of ``ids`` as a skip: the caller does not want them judged."""
    outcome = skipped("left out on request")
    return tuple(outcome.finding(one.id, one.subject) if one.id in ids else one for one in findings)


def _none_wanted(scene: Scene) -> Iterator[Finding]:
    seen = scene.dump.count
    surplus = seen if isinstance(seen, int) else 0
    if seen == NOT_READ and scene.dump.init is None:  # a text of the bus alone
        surplus = len(scene.node.gpus or ())
    for identity in (
        *(rule.id for rule in HOST_RULES),
        *(rule.id for rule in _asked(scene)),
        ADAPTER_RULE,
        PAIR_RULE,
    ):
        outcome = skipped("no GPU is wanted here")
        if identity == "gpu.count":
            outcome = passed("0 of 0 GPUs", value=0, limit=0)
            if surplus:
                fix = "correct the inventory, or --expect"
                outcome = warned(f"{surplus} GPUs where none is wanted", value=surplus, limit=0, fix=fix)
        yield outcome.finding(identity, "host")


def _host(scene: Scene) -> Iterator[Finding]:
    for rule in HOST_RULES:
        if scene.dump.init is not None and rule.id == "driver.floor":
            yield unknown(f"the GPUs could not be asked: {scene.dump.init}").finding(rule.id, "host")
        else:
            yield rule.judge(scene).finding(rule.id, "host")


def _gpus(scene: Scene) -> Iterator[Finding]:
    if _blind(scene):
        yield from _not_enumerated(scene)
    elif not scene.dump.gpus:
        for rule in _asked(scene):
            yield skipped("NVML lists no GPU: see gpu.count").finding(rule.id, "host")
    for gpu in scene.dump.gpus:
        for rule in _asked(scene):
            outcome = _judge_gpu(rule, gpu, scene)
            if outcome is not None:
                yield outcome.finding(rule.id, gpu.subject)


def _not_enumerated(scene: Scene) -> Iterator[Finding]:
    gap = scene.dump.init or scene.dump.count
    for rule in _asked(scene):
        outcome = unknown(f"the GPUs could not be asked: {gap}")
        if rule.id == "gpu.lost" and isinstance(gap, Gap) and gap.code == GPU_IS_LOST:
            outcome = health.lost(Gpu(0, {}, gap), scene)
        yield outcome.finding(rule.id, "host")
    yield unknown(f"the GPUs could not be asked: {gap}").finding(PAIR_RULE, "host")


def _judge_gpu(rule: GpuRule, gpu: Gpu, scene: Scene) -> Outcome | None:
    """A lost GPU still answers from caches: nothing but gpu.lost is believed of it. What the evidence never held of
    any GPU is left out of this one too."""
    outcome = rule.judge(gpu, scene)
    if outcome is None:
        return None
    if rule.id != "gpu.lost" and gpu.lost() is not None:
        return unknown("the GPU is lost: what it still answers proves nothing")
    if rule.id != "gpu.lost" and gpu.handle is not None:
        return unknown(f"NVML gives no access to it: {gpu.handle}")
    return outcome
