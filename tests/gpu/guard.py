"""Looks at every process that loads NCCL: is NVLink multicast off there? One that communicates without is ended.

usage: guard.py FILE                    until it is killed; a JSON line for each process, as first seen
       guard.py --judge FILE KIND=COUNT... [--before LOG WORDS]

--judge: exit 1 unless that many processes of each kind were seen and all had it off; with --before, the last of them
before that line of LOG (journalctl -o short-unix). Only the standard library. /proc/PID/environ is what a process was
started with."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

OFF = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
KINDS = ("nccl-rank", "torch_rate", "VLLM::Worker", "VLLM::EngineCore", "multiprocessing.spawn")
"""What communicates; the first that a command line holds. Whatever else loads NCCL (an import) is only written down."""
PAUSE_S = 0.05


def kind_of(line: str) -> str | None:
    return next((kind for kind in KINDS if kind in line), None)


def missing(environ: bytes) -> list[str]:
    """The variables that do not keep multicast off."""
    told = dict(word.decode(errors="replace").partition("=")[::2] for word in environ.split(b"\0") if word)
    return [name for name, value in OFF.items() if told.get(name) != value]


def look(pid: int) -> dict[str, Any] | None:
    """A process with libnccl in its memory, None for any other or one that is gone."""
    folder = Path("/proc") / str(pid)
    try:
        if "libnccl" not in (folder / "maps").read_text(errors="replace"):
            return None
        line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        environ = (folder / "environ").read_bytes()
    except OSError:
        return None
    return {
        "at": time.time(),
        "pid": pid,
        "kind": kind_of(line),
        "command": line[:160],
        "missing": missing(environ),
    }


def sweep(pids: Iterable[int], seen: dict[int, dict[str | None, list[str]]]) -> list[dict[str, Any]]:
    """What is new among these processes; ends those that communicate without the variables."""
    rows = []
    for pid in pids:
        if (row := look(pid)) is None:
            continue
        known = seen.setdefault(pid, {})
        if row["kind"] in known:
            continue
        # A process that renames itself may write its new name over its environment: the first look counts.
        row["missing"] = known[row["kind"]] = next(iter(known.values()), row["missing"])
        if row["missing"] and row["kind"]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            row["ended"] = True
        rows.append(row)
    return rows


def watch(path: Path) -> None:
    """Every process of the machine: only for one that is this session's alone."""
    seen: dict[int, dict[str | None, list[str]]] = {}
    with path.open("a") as file:
        while True:
            for row in sweep(
                [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()], seen
            ):
                file.write(json.dumps(row) + "\n")
                file.flush()
            time.sleep(PAUSE_S)


def judge(rows: list[dict[str, Any]], wanted: dict[str, int], before: float | None) -> list[str]:
    """What is wrong with what was seen, in words."""
    wrong = [
        f"{row['pid']} {row['command'][:60]}: without {', '.join(row['missing'])}"
        for row in rows
        if row["missing"] and row["kind"]
    ]
    for kind, count in wanted.items():
        of = {row["pid"]: row["at"] for row in rows if row["kind"] == kind}
        if len(of) < count:
            wrong.append(f"{len(of)} processes {kind} were seen, not {count}")
        pids = set(of)
        first = {pid: min(row["at"] for row in rows if row["pid"] == pid) for pid in pids}
        if before is not None and first and max(first.values()) > before:
            wrong.append(
                f"{kind} was first seen {max(first.values()) - before:.2f} s after its first collective"
            )
    return wrong


def told(rows: list[dict[str, Any]]) -> str:
    """How many processes had it off. A process has a row for each name that it gave itself."""
    loaded = {row["pid"] for row in rows}
    without = {row["pid"] for row in rows if row["missing"]}
    text = f"multicast off in {len(loaded - without)} of {len(loaded)} processes that loaded NCCL"
    return text + (f"; {len(without)} that do not communicate were started without" if without else "")


def main(words: list[str]) -> int:
    if words[:1] != ["--judge"]:
        watch(Path(words[0]))
    before = None
    if "--before" in words:
        at = words.index("--before")
        log, text = words[at + 1 : at + 3]
        lines = [line for line in Path(log).read_text(errors="replace").splitlines() if text in line]
        match = re.match(r"(\d+\.\d+) ", lines[0]) if lines else None
        if match is None:
            print(f"no line of {log} says {text!r}")  # noqa: T201
            return 1
        before = float(match[1])
        words = words[:at]
    rows = [json.loads(line) for line in Path(words[1]).read_text().splitlines()]
    wanted = {kind: int(count) for kind, count in (word.split("=") for word in words[2:])}
    wrong = judge(rows, wanted, before)
    for row in rows:
        print(f"{row['at']:.3f} {row['pid']} {row['kind']} {row['missing'] or 'off'} {row['command'][:80]}")  # noqa: T201
    print("; ".join(wrong) or told(rows))  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
