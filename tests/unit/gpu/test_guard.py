"""The guard of a session with two GPUs: multicast off in every process that communicates, by the first look at it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.gpu import guard, torch_rate

OFF = b"PATH=/bin\0NCCL_NVLS_ENABLE=0\0TORCH_SYMM_MEM_DISABLE_MULTICAST=1\0NVSHMEM_DISABLE_NVLS=1\0"


def row(pid: int, kind: str | None, at: float = 1.0, missing: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"at": at, "pid": pid, "kind": kind, "command": "x", "missing": list(missing)}


@pytest.mark.parametrize("missing", [guard.missing, torch_rate.unset])
def test_each_of_the_three_variables_has_to_say_off(missing: Any) -> None:
    assert missing(OFF) == []
    assert missing(OFF.replace(b"NVLS_ENABLE=0", b"NVLS_ENABLE=1")) == ["NCCL_NVLS_ENABLE"]
    assert missing(b"PATH=/bin\0") == list(guard.OFF)
    assert missing(b"") == list(guard.OFF)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("python3 -c import sys _probe nccl-rank", "nccl-rank"),
        ("VLLM::Worker_TP1", "VLLM::Worker"),
        ("/opt/env/bin/vllm serve /srv/model", None),
        ("python3 -m torch.distributed.run", None),
    ],
)
def test_only_what_communicates_has_a_kind(line: str, kind: str | None) -> None:
    assert guard.kind_of(line) == kind


def test_too_few_processes_or_one_with_multicast_is_wrong_and_an_import_alone_is_not() -> None:
    rows = [row(1, "nccl-rank"), row(2, "nccl-rank"), row(3, None, missing=("NCCL_NVLS_ENABLE",))]
    assert guard.judge(rows, {"nccl-rank": 2}, None) == []
    assert "2 processes nccl-rank were seen, not 3" in guard.judge(rows, {"nccl-rank": 3}, None)[0]
    rows.append(row(4, "nccl-rank", missing=("NCCL_NVLS_ENABLE",)))
    assert "without NCCL_NVLS_ENABLE" in guard.judge(rows, {}, None)[0]


def test_a_process_counts_only_when_it_was_looked_at_before_its_first_collective() -> None:
    rows = [row(1, "multiprocessing.spawn", 1.0), row(1, "VLLM::Worker", 9.0), row(2, "VLLM::Worker", 3.0)]
    assert guard.judge(rows, {"VLLM::Worker": 2}, 4.0) == []
    assert "0.50 s after" in guard.judge(rows, {"VLLM::Worker": 2}, 2.5)[0]


def test_what_is_told_counts_processes_and_names_those_without() -> None:
    rows = [row(1, "multiprocessing.spawn"), row(1, "VLLM::Worker"), row(2, "VLLM::Worker")]
    assert guard.told(rows) == "multicast off in 2 of 2 processes that loaded NCCL"
    rows.append(row(3, None, missing=("NCCL_NVLS_ENABLE",)))
    assert guard.told(rows).endswith(
        "2 of 3 processes that loaded NCCL; 1 that do not communicate were started without"
    )


def test_a_process_that_loads_nccl_and_communicates_without_them_is_ended(tmp_path: Path) -> None:
    library = tmp_path / "libnccl.so.2"
    library.write_bytes(b"x" * 4096)
    hold = (
        f"import mmap, time; f = open({str(library)!r}); m = mmap.mmap(f.fileno(), 0, prot=1); time.sleep(60)"
    )
    bad, good, other = (
        subprocess.Popen([sys.executable, "-c", hold, *words], env=environment)
        for words, environment in (
            (["_probe", "nccl-rank"], {}),
            (["_probe", "nccl-rank"], guard.OFF),
            (["import"], {}),
        )
    )
    rows: list[dict[str, Any]] = []
    seen: dict[int, dict[str | None, list[str]]] = {}
    try:
        end = time.monotonic() + 20
        while len(rows) < 3 and time.monotonic() < end:
            rows += guard.sweep([process.pid for process in (bad, good, other)], seen)
            time.sleep(0.05)
        assert bad.wait(20) == -9
        assert (good.poll(), other.poll()) == (None, None)
        ended = {row["pid"]: (row["kind"], row.get("ended", False)) for row in rows}
        assert ended == {
            bad.pid: ("nccl-rank", True),
            good.pid: ("nccl-rank", False),
            other.pid: (None, False),
        }
        assert guard.sweep([good.pid, other.pid], seen) == []
    finally:
        for process in (bad, good, other):
            process.kill()
            process.wait()
