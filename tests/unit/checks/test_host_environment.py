"""Variables that harm GPU programs: by their value, of this process or another, and nothing told that is secret."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checks.data.environment import ENVIRONMENT
from checks.errors import BadInput
from checks.gpus import host_seat
from checks.model import Finding, Status
from checks.record import Section

Judged = Callable[..., dict[tuple[str, str], Finding]]
Healthy = Callable[..., dict[str, Any]]


@pytest.fixture
def verdict(judged: Judged, healthy: Healthy) -> Callable[..., Finding | None]:
    def run(identity: str, *sections: Section, gpus: int = 2, **more: Any) -> Finding | None:
        data = healthy(gpus)
        for index, device in enumerate(data["devices"]):
            device["nvmlDeviceGetMinorNumber"] = index
        return judged(data, sections, **more).get((identity, "host"))

    return run


HARM = {
    "NCCL_P2P_DISABLE": ("1", "0"),
    "CUDA_VISIBLE_DEVICES": ("", "0,1"),
    "CUDA_LAUNCH_BLOCKING": ("1", "0"),
    "NCCL_DEBUG": ("INFO", "WARN"),
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": ("0", "3"),
    "NCCL_P2P_LEVEL": ("LOC", "SYS"),
    "NSIGHT_CUDA_DEBUGGER": ("1", "0"),
    "CUDA_DEVICE_WAITS_ON_EXCEPTION": ("1", ""),
}


@pytest.mark.parametrize("name", HARM)
def test_a_variable_harms_by_its_value(name: str, verdict: Callable[..., Finding | None]) -> None:
    bad, good = HARM[name]
    for value, status in ((bad, Status.WARN), (good, Status.PASS)):
        finding = verdict(
            "node.environment", Section("environ", host_seat.ENVIRON, f"{name}={value}\n".encode())
        )
        assert finding is not None
        assert finding.status is status, value
        assert (name in finding.message) == (status is Status.WARN)


def test_every_row_of_the_environment_can_be_met_and_has_its_source() -> None:
    dcgm = [name for name, row in ENVIRONMENT.items() if row.source.startswith("DCGM")]
    assert len(dcgm) == 10
    assert all(row.fix and row.what and row.source for row in ENVIRONMENT.values())


def test_a_record_keeps_no_value_that_is_not_in_the_table() -> None:
    raw = b"NCCL_DEBUG=INFO\0NCCL_SOCKET_IFNAME=secret0\0HF_TOKEN=hf_abc\0CUDA_HOME=/opt\0PATH=/bin\0BAD\nNAME=x\0"
    kept = host_seat.environment(Section("file", host_seat.ENVIRON, raw)).data
    assert kept == b"CUDA_HOME\nNCCL_DEBUG=INFO\nNCCL_SOCKET_IFNAME\n"


def test_a_list_of_fewer_gpus_is_told_and_warns_where_all_are_expected(
    verdict: Callable[..., Finding | None],
) -> None:
    one = Section("environ", host_seat.ENVIRON, b"CUDA_VISIBLE_DEVICES=1\n")
    both = Section("environ", host_seat.ENVIRON, b"CUDA_VISIBLE_DEVICES=0,1\n")
    told = verdict("node.environment", one)
    wanted = verdict("node.environment", one, expect=2)
    all_seen = verdict("node.environment", both, expect=2)
    assert told
    assert wanted
    assert all_seen
    assert told.status is Status.PASS
    assert "1 of 2 GPUs" in told.message
    assert wanted.status is Status.WARN
    assert all_seen.status is Status.PASS
    assert "of 2 GPUs" not in all_seen.message


def test_an_environment_that_cannot_be_read_is_unknown(verdict: Callable[..., Finding | None]) -> None:
    finding = verdict("node.environment", Section("environ", "/proc/1/environ", None, "Permission denied"))
    assert finding is not None
    assert finding.status is Status.UNKNOWN
    assert verdict("node.environment") is None


def test_a_process_of_a_unit_is_found_by_its_control_group(tmp_path: Path) -> None:
    group = tmp_path / "system.slice/vllm.service"
    group.mkdir(parents=True)
    (group / "cgroup.procs").write_text("4711\n4712\n")
    assert host_seat.first_of_unit("vllm", str(tmp_path)) == 4711
    (group / "cgroup.procs").write_text("")
    for name in ("vllm.service", "other", "../../etc/passwd"):
        with pytest.raises(BadInput):
            host_seat.first_of_unit(name, str(tmp_path))


def test_the_environment_of_another_process_takes_the_place_of_one_s_own(
    provcheck: Callable[..., Any],
) -> None:
    child = subprocess.Popen(["sleep", "30"], env={"NCCL_P2P_DISABLE": "1", "SECRET": "hunter2"})
    try:
        said = provcheck("gpus", "--json", "--pid", child.pid)
    finally:
        child.kill()
        child.wait()
    assert said.status("node.environment", "host") == "warn"
    assert "hunter2" not in said.out


@pytest.mark.parametrize("command", ["gpus", "nccl"])
def test_a_process_that_is_not_there_is_no_want_of_rights(
    command: str, provcheck: Callable[..., Any]
) -> None:
    said = provcheck(command, "--pid", 999999999)
    assert said.code == 2
    assert "there is no such process" in said.err
    assert "root" not in said.err


@pytest.mark.parametrize(
    "args", [("--pid", "1", "--unit", "x"), ("--pid", "1", "--replay", "x"), ("--unit", "no-such")]
)
def test_another_process_is_asked_only_here_and_only_once(
    args: tuple[str, ...], provcheck: Callable[..., Any]
) -> None:
    assert provcheck("gpus", *args).code == 2
