"""Measured numbers to findings. Pure: the same record gives the same report, live or replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from checks.data.cuda_errors import OUT_OF_MEMORY, meaning_of
from checks.gpus.rule import Outcome, failed, passed, skipped, unknown, warned
from checks.load import busy, rules_bus, rules_core, rules_health
from checks.load.evidence import Measured, Run, tree
from checks.load.turn import TAKEN
from checks.model import Finding


class Rule(NamedTuple):
    """``step`` is the part of the run whose measurements ``judge`` reads."""

    id: str
    step: str
    judge: Callable[[Run, Measured], Outcome]


RULES = (
    Rule("load.start", "start", rules_core.start),
    Rule("load.h2d", "link", rules_bus.h2d),
    Rule("load.d2h", "link", rules_bus.d2h),
    Rule("load.copy_integrity", "link", rules_bus.integrity),
    Rule("load.pcie_width", "link", rules_bus.width),
    Rule("load.pcie_generation", "link", rules_bus.generation),
    Rule("load.memory_bandwidth", "memory", rules_core.bandwidth),
    Rule("load.memory_pattern", "memory", rules_core.pattern),
    Rule("load.compute", "heat", rules_core.compute),
    Rule("load.tensor", "heat", rules_core.tensor),
    Rule("load.clocks", "heat", rules_health.clocks),
    Rule("load.temperature", "heat", rules_health.temperature),
    Rule("load.release", "stop", rules_health.release),
)
ECC = "load.ecc"
BUSY = "load.busy"
_ORDER = ("start", "link", "memory", "heat", "stop")


def judge(measured: Measured) -> tuple[Finding, ...]:
    """One finding per rule and GPU that was to be loaded; when nothing could be loaded, the reason alone."""
    return tuple(_all(measured))


def _all(measured: Measured) -> Iterator[Finding]:
    if measured.init is not None:
        yield unknown(
            f"NVML could not be started: {measured.init}",
            cause="without it nobody can say whether a GPU is in use, and a load would disturb its user",
            fix="see 'provcheck gpus' for the driver",
        ).finding(BUSY, "host")
        return
    if not measured.chosen:
        yield unknown("NVML lists no GPU: there is nothing to load", fix="see 'provcheck gpus'").finding(
            BUSY, "host"
        )
    for index in measured.chosen:
        yield _busy(measured, index).finding(BUSY, f"gpu{index}")
        yield from _gpu(measured, index)


def _busy(measured: Measured, index: int) -> Outcome:
    if index >= len(measured.before):
        return unknown(f"there is no gpu{index}: NVML lists {len(measured.before)}", fix="correct --gpus")
    device = measured.before[index]
    if "handle" in device:
        return unknown(
            f"NVML gives no access to this GPU: {tree(device, 'handle').get('msg')}",
            fix="see 'provcheck gpus'",
        )
    if index in measured.taken:
        return unknown(f"not loaded: {TAKEN}", fix="wait until it ends: the two would measure each other")
    held = busy.holders(device)
    shown = "; ".join(held[:4]) + (f" and {len(held) - 4} more" if len(held) > 4 else "")
    cramped = busy.too_little(device)
    if held and measured.forced and cramped and index not in measured.runs:
        return unknown(f"in use, not loaded even by force: {cramped}; {shown}", fix="stop the user first")
    if held and measured.forced:
        return warned(
            f"in use, loaded all the same: {shown}", cause="rates and times are shared with its user"
        )
    if held:
        return unknown(
            f"in use, not loaded: {shown}",
            cause="a load would slow its user down and measure the two together",
            fix="stop the user first, or load beside it with --force",
        )
    if not busy.seen(device):
        return unknown(
            "NVML says neither processes nor memory in use", fix="run as root; --force loads all the same"
        )
    if index not in measured.runs and not _sliced(measured, index):
        return passed(
            "idle; not loaded, because another GPU is in use", value=busy.used_bytes(device), unit="B"
        )
    return passed("idle before the load", value=busy.used_bytes(device), unit="B")


def _sliced(measured: Measured, index: int) -> bool:
    mode = measured.device(index).get("nvmlDeviceGetMigMode")
    return isinstance(mode, list) and mode[:1] == [1]


def _gpu(measured: Measured, index: int) -> Iterator[Finding]:
    subject = f"gpu{index}"
    run = measured.runs.get(index)
    if run is None:
        if _sliced(measured, index):
            yield skipped("MIG is on: this loads whole GPUs only").finding("load.start", subject)
        return
    told = False
    for rule in RULES:
        if rule.step in run.steps:
            yield rule.judge(run, measured).finding(rule.id, subject)
        elif not told and _is_here(rule, run):
            told = True
            yield _broken(run).finding(rule.id, subject)
        else:
            yield unknown(f"not measured: the run ended at '{_ended_at(run)}'").finding(rule.id, subject)
    yield rules_health.ecc(run, measured).finding(ECC, subject)


def _ended_at(run: Run) -> str:
    step = tree(run.ended).get("step")
    return step if step in _ORDER else "start"


def _is_here(rule: Rule, run: Run) -> bool:
    """Whether the run ended in what this rule looks at; a failed copy back to the host is load.d2h's."""
    if rule.step != _ended_at(run):
        return False
    back = str(tree(run.ended).get("doing", "")).startswith("copying to the host")
    return not (rule.id == "load.h2d" and back)


def _broken(run: Run) -> Outcome:
    """How the run ended: an error of the driver, a hang, a crash."""
    ended = tree(run.ended)
    kind, code, doing = ended.get("kind"), ended.get("code"), ended.get("doing")
    while_doing = f" while {doing}" if isinstance(doing, str) and doing else ""
    if kind == "cuda":
        row = meaning_of(code if isinstance(code, int) else None, started=_ended_at(run) != "start")
        message = f"{ended.get('call')} gave {code} {ended.get('name')}: {ended.get('text')}{while_doing}"
        cause, fix = (row.cause, row.fix) if row else (None, "look at the kernel log for an Xid at this time")
        judge_as = unknown if code == OUT_OF_MEMORY else failed
        return judge_as(message, value=code, cause=cause, fix=fix)
    if kind == "missing":
        return failed(
            str(ended.get("text")),
            cause="no program on this machine, or in this container, can use the GPU",
            fix="install the driver's libraries; a container needs NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        )
    if kind in ("hang", "timeout"):
        return failed(
            f"step '{_ended_at(run)}' hangs{while_doing}: {ended.get('text')}",
            cause="the GPU or its driver does not answer any more: firmware (GSP), link, or a lost GPU",
            fix="look at the kernel log for Xid 79, 119, 120; reset the GPU or reboot",
        )
    if kind == "died":
        return failed(
            f"step '{_ended_at(run)}' crashed{while_doing}: {ended.get('text')}",
            cause="the driver's library brought the process down, or something killed it",
            fix="look at the kernel log (Xid, out of memory) and at the versions in 'provcheck gpus'",
        )
    return unknown(
        f"step '{_ended_at(run)}' could not be done{while_doing}: {ended.get('text') or 'no reason given'}"
    )
