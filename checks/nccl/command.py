"""``provcheck nccl``: look, measure or replay, judge, report."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import click

from checks import record as records
from checks.asking import all_of
from checks.errors import BadInput
from checks.gpus import collect, dump
from checks.judged import AllAtOnce, checked
from checks.model import Report
from checks.nccl import environment, foreign, launch, measured, nodes, rates, run
from checks.nccl.crew import Deadlines
from checks.nccl.judge import judge
from checks.nccl.proof import peer_to_peer
from checks.nccl.scene import Scene
from checks.paths import READ, WRITTEN
from checks.ranges import FiniteRange
from checks.record import Record, Section
from checks.remote import asked
from checks.report.options import Presentation, also, apart, finish, kept, progress, report_options, writes

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_EPILOG = """\b
Examples:
  provcheck nccl                                    the engine that is installed here, all GPUs
  provcheck nccl --unit kpro-chat.service           with the library and variables of this service
  provcheck nccl --env /opt/kpro/envs/vllm-0.20.1 --gpus 0,1
  provcheck nccl --rdzv node0:29400 --nnodes 2 --node-rank 1
  srun -N 4 --ntasks-per-node 1 provcheck nccl --rdzv node0:29400 --pairwise
  provcheck nccl --size 4G --curve                  also every size from 8 bytes on
  provcheck nccl --record nccl.json                 keep what was measured
  provcheck nccl --replay nccl.json                 judge it again, anywhere

\b
Uses the GPUs for some seconds, and refuses when somebody else does (--force tests beside them). No PyTorch is
needed: only libnccl.so.2, found where engines find it. What a finding means: provcheck explain ID.
"""


def parse_size(text: str) -> int:
    """``1G`` -> bytes, a multiple of 8. Raises BadInput for no size, or one below 8 bytes or above 64 GiB."""
    match = re.fullmatch(r"(\d+)\s*([KMG]?)(?:i?B)?", text.strip(), re.I)
    size = int(match[1]) * _UNITS[match[2].upper()] if match else 0
    if not 8 <= size <= 64 << 30:
        raise BadInput(f"--size {text!r} is no size from 8 bytes to 64G; write it like 64M or 1G")
    return size // 8 * 8


def parse_gpus(text: str | None) -> tuple[int, ...] | None:
    """``0,1`` -> numbers. Raises BadInput when it is no list of different numbers."""
    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    if not all(re.fullmatch(r"\d{1,3}", word) for word in words) or len(set(words)) < len(words):
        raise BadInput(f"--gpus {text!r}: give different numbers, like 0,1")
    return tuple(int(word) for word in words)


def _refuse(how: Presentation, *, record_to: Path | None, rdzv: str | None, **given: Any) -> None:
    """Raises BadInput for options that do not go together."""
    with all_of() as ask:
        ask.refuse(
            given["replay"] is not None and (record_to is not None or how.host is not None),
            "--replay judges a record that is there: --record and --host do not go with it",
        )
        ask.refuse(
            how.host is not None and (record_to is not None or rdzv is not None),
            "--host runs the test of one node there: --record and --rdzv do not go with it",
        )
        ask.refuse(
            sum(given[name] is not None for name in ("library", "env", "unit", "pid")) > 1,
            "--library, --env, --unit and --pid each name the engine; give one",
        )
        ask(apart, {"--record": record_to}, how)
        ask.refuse(
            rdzv is None
            and any(given[name] not in (None, False) for name in ("nnodes", "node_rank", "pairwise")),
            "--nnodes, --node-rank and --pairwise need --rdzv HOST:PORT, where the nodes meet",
        )


@click.command(cls=AllAtOnce, epilog=_EPILOG, also=also(_refuse))
@click.option(
    "--gpus",
    "gpu_list",
    metavar="0,1",
    callback=checked(parse_gpus),
    help="Which GPUs, as CUDA counts them; all unless given.",
)
@click.option(
    "--size",
    default="1G",
    show_default=True,
    callback=checked(parse_size),
    help="Bytes of the largest all-reduce: 64M, 1G, 4G.",
)
@click.option("--curve", is_flag=True, help="Also the rate at every size from 8 bytes to --size, doubling.")
@click.option("--library", type=click.Path(path_type=Path), help="This libnccl.so.2 and no other.")
@click.option(
    "--env",
    type=click.Path(path_type=Path),
    help="The engine's environment, or the folders of a tree.",
)
@click.option("--unit", metavar="NAME", help="A systemd service: its environment, library and variables.")
@click.option("--pid", type=click.IntRange(1), help="A running engine: the same from its process.")
@click.option(
    "--init-deadline",
    type=FiniteRange(0.1, 600),
    default=60.0,
    show_default=True,
    help="Seconds that building the communicator may take.",
)
@click.option(
    "--size-deadline",
    type=FiniteRange(0.1, 600),
    default=20.0,
    show_default=True,
    help="Seconds that each size, and each copied pair, may take.",
)
@click.option("--force", is_flag=True, help="Test although a GPU is in use.")
@click.option(
    "--record",
    "record_to",
    type=WRITTEN,
    callback=writes,
    help="Keep the measurement in this file.",
)
@click.option("--replay", type=READ, help="Judge this record instead.")
@click.option(
    "--rdzv",
    metavar="HOST:PORT",
    callback=checked(launch.address),
    help="Many nodes: where node 0 listens; one command on each node.",
)
@click.option(
    "--nnodes", type=click.IntRange(1, 4096), help="How many nodes; torchrun, srun and mpirun say it."
)
@click.option("--node-rank", type=click.IntRange(0, 4095), help="Which node this is, from 0.")
@click.option("--pairwise", is_flag=True, help="Many nodes: pairs of nodes first, to find the bad one.")
@click.option(
    "--join-deadline",
    type=FiniteRange(0.1, 3600),
    default=120.0,
    show_default=True,
    help="Seconds in which all nodes must have come.",
)
@report_options
def nccl(
    how: Presentation,
    gpu_list: str | None,
    size: str,
    curve: bool,
    library: Path | None,
    env: Path | None,
    unit: str | None,
    pid: int | None,
    init_deadline: float,
    size_deadline: float,
    force: bool,
    record_to: Path | None,
    replay: Path | None,
    rdzv: str | None,
    nnodes: int | None,
    node_rank: int | None,
    pairwise: bool,
    join_deadline: float,
) -> int:
    """Do peer copies and collectives between GPUs work, are the sums right, and how fast are they?

    One process per GPU, as engines have them, each step with a deadline of its own: a hang is a finding. On a
    hang it tries again without peer access, then without shared memory, and says what that tells.
    """
    engine = {"library": library, "env": env, "unit": unit, "pid": pid}
    crew = {"nnodes": nnodes, "node_rank": node_rank, "pairwise": pairwise}
    _refuse(how, record_to=record_to, rdzv=rdzv, replay=replay, **engine, **crew)
    if replay is not None:
        return finish(replayed_report(replay), how)
    if how.host is not None:
        options = {
            "--gpus": gpu_list,
            "--size": size,
            "--library": library,
            "--env": env,
            "--unit": unit,
            "--pid": pid,
            "--init-deadline": init_deadline,
            "--size-deadline": size_deadline,
        }
        there = [word for name, value in options.items() if value is not None for word in (name, str(value))]
        words = ["nccl", *there, *(["--force"] if force else []), *(["--curve"] if curve else [])]
        longest = run.longest(
            Deadlines(init=init_deadline, size=size_deadline), parse_size(size), curve=curve
        )
        return finish(asked(how.host, words, longest), how)
    if launch.is_idle_copy(os.environ):
        click.echo(
            "provcheck: the first process of this node tests all its GPUs; nothing to do here", err=True
        )
        return 0
    place = launch.place(nnodes, node_rank, os.environ) if rdzv is not None else None
    service = environment.unit(unit) if unit else environment.process(pid) if pid else None
    wish = run.Wish(
        size=parse_size(size),
        gpus=parse_gpus(gpu_list),
        library=library,
        env=env,
        service=service,
        force=force,
        deadlines=Deadlines(init=init_deadline, size=size_deadline),
        curve=curve,
    )
    tell = progress("nccl")
    longest = run.longest(wish.deadlines, wish.size, curve=curve)
    tell(f"looking at libraries and GPUs; with eight GPUs {longest:.0f} s at most")
    seen = collect.collect(run.SEES_S)
    bench = run.look(wish, seen.nvml)
    bench.tell = tell
    bench.data["hidden"] = launch.hidden(os.environ, bench.data["look"]["gpus"], seen.nvml)
    if run.usable(bench):
        run.copy(bench, wish)
    if place is not None:
        nodes.measure(bench, wish, place, meeting(str(rdzv), join_deadline), pairwise)
    elif run.usable(bench):
        run.measure(bench, wish)
    record = with_measurement(seen, bench.data)
    if record_to is not None:
        from checks.gpus import mask

        how = kept(record_to, mask.record(record, serials=True, uuids=False).dump(), how)
    return finish(judge_record(record, "this machine", replayed=False), how)


def meeting(rdzv: str, join_s: float) -> nodes.Meeting:
    host, port = launch.address(rdzv)
    return nodes.Meeting(host, port, launch.token(os.environ, rdzv), join_s)


def replayed_report(path: Path) -> Report:
    """The report on a record, or on what nccl-tests printed. Raises BadInput when it is neither."""
    try:
        with path.open("rb") as file:
            raw = file.read(records.SIZE_LIMIT + 1)
    except OSError as error:
        raise BadInput(f"cannot read the record {path}: {error.strerror}") from None
    if raw.lstrip().startswith((b"{", b"[")):
        return judge_record(records.parse(raw, str(path)), str(path), replayed=True)
    findings = foreign.judge_text(raw[: records.SIZE_LIMIT].decode(errors="replace"))
    if not findings:
        raise BadInput(f"{path} is no record of provcheck, and holds no end of a run of nccl-tests")
    return Report("nccl", findings, "replayed", {"source": "nccl-tests"})


def with_measurement(record: Record, data: dict[str, Any]) -> Record:
    """The record with what was measured."""
    section = Section(measured.KIND, measured.PATH, json.dumps(data).encode())
    return Record(record.host, record.taken, (*record.sections, section), record.nvml, record.serve)


def judge_record(record: Record, name: str, *, replayed: bool) -> Report:
    """The report on a record. Raises BadInput when it holds no measurement of NCCL or a wrong part."""
    raw = next((section.data for section in record.sections if section.kind == measured.KIND), None)
    if raw is None:
        raise BadInput(f"{name} holds no measurement of NCCL: make one with 'provcheck nccl --record FILE'")
    seen = measured.parse(raw, name)
    nvml = record.nvml
    gpus = dump.parse(nvml, name).gpus if nvml is not None else ()
    p2p = [row for row in (nvml or {}).get("p2p") or () if isinstance(row, dict)]
    scene = Scene(seen, gpus, p2p)
    try:
        findings = judge(scene)
    except (TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
        if not replayed:
            raise
        raise BadInput(f"{name}: its measurement of NCCL does not hold together: {error!r}"[:300]) from None
    facts = {
        "host": record.host,
        "taken": record.taken,
        "library": seen.source,
        "gpus": [gpu.get("name") for gpu in seen.look.get("gpus", ())],
        "environment": dict(seen.environment),
        "p2p": peer_to_peer(seen),
        "rates": rates.as_facts(seen.runs[0]) if seen.runs else [],
        "runs": [{"name": each.name, "extra": dict(each.extra), "whole": each.whole} for each in seen.runs],
    }
    return Report("nccl", findings, "replayed" if replayed else "live", facts)
