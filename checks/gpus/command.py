"""``provcheck gpus``: observe or replay, judge, report."""

from __future__ import annotations

from pathlib import Path

import click

from checks import record as records
from checks import testhost
from checks.errors import BadInput, Unreachable
from checks.files import write_whole
from checks.gpus import collect, dump, judge, node
from checks.gpus.dump import Gap
from checks.gpus.health import address
from checks.gpus.rule import Scene
from checks.model import Finding, Report, Status
from checks.record import Record
from checks.report.options import Presentation, finish, report_options

_EPILOG = """\b
Examples:
  provcheck gpus --expect 2
  provcheck gpus --expect 0                  a machine that should have none
  provcheck gpus --host kpro5 --record kpro5.json
  provcheck gpus --replay kpro5.json --expect 2
  provcheck gpus --format prometheus --output /var/lib/node_exporter/provcheck.prom
  provcheck gpus --format nagios

\b
Without --expect and without a driver the answer is 'unknown' (exit 3): nobody said how many GPUs there
should be. What a finding means: provcheck explain ID.
"""


@click.command(epilog=_EPILOG)
@click.option(
    "--expect", type=click.IntRange(0, dump.MAX_GPUS), metavar="N", help="How many GPUs there must be."
)
@click.option(
    "--record",
    "record_to",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the evidence in this file (provcheck-record/1).",
)
@click.option(
    "--replay",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Judge this record, or a plain NVML dump, instead of this machine.",
)
@click.option(
    "--gate",
    is_flag=True,
    help="For a service's start: a replayed verdict counts only on a marked test host, else it is 'unknown'.",
)
@click.option(
    "--deadline",
    type=click.FloatRange(0.1, 600),
    default=30.0,
    show_default=True,
    help="Seconds that NVML may take; then it hangs.",
)
@report_options
def gpus(
    how: Presentation,
    expect: int | None,
    record_to: Path | None,
    replay: Path | None,
    gate: bool,
    deadline: float,
) -> int:
    """Are all GPUs there and healthy? Reads only, changes nothing.

    One finding per check and GPU, passes included: driver and library, GPUs enumerated and alive, ECC, row
    remapping, PCIe width, throttling, temperature, power limit, NVLinks, NVSwitch fabric.
    """
    if replay is not None and (record_to is not None or how.host is not None):
        raise BadInput("--replay judges a record that is there: --record and --host do not go with it")
    if record_to is not None and not record_to.parent.is_dir():
        raise BadInput(f"--record {record_to}: the folder {record_to.parent} is not there; make it first")
    try:
        record = records.load(replay) if replay else _observe(how.host, deadline)
    except Unreachable as error:
        finding = Finding(
            "node.reachable", Status.UNKNOWN, "host", str(error), cause=error.cause, fix=error.fix
        )
        return finish(Report("gpus", (finding,), facts={"host": how.host}), how)
    if record_to is not None:
        write_whole(record_to, record.dump())
    report = judge_record(record, expect, replayed=replay is not None, name=str(replay or "this machine"))
    if gate and replay is not None:
        report = gated(report)
    return finish(report, how)


def _observe(host: str | None, deadline: float) -> Record:
    if host is None:
        return collect.collect(deadline)
    from checks.remote import record

    return record(host, deadline)


def judge_record(record: Record, expect: int | None, *, replayed: bool, name: str) -> Report:
    """The report on a record. Raises BadInput when the record holds no GPU evidence or a wrong part."""
    if record.nvml is None:
        raise BadInput(f"{name} holds no NVML dump: make the record with 'provcheck gpus --record FILE'")
    scene = Scene(dump.parse(record.nvml, name), node.parse(record.sections, name), expect)
    facts = {
        "host": record.host,
        "taken": record.taken,
        "driver": _plain(scene.dump.driver),
        "gpus": _facts(scene),
    }
    return Report("gpus", judge.judge(scene), "replayed" if replayed else "live", facts)


def _facts(scene: Scene) -> list[dict[str, object]]:
    return [
        {
            "index": gpu.index,
            "name": _plain(gpu.text("nvmlDeviceGetName")),
            "uuid": _plain(gpu.text("nvmlDeviceGetUUID")),
            "pci": _plain(address(gpu)),
        }
        for gpu in scene.dump.gpus
    ]


def _plain(value: object) -> str | None:
    return None if isinstance(value, Gap) else str(value)


def gated(report: Report, root: str = "") -> Report:
    """A replayed report as a gate must see it: green only where the test-host marker is."""
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
