"""The variables under which the ranks run: those of the service, ours for a fair measurement, and no secret."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from checks import child
from checks.errors import BadInput

_TAKEN = re.compile(
    r"NCCL_\w+|CUDA_\w+|NVSHMEM_\w+|TORCH_SYMM_MEM_\w+|TORCH_NCCL_\w+|VLLM_NCCL_SO_PATH|SGLANG_NCCL_SO_PATH"
    r"|GLOO_SOCKET_IFNAME|LD_LIBRARY_PATH"
)
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL", re.I)
_WRITES = frozenset({"NCCL_DEBUG_FILE", "NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE"}) | frozenset(
    {"CUDA_COREDUMP_FILE", "CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "CUDA_ENABLE_USER_TRIGGERED_COREDUMP"}
)
"""Variables that have files written, over those of the service: none of them changes what is tested."""

MULTICAST_OFF = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}
"""NVLS makes a sum faster than the links are, so that a ratio of the links' rate would say nothing."""

OURS = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV,NET,P2P,SHM,NVLS"}


@dataclass(frozen=True)
class Service:
    """What a unit or process says: ``program`` it runs, its ``variables`` of weight, its main ``pid``."""

    name: str
    variables: Mapping[str, str] = field(default_factory=dict)
    program: str | None = None
    pid: int | None = None
    unread: tuple[str, ...] = ()


def of_weight(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables that change NCCL or CUDA. No other name is taken over, and none that could be a secret."""
    return {
        name: value
        for name, value in sorted(variables.items())
        if _TAKEN.fullmatch(name) and not _SECRET.search(name) and name not in _WRITES
    }


def of_child(variables: Mapping[str, str], own: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The whole environment of a child: this program's own and ``variables``, and nothing that has files written."""
    return {**{name: value for name, value in own.items() if name not in _WRITES}, **variables}


def ranks(own: Mapping[str, str], service: Service | None, extra: Mapping[str, str]) -> dict[str, str]:
    """The variables set for every rank on top of this program's own environment."""
    told = {**of_weight(own), **(service.variables if service else {})}
    multicast = {name: value for name, value in MULTICAST_OFF.items() if name not in told}
    return {**told, **multicast, **OURS, **extra}


def unit(name: str, deadline: float = 10.0) -> Service:
    """What systemd knows of a unit. Raises BadInput when it knows none of that name."""
    if not re.fullmatch(r"[A-Za-z0-9@:._\\-]+", name) or name.startswith("-"):
        raise BadInput(f"--unit {name[:60]!r} is no name of a unit")
    keys = "LoadState,ExecStart,Environment,EnvironmentFiles,MainPID"
    try:
        ended = child.run(["systemctl", "show", name, f"--property={keys}"], deadline)
    except OSError as error:
        raise BadInput(
            f"--unit {name}: systemctl cannot be started here ({error.strerror}); name the engine "
            "with --env or --pid"
        ) from None
    if ended.code != 0:
        raise BadInput(f"--unit {name}: systemctl show failed: {ended.stderr[:200] or 'no answer'}")
    return parse_unit(name, ended.stdout.decode(errors="replace"))


def parse_unit(name: str, text: str) -> Service:
    """Reads ``systemctl show``. Raises BadInput for a unit that is not there."""
    rows = [line.partition("=")[::2] for line in text.splitlines()]
    first = dict(reversed(rows))
    if first.get("LoadState") == "not-found":
        raise BadInput(f"--unit {name}: systemd knows no unit of that name")
    variables, unread = _files(value for key, value in rows if key == "EnvironmentFiles")
    said = dict(_assignments(first.get("Environment", "")))
    # systemd: settings from files override those of Environment=
    program = re.search(r"path=(\S+)", first.get("ExecStart", ""))
    pid = first.get("MainPID", "")
    return Service(
        name,
        of_weight({**said, **variables}),
        program[1] if program else None,
        int(pid) if pid.isdecimal() and int(pid) > 0 else None,
        tuple(unread),
    )


def _files(values: object) -> tuple[dict[str, str], list[str]]:
    variables: dict[str, str] = {}
    unread: list[str] = []
    for value in values:  # type: ignore[attr-defined]
        path = re.sub(r"\s+\(ignore_errors=(yes|no)\)\s*$", "", value).lstrip("-")
        if not path:
            continue
        try:
            with Path(path).open(encoding="utf-8", errors="replace") as file:
                text = file.read(1 << 20)
        except FileNotFoundError:
            continue
        except OSError as error:
            unread.append(f"{path}: {error.strerror}")
            continue
        variables.update(_in_file(text))
    return variables, unread


def _in_file(text: str) -> list[tuple[str, str]]:
    """The assignments of an EnvironmentFile=: one a line, the value to its end unless it is quoted."""
    pairs = []
    for line in re.sub(r"\\\n", "", text).splitlines():
        name, equals, value = line.strip().partition("=")
        name, value = name.rstrip(), value.lstrip()
        if not equals or name.startswith(("#", ";")) or not name.isidentifier():
            continue
        if value[:1] in ("'", '"'):
            quoted = re.match(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"", value, re.S)
            inner = "" if quoted is None else quoted[1] if quoted[1] is not None else quoted[2]
            value = re.sub(r"\\([\"\\`$])", r"\1", inner) if value[0] == '"' else inner
        pairs.append((name, value))
    return pairs


def _assignments(text: str) -> list[tuple[str, str]]:
    try:
        words = shlex.split(text, comments=False)
    except ValueError:
        words = text.split()
    pairs = (word.partition("=") for word in words)
    return [(name, value) for name, equals, value in pairs if equals and name.isidentifier()]


def process(pid: int, proc: Path = Path("/proc")) -> Service:
    """The variables and program of a running engine. Raises BadInput when they cannot be read."""
    folder = proc / str(pid)
    try:
        raw = (folder / "environ").read_bytes()
        program = str((folder / "exe").readlink())
        first = (folder / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
    except FileNotFoundError:
        raise BadInput(f"--pid {pid}: there is no such process (any more); give one that runs") from None
    except OSError as error:
        raise BadInput(
            f"--pid {pid}: its environment cannot be read ({error.strerror}); run as root, or name "
            "the engine with --env"
        ) from None
    words = (word.decode(errors="replace").partition("=") for word in raw.split(b"\0") if word)
    variables = of_weight({name: value for name, _, value in words})
    return Service(f"process {pid}", variables, first if first.startswith("/") else program, pid)
