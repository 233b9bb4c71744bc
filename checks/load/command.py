"""``provcheck load``: puts GPUs to work for seconds, or replays that, judges, reports."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from checks import record as records
from checks.asking import all_of
from checks.bdf import Bdf
from checks.errors import Unreachable
from checks.gpus import mask, which
from checks.judged import AllAtOnce, judged
from checks.load import judge, run
from checks.load.evidence import KIND, PATH, Measured, of_record, tree
from checks.load.options import MIB, Options
from checks.model import Finding, Report, Status
from checks.paths import READ, WRITTEN
from checks.ranges import FiniteRange
from checks.record import Record
from checks.report.options import Presentation, also, apart, finish, kept, progress, report_options, writes

_EPILOG = """\b
Examples:
  provcheck load
  provcheck load --gpus 0,1 --seconds 20
  provcheck load --record load.json            keep all numbers
  provcheck load --replay load.json            judge them again, anywhere
  provcheck load --host kpro5

\b
A GPU in use is not loaded: the answer is 'unknown' (exit 3) and says who uses it; --force loads all the same.
Nothing is set, nothing is kept: the memory is given back, the clocks stay as they were.
"""


def _indices(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    try:
        chosen = tuple(dict.fromkeys(int(word) for word in value.split(",")))
    except ValueError:
        chosen = ()
    if not chosen or min(chosen) < 0 or max(chosen) > 1023:
        raise click.BadParameter(f"{value!r} is no list of GPU numbers such as 0,1")
    return chosen


def _replayed(path: Path) -> tuple[Path, Record]:
    return path, records.load(path)


def _refuse(how: Presentation, record_to: Path | None, replay: tuple[Path, Record] | None, **_: Any) -> None:
    with all_of() as ask:
        ask.refuse(
            replay is not None and (record_to is not None or how.host is not None),
            "--replay judges measurements that are there: --record and --host do not go with it",
        )
        ask(apart, {"--record": record_to}, how)


@click.command(cls=AllAtOnce, epilog=_EPILOG, also=also(_refuse))
@click.option(
    "--seconds",
    type=FiniteRange(0.1, 3600),
    default=4.0,
    show_default=True,
    help="How long all GPUs compute together; copies and memory take about 2 s per GPU more.",
)
@click.option(
    "--gpus", callback=_indices, metavar="0,1,...", help="Only these, as NVML numbers them; all unless given."
)
@click.option("--force", is_flag=True, help="Load a GPU that is in use, too.")
@click.option(
    "--size",
    type=click.IntRange(1, 4096),
    default=256,
    show_default=True,
    metavar="MIB",
    help="Pinned host memory per GPU for copies.",
)
@click.option(
    "--memory",
    type=click.IntRange(4, 1 << 20),
    default=4096,
    show_default=True,
    metavar="MIB",
    help="GPU memory to write and check, at most half of what is free.",
)
@click.option(
    "--deadline",
    type=FiniteRange(0.5, 600),
    default=30.0,
    show_default=True,
    help="Seconds that a step may take beyond its own length; then it hangs.",
)
@click.option(
    "--record",
    "record_to",
    type=WRITTEN,
    callback=writes,
    help="Keep the measurements in this file (provcheck-record/1).",
)
@click.option(
    "--replay",
    type=READ,
    callback=judged(_replayed),
    help="Judge the measurements in this file instead of measuring.",
)
@report_options
def load(
    how: Presentation,
    seconds: float,
    gpus: tuple[int, ...] | None,
    force: bool,
    size: int,
    memory: int,
    deadline: float,
    record_to: Path | None,
    replay: tuple[Path, Record] | None,
) -> int:
    """Do the GPUs work? Loads them for some seconds, checks every result, changes nothing.

    Per GPU: copies both ways at the rate of the link and unchanged, link width and generation meanwhile, rate
    and soundness of its memory, results of all multiprocessors against the host's, clocks, heat, new errors.
    """
    _refuse(how, record_to, replay)
    options = Options(seconds, size * MIB, memory * MIB, deadline)
    try:
        if replay is not None:
            record = replay[1]
        elif how.host is not None:
            record = run.afar(how.host, options, gpus, force=force)
        else:
            record = run.observe(options, gpus, force=force, tell=progress("load"))
    except Unreachable as error:
        finding = Finding(
            "node.reachable", Status.UNKNOWN, "host", str(error), cause=error.cause, fix=error.fix
        )
        return finish(Report("load", (finding,), facts={"host": how.host}), how)
    if record_to is not None:
        how = kept(record_to, mask.record(record, serials=True, uuids=False).dump(), how)
    return finish(
        judge_record(record, replayed=replay is not None, name=str(replay[0] if replay else "this machine")),
        how,
    )


def judge_record(record: Record, *, replayed: bool, name: str) -> Report:
    """The report on a record. Raises BadInput when the record holds no load measurement or a wrong part."""
    measured = of_record(record.sections, name)
    facts = {"host": record.host, "taken": record.taken, **_facts(record, measured)}
    findings = which.with_board(judge.judge(measured), facts["gpus"])
    return Report("load", findings, "replayed" if replayed else "live", facts)


def _facts(record: Record, measured: Measured) -> dict[str, Any]:
    """Every number that was measured, without what NVML says of processes."""
    section = next(s for s in record.sections if (s.kind, s.path) == (KIND, PATH))
    data = json.loads(section.data or b"{}")
    return {
        "driver": data["before"].get("nvmlSystemGetDriverVersion"),
        "options": dict(measured.options),
        "took_s": data.get("took_s"),
        "gpus": [
            {
                "index": index,
                "name": measured.name(index),
                **_board(measured.device(index)),
                "steps": one.steps,
                "ended": one.ended,
            }
            for index, one in measured.runs.items()
        ],
    }


def _board(device: Mapping[str, Any]) -> dict[str, str | None]:
    """``uuid`` and ``pci`` of a GPU by what NVML said of it; None for what it did not say."""
    uuid, bus = device.get("nvmlDeviceGetUUID"), tree(device, "nvmlDeviceGetPciInfo").get("busId")
    try:
        pci = str(Bdf.parse(bus.removeprefix("b:"))) if isinstance(bus, str) else None
    except ValueError:
        pci = None
    return {"uuid": uuid.removeprefix("b:") if isinstance(uuid, str) else None, "pci": pci}
