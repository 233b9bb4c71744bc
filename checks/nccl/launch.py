"""Which node this is, by the launcher that started the command: torchrun, srun, mpirun, or the options. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checks.errors import BadInput


@dataclass(frozen=True)
class Place:
    """Node ``node`` of ``nodes``; only the process with ``local`` 0 acts, the GPUs of a node are all its own."""

    nodes: int
    node: int
    local: int = 0
    launcher: str = "options"


def place(nodes: int | None, node: int | None, environ: Mapping[str, str]) -> Place:
    """The options, else what the launcher says. Raises BadInput when neither says it, or not sensibly."""
    found = _launcher(environ)
    if nodes is None and node is None and found is None:
        raise BadInput(
            "--rdzv needs --nnodes and --node-rank, or one of torchrun, srun and mpirun to start it"
        )
    whole = Place(
        found.nodes if nodes is None and found else nodes or 0,
        found.node if node is None and found else -1 if node is None else node,
        found.local if found else 0,
        found.launcher if found and nodes is None and node is None else "options",
    )
    if not (1 <= whole.nodes <= 4096 and 0 <= whole.node < whole.nodes):
        raise BadInput(
            f"node {whole.node} of {whole.nodes} nodes: give --nnodes N and --node-rank from 0 to N-1"
        )
    return whole


def _launcher(environ: Mapping[str, str]) -> Place | None:
    if "GROUP_RANK" in environ and "GROUP_WORLD_SIZE" in environ:
        return Place(
            _n(environ, "GROUP_WORLD_SIZE"),
            _n(environ, "GROUP_RANK"),
            _n(environ, "LOCAL_RANK", 0),
            "torchrun",
        )
    if "OMPI_COMM_WORLD_SIZE" in environ:
        return _mpi(environ, "OMPI_COMM_WORLD_{}", ("SIZE", "RANK", "LOCAL_SIZE", "LOCAL_RANK"), "mpirun")
    if "SLURM_NNODES" in environ and "SLURM_NODEID" in environ:
        return Place(
            _n(environ, "SLURM_NNODES"), _n(environ, "SLURM_NODEID"), _n(environ, "SLURM_LOCALID", 0), "srun"
        )
    if "PMI_SIZE" in environ and "MPI_LOCALNRANKS" in environ:
        return _mpi(environ, "{}", ("PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"), "mpirun")
    return None


def _mpi(environ: Mapping[str, str], form: str, names: tuple[str, ...], launcher: str) -> Place:
    """MPI counts processes: nodes are those divided by the processes of a node, which must be equally many."""
    size, rank, local_size, local = (_n(environ, form.format(name)) for name in names)
    if local_size < 1 or size % local_size:
        raise BadInput(
            f"{launcher} started {size} processes, {local_size} of them here: start equally many on each node"
        )
    return Place(size // local_size, rank // local_size, local, launcher)


def _n(environ: Mapping[str, str], name: str, otherwise: int | None = None) -> int:
    text = environ.get(name, "" if otherwise is None else str(otherwise))
    if not text.isdecimal() or len(text) > 6:
        raise BadInput(f"{name}={text[:40]!r} is no number: give --nnodes and --node-rank")
    return int(text)


def is_idle_copy(environ: Mapping[str, str]) -> bool:
    """Whether a launcher started this as one of several processes of a node, and not as the first."""
    found = _launcher(environ)
    return found is not None and found.local > 0


def hidden(
    environ: Mapping[str, str], seen: Sequence[Mapping[str, Any]], nvml: Mapping[str, Any] | None
) -> str | None:
    """Why GPUs of this host are tested by nobody: each process was given its own, and only the first one acts."""
    told = (
        environ.get(name, "")
        for name in ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
    )
    slurm = environ.get("SLURM_TASKS_PER_NODE", "") if "SLURM_LOCALID" in environ else ""
    numbers = [int(text) for text in (*told, slurm.partition("(")[0]) if text.isdecimal() and len(text) < 6]
    devices = nvml.get("devices") if nvml is not None else None
    there = len(devices) if isinstance(devices, list) else 0
    if max(numbers, default=1) < 2 or not 0 < len(seen) < there:
        return None
    return f"the launcher started {max(numbers)} processes here and this one sees {len(seen)} of {there} GPUs"


def token(environ: Mapping[str, str], rdzv: str) -> bytes:
    """What all nodes of one run know and a stranger does not: PROVCHECK_TOKEN, else the launcher's job.

    Without both it is the address alone, which keeps out strays but nobody who means it.
    """
    names = ("PROVCHECK_TOKEN", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE")
    secret = next((environ[name] for name in names if environ.get(name)), "")
    return f"provcheck\0{secret}\0{rdzv}".encode()


def address(rdzv: str) -> tuple[str, int]:
    """``host:port`` or ``[v6]:port``. Raises BadInput for anything else."""
    host, colon, port = rdzv.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isdecimal() and len(port) < 6 and 0 < int(port) < 65536):
        raise BadInput(f"--rdzv {rdzv[:80]!r}: give HOST:PORT of node 0, a port that is free there")
    return host, int(port)
