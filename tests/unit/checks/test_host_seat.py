"""Device nodes, cgroup, /dev/shm, locked memory, environment: each rule beside the case that trips it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checks.gpus import host_seat, node
from checks.model import Finding, Status
from checks.record import Section
from tests.unit.checks.test_host_bus import rdma

Judged = Callable[..., dict[tuple[str, str], Finding]]
Healthy = Callable[..., dict[str, Any]]
IN_LXC = Section("file", "/run/systemd/container", b"lxc\n")
GIB = 1 << 30
NODES = (
    "nvidia0 195 0 0666 rw",
    "nvidia1 195 1 0666 rw",
    "nvidiactl 195 255 0666 rw",
    "nvidia-uvm 509 0 0666 rw",
    "nvidia-uvm-tools 509 1 0666 rw",
)
MAJORS = Section("file", host_seat.DEVICES, b"195 nvidia\n195 nvidiactl\n509 nvidia-uvm\n")


def nodes(*lines: str) -> Section:
    return Section("devices", host_seat.DEV, "".join(f"{line}\n" for line in lines).encode())


def without(name: str) -> Section:
    return nodes(*(line for line in NODES if not line.startswith(f"{name} ")))


def changed(old: str, new: str) -> Section:
    return nodes(*(line.replace(old, new) for line in NODES))


@pytest.fixture
def verdict(judged: Judged, healthy: Healthy) -> Callable[..., Finding | None]:
    def run(identity: str, *sections: Section, gpus: int = 2, **more: Any) -> Finding | None:
        data = healthy(gpus)
        for index, device in enumerate(data["devices"]):
            device["nvmlDeviceGetMinorNumber"] = index
        return judged(data, sections, **more).get((identity, "host"))

    return run


@pytest.mark.parametrize(
    ("sections", "status", "said"),
    [
        ((nodes(*NODES), MAJORS), Status.PASS, "5 device nodes"),
        ((without("nvidia-uvm-tools"), MAJORS), Status.PASS, "4 device nodes"),
        ((without("nvidia-uvm"), MAJORS), Status.FAIL, "CUDA will not start"),
        ((without("nvidia-uvm"), MAJORS, IN_LXC), Status.FAIL, "CUDA will not start"),
        (
            (without("nvidia-uvm"), MAJORS, Section("tool", "nvidia-modprobe", b"setuid\n")),
            Status.WARN,
            "first use",
        ),
        (
            (without("nvidia-uvm"), IN_LXC, Section("tool", "nvidia-modprobe", b"setuid\n")),
            Status.FAIL,
            "CUDA",
        ),
        ((without("nvidiactl"), MAJORS), Status.FAIL, "/dev/nvidiactl"),
        ((without("nvidia1"), MAJORS), Status.FAIL, "/dev/nvidia1"),
        ((changed("nvidia-uvm 509", "nvidia-uvm 508"), MAJORS), Status.FAIL, "major 508"),
        ((changed("nvidia1 195 1", "nvidia1 195 7"), MAJORS), Status.FAIL, "minor 7"),
        ((changed("nvidia1 195 1", "nvidia1 234 1"), MAJORS), Status.FAIL, "major 234"),
        ((changed("0666 rw", "0660 no"), MAJORS), Status.FAIL, "may not read"),
        ((changed("0666 rw", "0666 no"), MAJORS), Status.FAIL, "the nodes let everybody in"),
        ((changed("nvidia-uvm 509", "nvidia-uvm 508"),), Status.PASS, "5 device"),
    ],
)
def test_device_nodes(
    sections: tuple[Section, ...], status: Status, said: str, verdict: Callable[..., Finding | None]
) -> None:
    finding = verdict("node.device_nodes", *sections)
    assert finding is not None
    assert finding.status is status
    assert said in finding.message
    assert finding.fix or status is Status.PASS


ANOTHERS = changed("nvidia1 195 1 0666 rw", "nvidia1 195 1 0666 no")


@pytest.mark.parametrize(
    ("sections", "expect", "status"),
    [
        ((ANOTHERS, MAJORS, IN_LXC), 1, Status.PASS),
        ((ANOTHERS, MAJORS, IN_LXC), 2, Status.FAIL),
        ((ANOTHERS, MAJORS), 1, Status.FAIL),
        ((changed("195 0 0666 rw", "195 0 0666 no"), MAJORS, IN_LXC), 2, Status.FAIL),
        ((nodes("nvidia1 195 1 0660 no", *NODES[:1], *NODES[2:]), MAJORS, IN_LXC), 1, Status.FAIL),
        (
            (
                nodes(
                    "nvidiactl 195 255 0666 no",
                    *(line.replace("1 0666 rw", "1 0666 no") for line in NODES[:2]),
                    *NODES[3:],
                ),
                MAJORS,
                IN_LXC,
            ),
            1,
            Status.FAIL,
        ),
    ],
)
def test_the_closed_node_of_anothers_gpu_is_no_fault_of_a_container_that_has_its_own(
    sections: tuple[Section, ...], expect: int, status: Status, verdict: Callable[..., Finding | None]
) -> None:
    finding = verdict("node.device_nodes", *sections, gpus=1, expect=expect)
    assert finding is not None
    assert finding.status is status
    assert ("/dev/nvidia1: not for this container" in finding.message) is (status is Status.PASS)


def test_nodes_that_are_not_in_the_record_are_left_out(verdict: Callable[..., Finding | None]) -> None:
    assert verdict("node.device_nodes") is None
    assert verdict("node.cgroup", nodes(*NODES)) is None


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        ("nvidiactl OK\nnvidia-uvm OK\n", Status.PASS),
        ("nvidiactl OK\nnvidia-uvm EPERM\n", Status.FAIL),
        ("nvidiactl EPERM\nnvidia-uvm EPERM\n", Status.FAIL),
        ("nvidiactl ETIMEDOUT\nnvidia-uvm ETIMEDOUT\n", Status.UNKNOWN),
        ("nvidiactl OK\nnvidia-uvm ENXIO\n", Status.FAIL),
    ],
)
def test_what_a_cgroup_refuses_is_told_by_an_open(
    answers: str, status: Status, verdict: Callable[..., Finding | None]
) -> None:
    finding = verdict("node.cgroup", nodes(*NODES), Section("opened", host_seat.DEV, answers.encode()))
    assert finding is not None
    assert finding.status is status


def shm(free: int, size: int | None = None) -> Section:
    return Section("statvfs", host_seat.SHM, f"size {size or free} free {free}\n".encode())


@pytest.mark.parametrize(
    ("gpus", "free", "status"),
    [
        (2, 8 * GIB, Status.PASS),
        (2, GIB, Status.PASS),
        (2, GIB - 1, Status.WARN),
        (2, 256 << 20, Status.WARN),
        (2, (256 << 20) - 1, Status.FAIL),
        (2, 64 << 20, Status.FAIL),
        (1, 64 << 20, Status.PASS),
        (1, (64 << 20) - 1, Status.WARN),
        (1, 1 << 20, Status.FAIL),
    ],
)
def test_shared_memory_by_the_number_of_gpus(
    gpus: int, free: int, status: Status, verdict: Callable[..., Finding | None]
) -> None:
    finding = verdict("node.shm", shm(free), gpus=gpus)
    assert finding is not None
    assert finding.status is status


def test_a_large_shared_memory_that_is_full_is_told_as_full(verdict: Callable[..., Finding | None]) -> None:
    finding = verdict("node.shm", shm(1 << 20, 8 * GIB))
    assert finding is not None
    assert finding.status is Status.FAIL
    assert "what fills it" in (finding.fix or "")


def test_no_shared_memory_at_all_fails(verdict: Callable[..., Finding | None]) -> None:
    finding = verdict("node.shm", Section("statvfs", host_seat.SHM))
    assert finding is not None
    assert finding.status is Status.FAIL
    assert verdict("node.shm") is None


def locked(limit: str, able: str = "0000000000000000") -> tuple[Section, ...]:
    return (
        Section("file", host_seat.LIMITS, f"Max locked memory         {limit}   {limit}   bytes \n".encode()),
        Section("file", host_seat.STATUS, f"CapEff:\t{able}\nCpus_allowed_list:\t0-3\n".encode()),
    )


ETHERNET = (Section("file", "/sys/class/infiniband/mlx5_0/ports/1/link_layer", b"Ethernet\n"),)


@pytest.mark.parametrize(
    ("sections", "status"),
    [
        ((*locked("8388608"), *rdma("4: ACTIVE")), Status.FAIL),
        ((*locked("8388608"), *rdma("4: ACTIVE"), *ETHERNET), Status.WARN),
        ((*locked(str(GIB)), *rdma("4: ACTIVE")), Status.WARN),
        ((*locked("unlimited"), *rdma("4: ACTIVE")), Status.PASS),
        ((*locked("8388608", "0000000000004000"), *rdma("4: ACTIVE")), Status.PASS),
        ((*locked("8388608"), *rdma("1: DOWN")), Status.SKIP),
        ((*locked("8388608"),), Status.SKIP),
    ],
)
def test_locked_memory_matters_only_with_a_card_in_use(
    sections: tuple[Section, ...], status: Status, verdict: Callable[..., Finding | None]
) -> None:
    finding = verdict("node.memlock", *sections)
    assert finding is not None
    assert finding.status is status


def test_the_seat_is_looked_at_below_a_root(tmp_path: Path) -> None:
    (tmp_path / "dev/shm").mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/limits").write_text(
        "Limit  Soft\nMax locked memory   8388608   8388608   bytes\nMax x 1 1\n"
    )
    (tmp_path / "proc/self/status").write_text(
        "Name:\tx\nCapEff:\t0000000000004000\nCpus_allowed_list:\t0-1\n"
    )
    (tmp_path / "proc/self/environ").write_bytes(b"NCCL_P2P_DISABLE=1\0")
    (tmp_path / "proc/devices").write_text("195 nvidia\n  1 mem\n")
    seat = node.parse(node.look(str(tmp_path)), "test").seat
    assert seat.devices == {}
    assert seat.majors == {"nvidia": frozenset({195})}
    assert seat.memlock == 8388608
    assert seat.may_lock
    assert seat.cpus == frozenset({0, 1})
    assert seat.environment == {"NCCL_P2P_DISABLE": "1"}
    assert seat.shm is not None
    assert seat.opened is None, "nodes below another root are nobody's device"


def test_an_empty_root_is_no_crash(tmp_path: Path) -> None:
    assert node.parse(node.look(str(tmp_path)), "test").seat.shm_error is not None


def test_opening_a_node_says_what_the_kernel_said(tmp_path: Path) -> None:
    assert host_seat._opened(str(tmp_path / "none")) == "ENOENT"
    assert host_seat._opened(os.devnull) == "OK"


def test_an_open_that_never_returns_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setattr(host_seat, "OPEN_DEADLINE", 0.2)
    monkeypatch.setattr(host_seat, "_opened", lambda _: time.sleep(30) or "OK")
    began = time.monotonic()
    said = host_seat._open_all()
    assert time.monotonic() - began < 5
    assert said == b"nvidiactl ETIMEDOUT\nnvidia-uvm ETIMEDOUT\n"
    monkeypatch.setattr(host_seat, "_opened", lambda _: "OK")
    assert host_seat._open_all() == b"nvidiactl OK\nnvidia-uvm OK\n"
