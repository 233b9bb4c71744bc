"""``provcheck gpus``: observe or replay, judge, report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from checks.asking import all_of
from checks.errors import BadInput, Unreachable
from checks.gpus import collect, dump, early, host_seat
from checks.gpus.plan_options import left_out, plan_options
from checks.gpus.report import Asked, gated, judge_record
from checks.gpus.rule import COMPUTE_MODES, Plan
from checks.judged import AllAtOnce
from checks.model import Finding, Report, Status
from checks.paths import READ, WRITTEN
from checks.ranges import FiniteRange
from checks.record import Record
from checks.report.options import Presentation, also, apart, finish, kept, report_options, writes

GIB = 1 << 30
_EPILOG = """\b
Examples:
  provcheck gpus --expect 2
  provcheck gpus --expect 0                  a machine that should have none
  provcheck gpus --host kpro5 --record kpro5.json
  provcheck gpus --since kpro5.json          what has grown since that record
  provcheck gpus --replay kpro5.json --expect 2
  provcheck gpus --format prometheus --output /var/lib/node_exporter/provcheck.prom
  provcheck gpus --format nagios

\b
Without --expect and without a driver the answer is 'unknown' (exit 3): nobody said how many GPUs there
should be. What a finding means: provcheck explain ID.


A record holds no serial numbers unless --with-serials asks for them. UUIDs stay in it, findings are told
apart by them; --mask gives each a pseudonym, the same in every record of that GPU.
"""


def _given(
    how: Presentation,
    record_to: Path | None,
    replay: tuple[Path, ...],
    pid: int | None,
    unit: str | None,
    with_serials: bool,
    mask: bool,
    **plan: Any,
) -> tuple[Asked, Record | None]:
    """By what is judged, and the records that are replayed. Raises BadInput."""
    with all_of() as ask:
        ask.refuse(
            bool(replay) and (record_to is not None or how.host is not None),
            "--replay judges a record that is there: --record and --host do not go with it",
        )
        ask(apart, {"--record": record_to}, how)
        ask.refuse(
            record_to is None and (with_serials or mask),
            "--with-serials and --mask are about what --record FILE keeps: give that too",
        )
        ask(_check_other, pid, unit, replay, how.host)
        asked = ask(_asked, **plan)
        saved = ask(_saved, replay) if replay else None
    assert asked is not None
    return asked, saved


@click.command(cls=AllAtOnce, epilog=_EPILOG, also=also(_given))
@click.option(
    "--expect", type=click.IntRange(0, dump.MAX_GPUS), metavar="N", help="How many GPUs there must be."
)
@click.option(
    "--record",
    "record_to",
    type=WRITTEN,
    callback=writes,
    help="Keep the evidence in this file (provcheck-record/1).",
)
@click.option(
    "--replay",
    type=READ,
    multiple=True,
    help="Judge this record, NVML dump or saved text (nvidia-smi -q, dmesg, lspci ...) instead of this machine;"
    " several are taken together.",
)
@click.option(
    "--gate",
    is_flag=True,
    help="For a service's start: a replayed verdict counts only on a marked test host, else it is 'unknown'.",
)
@click.option(
    "--deadline",
    type=FiniteRange(0.1, 600),
    default=30.0,
    show_default=True,
    help="Seconds that NVML may take; then it hangs.",
)
@click.option(
    "--with-serials", is_flag=True, help="Leave serial numbers in the record; they are masked unless asked."
)
@click.option("--mask", is_flag=True, help="Replace UUIDs in the record by stable pseudonyms as well.")
@click.option(
    "--since",
    type=READ,
    help="An earlier record of this machine: what has grown since is judged.",
)
@click.option("--pid", type=click.IntRange(1), help="Judge the environment of this process, not one's own.")
@click.option("--unit", metavar="NAME", help="The same for the process of a running systemd unit.")
@plan_options
@report_options
def gpus(
    how: Presentation, record_to: Path | None, replay: tuple[Path, ...], gate: bool, **options: Any
) -> int:
    """Are all GPUs there and healthy? Reads only, changes nothing.

    One finding per check and GPU, passes included: driver and library, GPUs enumerated and alive, ECC, row
    remapping, PCIe width, throttling, temperature, power limit, NVLinks, NVSwitch fabric.
    """
    ask, saved = _given(how, record_to, replay, **options)
    try:
        record = saved if saved is not None else _observe(how.host, options["deadline"])
        for note in record.notes:
            click.echo(note, err=True)
    except Unreachable as error:
        finding = Finding(
            "node.reachable", Status.UNKNOWN, "host", str(error), cause=error.cause, fix=error.fix
        )
        return finish(Report("gpus", (finding,), facts={"host": how.host}), how)
    record = _with_environment(record, options["pid"], options["unit"])
    if record_to is not None:
        from checks.gpus import mask

        masked = mask.record(record, serials=not options["with_serials"], uuids=options["mask"])
        how = kept(record_to, masked.dump(), how)
    report = judge_record(
        record,
        options["expect"],
        replayed=bool(replay),
        name=", ".join(map(str, replay)) or "this machine",
        ask=ask,
    )
    if gate and replay:
        report = gated(report)
    return finish(report, how)


def _asked(
    since: Path | None,
    needs: float | None,
    mig: bool,
    compute_mode: str | None,
    leave_out: tuple[str, ...],
    **_: Any,
) -> Asked:
    """The options as they are judged by. Raises BadInput for an unknown id and a record that is none."""
    with all_of() as ask:
        left = ask(left_out, leave_out)
        earlier = ask(_saved, (since,)) if since else None
        ask.refuse(
            earlier is not None and earlier.nvml is None,
            f"--since {since} holds no NVML dump: make it with 'provcheck gpus --record FILE'",
        )
    assert left is not None
    plan = Plan(None if needs is None else int(needs * GIB), mig, COMPUTE_MODES.get(compute_mode or ""))
    return Asked(plan, earlier, left)


def _check_other(pid: int | None, unit: str | None, replay: tuple[Path, ...], host: str | None) -> None:
    if pid is None and unit is None:
        return
    if replay or host is not None or (pid is not None and unit is not None):
        raise BadInput(
            "give --pid or --unit, one of them, and on the machine itself: not with --replay or --host"
        )


def _with_environment(record: Record, pid: int | None, unit: str | None) -> Record:
    """The record with the environment of another process in the place of one's own."""
    if unit is not None:
        pid = host_seat.first_of_unit(unit)
    if pid is None:
        return record
    section = host_seat.of_process(pid)
    if section.data is None and section.error is None:
        raise BadInput(
            f"--pid {pid}: there is no such process (any more); give one that runs, or --unit NAME"
        )
    kept = tuple(section for section in record.sections if section.kind != "environ")
    return replace(record, sections=(*kept, section))


def _saved(paths: tuple[Path, ...]) -> Record:
    """The readers of texts are imported for a replay only: a live look has no time for them."""
    from checks.gpus.texts import together

    return together.load(paths)


def _observe(host: str | None, deadline: float) -> Record:
    if host is None:
        return collect.collect(deadline, reading=early.take(deadline))
    from checks.remote import record

    return record(host, deadline)
