"""From a record to the report of ``provcheck gpus``: parsed, judged, and what its evidence cannot show left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from checks.errors import BadInput
from checks.gpus import dump, judge, node, which
from checks.gpus.dump import Gap
from checks.gpus.rule import Plan, Scene
from checks.load import busy
from checks.model import Finding, Report, Status
from checks.record import Record


@dataclass(frozen=True)
class Asked:
    """What else the caller wants judged: see the options of the same names."""

    plan: Plan = field(default_factory=Plan)
    since: Record | None = None
    leave_out: frozenset[str] = frozenset()


def judge_record(
    record: Record, expect: int | None, *, replayed: bool, name: str, ask: Asked | None = None
) -> Report:
    """The report on a record. Raises BadInput when the record holds no GPU evidence or a wrong part."""
    if record.nvml is None:
        raise BadInput(f"{name} holds no NVML dump: make the record with 'provcheck gpus --record FILE'")
    ask = ask or Asked()
    since = ask.since and ask.since.nvml
    scene = Scene(
        dump.parse(record.nvml, name),
        node.parse(record.sections, name),
        expect,
        ask.plan,
        dump.parse(since, "the record of --since") if since else None,
        live=not replayed,
    )
    gpus = _facts(scene, record.nvml)
    facts = {
        "host": record.host,
        "taken": record.taken,
        "driver": _plain(scene.dump.driver),
        "gpus": gpus,
    }
    findings = which.with_board(judge.left_out(judge.judge(scene), ask.leave_out), gpus)
    if record.covers is not None:
        from checks.gpus.texts import coverage

        findings = coverage.kept(findings, record.covers)
        if expect is not None and not any(one.id == "gpu.count" for one in findings):
            findings = (_uncounted(expect, name), *findings)
        if not findings:
            raise BadInput(
                f"{name} shows nothing that provcheck gpus judges; send 'nvidia-smi -q' or a kernel log"
            )
    return Report("gpus", findings, "replayed" if replayed else "live", facts)


def _uncounted(expect: int, name: str) -> Finding:
    """The number was asked for, and the text shows none: that is no green answer to the question."""
    return Finding(
        "gpu.count",
        Status.UNKNOWN,
        "host",
        f"{expect} GPUs are expected, and {name} does not show how many there are",
        limit=expect,
        fix="give a text that lists all GPUs as well: --replay of 'nvidia-smi -L', 'nvidia-smi -q' or 'lspci -nn'",
    )


def _facts(scene: Scene, nvml: Mapping[str, Any]) -> list[dict[str, object]]:
    return [
        {
            "index": gpu.index,
            "name": _plain(gpu.text("nvmlDeviceGetName")),
            "uuid": _plain(gpu.text("nvmlDeviceGetUUID")),
            "pci": _plain(which.address(gpu)),
            **_use(nvml, gpu.index),
        }
        for gpu in scene.dump.gpus
    ]


def _use(nvml: Mapping[str, Any], index: int) -> dict[str, object]:
    """Bytes of its memory, and who holds it in words; each None when NVML did not tell."""
    devices = nvml.get("devices")
    device = devices[index] if isinstance(devices, list) and index < len(devices) else {}
    memory = next(
        (device[key] for key in ("memv2", "nvmlDeviceGetMemoryInfo") if _sized(device.get(key))), None
    )
    return {
        "memory": memory and {name: memory[name] for name in ("total", "free", "used")},
        "held_by": busy.holders(device) if busy.seen(device) else None,
    }


def _sized(memory: object) -> bool:
    return isinstance(memory, dict) and all(
        isinstance(memory.get(name), int) for name in ("total", "free", "used")
    )


def _plain(value: object) -> str | None:
    return None if isinstance(value, Gap) else str(value)


def gated(report: Report, root: str = "") -> Report:
    """A replayed report as a gate must see it: green only where the test-host marker is."""
    from checks import testhost

    try:
        uuid = testhost.marker(root)
        why = f"{testhost.MARKER} is not there"
    except testhost.MarkerRefused as error:
        uuid, why = None, str(error)
    if uuid is not None:
        finding = Finding(
            "node.test_host", Status.PASS, "host", f"test host {uuid}: replayed evidence counts"
        )
    else:
        finding = Finding(
            "node.test_host",
            Status.UNKNOWN,
            "host",
            "replayed evidence opens a gate on a test host only, and this is none",
            cause=why,
            fix="run the check live: leave --replay out",
        )
    return Report(report.command, (*report.findings, finding), report.evidence, report.facts)
