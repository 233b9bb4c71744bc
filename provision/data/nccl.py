"""NCCL's variables for a service: only what was measured here, and what the machine sets for everybody. Pure.

Peer access is switched off only where it was proven to be broken, and only while GPUs and driver are those that were
measured. Nothing is guessed from a model name, a topology or what the driver reports.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

FILE = "/var/lib/kpro/measured/nccl.json"
"""Where a guest keeps its measurement."""
SCHEMA = "provcheck/1"
OFF = "NCCL_P2P_DISABLE"

MULTICAST = {
    "NCCL_NVLS_ENABLE": "NCCL user guide, NCCL_NVLS_ENABLE",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemory.cu",
    "NVSHMEM_DISABLE_NVLS": "NVSHMEM, environment variables",
}
"""Variables of NVLink multicast (NVLS) and where each is read. Whoever runs the machine sets them for everybody, where
its multicast must be left alone: a service inherits them as it would without kpro."""

PASSED = "multicast"
PASSED_REQUEST = (
    f"cmd:{PASSED}:{{ cat /etc/environment 2>/dev/null; env; }} | "
    f"grep -E '^({'|'.join(MULTICAST)})=' | sort -u"
)
SET = "nccl-set"


@dataclass(frozen=True)
class Found:
    """``variables`` that the measurement proved to be needed, ``said`` what the operator should know of it."""

    variables: Mapping[str, str] = field(default_factory=dict)
    said: tuple[str, ...] = ()


def set_command(bdfs: Sequence[str]) -> str:
    """Prints what a measurement is good for: the driver's version and the UUID of each GPU."""
    names = " ".join(bdf if bdf.count(":") == 2 else f"0000:{bdf}" for bdf in bdfs)
    return (
        "head -n 1 /proc/driver/nvidia/version && "
        f"for gpu in {names}; do "
        'sed -n "s/^GPU UUID:[[:space:]]*//p" "/proc/driver/nvidia/gpus/$gpu/information"; done'
    )


def requests(bdfs: Sequence[str]) -> list[str]:
    """What the snapshot of a guest has to look at; nothing where there is nothing between GPUs."""
    return [f"file:{FILE}", f"cmd:{SET}:{set_command(bdfs)}"] if len(bdfs) > 1 else []


def passed(output: str | None) -> dict[str, str]:
    """The variables of the machine's own environment. Of two values the later one counts, as in a shell."""
    found = {}
    for line in (output or "").splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and name in MULTICAST:
            found[name] = value.strip("\"'")
    return found


def measured(text: bytes | str | None, now: str | None, gpus: int) -> Found:
    """What a guest's file says for ``now``, what ``set_command`` prints there. The file is a report of provcheck, as it
    came when nothing was switched off, with what it is of under ``kept`` (``provision.stack.measured``). With one GPU
    nothing is set."""
    if gpus < 2 or text is None:
        return Found()
    try:
        told = json.loads(text)
        state, because = (str(told["facts"]["p2p"][key])[:300] for key in ("state", "because"))
        when, place = str(told["kept"]["when"])[:40], told["kept"]["place"]
        of = str(place["driver"]), frozenset(map(str, place["gpus"]))
        live = told["schema"] == SCHEMA and told["evidence"] == "live"
    except (ValueError, KeyError, TypeError, RecursionError):
        return Found(said=(f"{FILE} cannot be read as a measurement: nothing of it is used",))
    if not live:
        return Found(said=(f"{FILE} is no measurement made here: nothing of it is used",))
    if not _same(of, now):
        return Found(
            said=(
                f"peer access was measured on {when} with other GPUs or another driver ({state}): nothing of it is "
                "used until the gate has measured it again",
            )
        )
    if state != "broken":
        return Found(said=(f"peer access: {state}, measured on {when}; nothing is switched off",))
    return Found(
        {OFF: "1"},
        (
            f"{OFF}=1: peer access is broken here, measured on {when}: {because}. Mend the cause, remove {FILE} in the "
            "guest, and the next run measures again",
        ),
    )


def _same(of: tuple[str, frozenset[str]], now: str | None) -> bool:
    """Are driver and GPUs those of ``set_command``'s output? What could not be looked at is equal to nothing."""
    lines = (now or "").splitlines()
    driver, uuids = of
    return (
        bool(uuids)
        and bool(lines)
        and driver in lines[0].split()
        and frozenset(line.strip() for line in lines[1:]) == uuids
    )
