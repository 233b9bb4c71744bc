"""The tables of Xids, SXids and symptoms: complete for what is promised, and every row can be met."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from checks.data.catalogue import CATALOGUE
from checks.data.node_catalogue import NODE
from checks.data.sxids import SXIDS
from checks.data.symptoms import SYMPTOMS, TEXT_LIMIT, explain
from checks.data.xids import APPLICATION, INFO, KINDS, NVLINK5, REBOOT, REPLACE, RESET, WORKFLOW, XIDS
from checks.gpus.host_rules import NODE_RULES
from checks.gpus.texts.coverage import AROUND, NEEDS
from checks.model import Status
from checks.nccl_tests import footers

CLASSES = {
    APPLICATION: (13, 31, 43, 45, 68, 69, 94),
    RESET: (46, 62, 64, 95, 109, 119, 120, 136, 140, 143, 155, 156, 158),
    REBOOT: (79,),
    WORKFLOW: (48, 74),
    NVLINK5: tuple(range(144, 151)),
    INFO: (63, 92, 121, 137, 154, 160),
    REPLACE: (157, 161),
}


@pytest.mark.parametrize(("kind", "numbers"), CLASSES.items())
def test_the_xids_that_matter_are_in_their_class(kind: str, numbers: tuple[int, ...]) -> None:
    assert {number: XIDS[number].kind for number in numbers} == dict.fromkeys(numbers, kind)


def test_the_newer_xids_are_known() -> None:
    assert {157, 159, 161, 163, 166, 167, 168, 171, 172} <= XIDS.keys()


def test_no_application_error_asks_for_a_reset_at_once() -> None:
    for row in XIDS.values():
        if row.kind == APPLICATION:
            fix = row.fix or KINDS[row.kind].fix
            assert "reset" not in fix.replace("no GPU reset", "").replace("reset the GPU at leisure", ""), (
                row.number
            )


def test_every_row_says_what_to_do_and_where_it_is_from() -> None:
    for row in (*XIDS.values(), *SXIDS.values()):
        assert row.name
        assert row.cause
        assert row.source
    assert all(kind.fix and kind.status in Status for kind in KINDS.values())


def test_every_rule_of_the_node_has_its_page_and_can_be_carried_by_a_text() -> None:
    ids = {rule.id for rule in NODE_RULES}
    assert ids <= NODE.keys()
    assert ids == set(AROUND)
    assert NEEDS.keys() <= CATALOGUE.keys()


SAMPLES = {
    "device-busy": "CUDA error: CUDA-capable device(s) is/are busy or unavailable",
    "driver-too-old": "RuntimeError: The NVIDIA driver on your system is too old (found version 12040)",
    "no-peers": "Custom allreduce is disabled because your platform lacks GPU P2P capability",
    "driver-not-loaded": "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
    "nvml-missing": "pynvml.NVMLError_LibraryNotFound: NVML Shared Library Not Found",
    "nvlink-inactive": "Link 3: <inactive>",
    "fabric-status": "Status : Insufficient Resources",
    "fabric-in-progress": "State : In Progress",
    "pynvml-foreign": "AttributeError: module 'pynvml' has no attribute 'nvmlDeviceGetNvLinkState'",
    "off-the-bus": "GPU is lost. Reboot the system to recover this GPU",
    "gsp": "Timeout after 45s of waiting for RPC response from GPU0 GSP!",
    "gpu-err": "| ERR! ERR! ERR! |",
    "p2p-broken": "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE)",
    "p2p-wrong-data": "Invalid value when checking the pattern at 0x735f80000000",
    "p2p-slow": "NVLink shows active but all_reduce is slow",
    "unhandled-system-error": "ncclSystemError: unhandled system error, NCCL version 2.27.5",
    "mig": "ValueError: invalid literal for int() with base 10: '[MIG'",
    "pcie-limited-card": "252.056 Gb/s available PCIe bandwidth, limited by 32.0 GT/s PCIe x8 link",
    "pcie-slow": "PCIe link is x4",
    "topology-slow": "nvidia-smi topo -m takes 112 s",
    "remap-growth": "remapped rows remapped 11 -> 12",
    "xid": "NVRM: Xid (PCI:0000:41:00): 31, pid=1",
    "false-green": "dcgmi diag PASS with MEMORY_ALLOC",
    "out-of-memory": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
    "no-devices-found": "No devices were found",
    "docker-runtime": 'Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
    "no-device": "RuntimeError: No CUDA GPUs are available",
    "no-kernel-image": "CUDA error: no kernel image is available for execution on the device",
    "illegal-address": "CUDA error: an illegal memory access was encountered",
    "driver-mismatch": "Failed to initialize NVML: Driver/library version mismatch",
    "cgroup-lost": "Failed to initialize NVML: Unknown Error",
    "nvlinks-all-down": "all links are inActive",
    "fabric-not-ready": "Error 802: system not yet initialized",
    "shm-too-small": "Error while creating shared memory segment /dev/shm/nccl-AbCd (size 7340384)",
    "memlock": "Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
    "p2p-disabled-over-nvlink": "P2P is disabled between NVLINK connected GPUs 1 and 0.",
    "nvls": "transport/nvls.cc:244 NCCL WARN Cuda failure 1 'invalid argument'",
    "memory-not-supported": "pynvml.NVMLError_NotSupported: Not Supported (nvmlDeviceGetMemoryInfo)",
    "pynvml-version": "AttributeError: module 'pynvml' has no attribute '__version__'",
    "installer-in-container": "An NVIDIA kernel module 'nvidia-uvm' appears to already be loaded in your kernel.",
    "container-node-missing": "Could not get mode or device ID of /dev/nvidia-uvm",
    "fabric-manager-without-switch": "failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]",
    "uvm-missing": "CUDA Error 999: CUDA_ERROR_UNKNOWN",
    "driver-mismatch-cuda": "CUDA Error 803: system has unsupported display driver / cuda driver combination",
    "lxc-hook-privileged": "nvidia: This hook currently only works in unprivileged mode.",
    "modules-load-failed": "systemd-modules-load[312]: Failed to find module 'vifio'",
    "container-node-is-file": "//dev/dri/renderD128 is not a device",
    "repository-signature": "Sub-process /usr/bin/sqv returned an error code (1), error message is: OpenPGP signature",
    "adapter-init": "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0xffff:667)",
    "vbios": "NVRM: kgspExtractVbiosFromRom_TU102: did not find valid ROM signature",
    "no-device-handle": "Unable to determine the device handle for gpu 0000:C1:00.0: Unknown Error",
    "uncorrectable-ecc": "CUDA error: uncorrectable ECC error encountered",
}


def test_every_symptom_has_a_sample() -> None:
    assert SAMPLES.keys() == {row.name for row in SYMPTOMS}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_symptom_is_recognised_and_leads_to_a_check_that_exists(name: str) -> None:
    rows = {row.name: row for row in explain(SAMPLES[name])}
    assert name in rows
    assert rows[name].check in CATALOGUE


@pytest.mark.parametrize("text", ["everything is well", "200 OK", "INFO: Application startup complete."])
def test_a_text_without_a_symptom_is_not_explained(text: str) -> None:
    assert explain(text) == ()


def test_a_hostile_text_takes_no_time() -> None:
    for piece in ("NCCL ", "PCIe ", "P2P", "MIG ", "nvidia-smi topo ", "State : ", "diag PASS "):
        began = time.monotonic()
        explain(piece * (2 * TEXT_LIMIT // len(piece)))
        assert time.monotonic() - began < 2, piece


def test_the_symptom_option_answers_and_says_when_it_cannot(provcheck: Callable[..., Any]) -> None:
    said = provcheck("explain", "--symptom", SAMPLES["memlock"])
    assert said.code == 0
    assert re.search(r"cause: .*RLIMIT_MEMLOCK", said.out, re.DOTALL)
    assert (
        json.loads(provcheck("explain", "--symptom", SAMPLES["memlock"], "--json").out)[0]["name"]
        == "memlock"
    )
    assert provcheck("explain", "--symptom", "all is well").code == 3
    assert provcheck("explain", "--symptom", " ").code == 2
    assert provcheck("explain", "--symptom", "x", "--list").code == 2


GOOD = (
    "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 478.311 OK\n#\n"
    "# Collective test concluded: all_reduce_perf\n"
)


def test_a_good_footer_of_nccl_tests() -> None:
    (one,) = footers(GOOD)
    assert (one.sums_right, one.busbw, one.busbw_passed, one.test) == (True, 478.311, True, "all_reduce_perf")


@pytest.mark.parametrize(
    ("text", "right", "passed"),
    [
        (GOOD.replace(": 0 OK", ": 3 FAILED"), False, True),
        (GOOD.replace(": 0 OK", ": 3"), False, True),
        (GOOD.replace(": 0 OK", ": 0 FAILED"), False, True),
        (GOOD.replace("478.311 OK", "21.4 FAILED"), True, False),
        (GOOD.replace("478.311 OK", "nan"), True, None),
        (GOOD.splitlines()[1], None, True),
    ],
)
def test_a_bad_footer_is_not_taken_for_a_good_one(text: str, right: bool | None, passed: bool | None) -> None:
    (one,) = footers(text)
    assert (one.sums_right, one.busbw_passed) == (right, passed)


def test_several_runs_in_one_text_stay_apart() -> None:
    bad = GOOD.replace(": 0 OK", ": 3 FAILED")
    assert [one.sums_right for one in footers(GOOD + "noise\n" + bad + GOOD)] == [True, False, True]
    assert footers("nothing of the kind") == ()


REPORTS = (
    *(
        "huggingface_hub#4128",
        "NVIDIA/NVSentinel#883",
        "azhpc-images#506",
        "dstack#1167",
        "leptonai/gpud#1085",
    ),
    *(
        "azhpc-diagnostics#73",
        "NVIDIA/NVSentinel#1481",
        "NVIDIA/nccl#257",
        "NVIDIA/nccl#2335",
        "pytorch#84803",
    ),
    *(
        "NVIDIA/open-gpu-kernel-modules#1257",
        "rapidsmpf#1128",
        "club-3090#922",
        "NVIDIA/nccl#342",
        "nccl-tests#206",
    ),
    *("shine-cluster#30", "nvidia-container-toolkit#48", "dcgm-exporter#84", "gpustack/runtime#26"),
    *(
        "NVIDIA/NVSentinel#155",
        "vllm-backport#62",
        "vllm#5222",
        "nvtop#6",
        "NVIDIA/cosmos#180",
        "sglang#2933",
    ),
    *("vllm#12386", "dcgm-exporter#46", "NVIDIA/nccl#1562", "NVIDIA/nccl#2329", "IBM/autopilot#68"),
    *("NVIDIA/nccl#557", "vllm#6895"),
)


@pytest.mark.parametrize("report", REPORTS)
def test_every_public_report_has_led_to_a_row(report: str) -> None:
    assert [row.name for row in SYMPTOMS if report in row.source]
