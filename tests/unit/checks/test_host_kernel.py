"""Xid, SXid, NCCL and peermem: what counts, for whom, and what has healed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checks.gpus import kernlog, node
from checks.model import Finding, Status
from checks.record import Section

Judged = Callable[..., dict[tuple[str, str], Finding]]
Healthy = Callable[..., dict[str, Any]]
A, B, ALIEN = "0000:10:00", "0000:11:00", "0000:99:00"
LOAD = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build"


def log(*lines: str) -> Section:
    return Section(kernlog.KIND, kernlog.PATH, "".join(f"[   61.5] {line}\n" for line in lines).encode())


def xid(number: int, text: str = "pid=7, name=python3, Ch 8", at: str = A) -> str:
    return f"NVRM: Xid (PCI:{at}): {number}, {text}"


def switch(*names: str) -> tuple[Section, ...]:
    files = (("vendor", b"0x10de\n"), ("class", b"0x068000\n"))
    return tuple(Section("file", f"{node.PCI}/{n}/{key}", data) for n in names for key, data in files)


def seen(judged: Judged, healthy: Healthy, *lines: str, subject: str = "gpu0") -> Finding:
    return judged(healthy(2), (log(*lines),))["gpu.xid", subject]


@pytest.mark.parametrize(
    ("number", "status"),
    [
        *[(n, Status.WARN) for n in (13, 31, 43, 45, 68, 69, 94)],
        *[(n, Status.FAIL) for n in (46, 62, 64, 95, 109, 119, 120, 136, 140, 143, 155, 156, 158)],
        *[(n, Status.FAIL) for n in (79, 48, 74)],
        *[(n, Status.PASS) for n in (63, 121, 160)],
        *[(n, Status.WARN) for n in (92, 137, 154)],
    ],
)
def test_each_class_of_xid_has_its_status(
    number: int, status: Status, judged: Judged, healthy: Healthy
) -> None:
    data = healthy(2)
    for device in data["devices"]:
        device["nvmlDeviceGetRemappedRows"] = [0, 1, 1, 0]
    finding = judged(data, (log(LOAD, xid(number)),))["gpu.xid", "gpu0"]
    assert finding.status is status
    assert finding.fix


def test_an_application_s_error_asks_for_no_reset(judged: Judged, healthy: Healthy) -> None:
    for number in (13, 31, 43, 94):
        fix = seen(judged, healthy, xid(number)).fix or ""
        assert "reset" not in fix or "no GPU reset" in fix or "at leisure" in fix


@pytest.mark.parametrize("name", ["VLLM::EngineCor", "sglang::schedul", "llama-server"])
def test_a_stop_by_an_engine_points_to_the_drafter(name: str, judged: Judged, healthy: Healthy) -> None:
    finding = seen(judged, healthy, xid(43, f"pid=7, name={name}, channel 0x96"))
    assert finding.status is Status.WARN
    assert "mask_token_id" in (finding.cause or "")
    assert name in finding.message
    other = seen(judged, healthy, xid(43, "pid=7, name=blender, channel 0x96"))
    assert "mask_token_id" not in (other.cause or "")


def test_an_xid_is_found_at_its_gpu_and_at_no_other(judged: Judged, healthy: Healthy) -> None:
    findings = judged(healthy(2), (log(xid(79, at=B)),))
    assert findings["gpu.xid", "gpu0"].status is Status.PASS
    assert findings["gpu.xid", "gpu1"].status is Status.FAIL


def test_a_gpu_that_nvml_does_not_list_is_named_by_its_address(judged: Judged, healthy: Healthy) -> None:
    findings = judged(healthy(2), (log(xid(79, at=ALIEN)),))
    assert findings["gpu.xid", f"{ALIEN}.0"].status is Status.FAIL


@pytest.mark.parametrize("heals", [LOAD, f"nvidia {A}.0: reset done", f"vfio-pci {A}.0: reset done"])
def test_what_was_before_the_last_reset_is_past(heals: str, judged: Judged, healthy: Healthy) -> None:
    healed = seen(judged, healthy, xid(119), heals)
    assert healed.status is Status.PASS
    assert "before its last reset" in healed.message
    assert seen(judged, healthy, heals, xid(119)).status is Status.FAIL


def test_the_reset_of_another_gpu_heals_nothing(judged: Judged, healthy: Healthy) -> None:
    assert seen(judged, healthy, xid(119), f"nvidia {B}.0: reset done").status is Status.FAIL


@pytest.mark.parametrize("mark", ["Linux version 6.12.1 (b@h) #1 SMP", "-- Reboot --"])
def test_an_earlier_boot_does_not_count(mark: str, judged: Judged, healthy: Healthy) -> None:
    text = f"{xid(79)}\n{mark}\n{LOAD}\n".encode()
    findings = judged(healthy(2), (Section(kernlog.KIND, kernlog.PATH, text),))
    assert findings["gpu.xid", "gpu0"].status is Status.PASS
    later = f"{mark}\n{LOAD}\n{xid(79)}\n".encode()
    assert (
        judged(healthy(2), (Section(kernlog.KIND, kernlog.PATH, later),))["gpu.xid", "gpu0"].status
        is Status.FAIL
    )


def test_a_remapped_row_that_is_no_longer_pending_is_healed(judged: Judged, healthy: Healthy) -> None:
    lines = (xid(48), xid(63, "Row Remapper"), xid(94), xid(45))
    assert seen(judged, healthy, *lines).status is Status.PASS
    data = healthy(2)
    data["devices"][0]["nvmlDeviceGetRemappedRows"] = [0, 1, 1, 0]
    assert judged(data, (log(*lines),))["gpu.xid", "gpu0"].status is Status.FAIL


def test_a_changed_recovery_action_heals_with_the_rows_once_none_is_asked_for(
    judged: Judged, healthy: Healthy
) -> None:
    lines = (
        xid(48),
        xid(63, "Row Remapper"),
        xid(94),
        xid(154, "changed from 0x0 (None) to 0x1 (GPU Reset)"),
    )
    data = healthy(2)
    data["devices"][0]["fields"]["NVML_FI_DEV_GET_GPU_RECOVERY_ACTION"] = {
        "ret": 0,
        "type": 1,
        "ull": 0,
        "ui": 0,
    }
    assert judged(data, (log(*lines),))["gpu.xid", "gpu0"].status is Status.PASS
    data["devices"][0]["fields"]["NVML_FI_DEV_GET_GPU_RECOVERY_ACTION"].update(ull=1, ui=1)
    assert judged(data, (log(*lines),))["gpu.xid", "gpu0"].status is Status.FAIL


def test_a_failed_remapping_is_not_healed_by_what_it_does_not_show(judged: Judged, healthy: Healthy) -> None:
    assert seen(judged, healthy, xid(63), xid(64)).status is Status.FAIL
    assert seen(judged, healthy, xid(94)).status is Status.WARN, "no row was remapped"


def test_rows_that_cannot_be_read_heal_nothing(judged: Judged, healthy: Healthy) -> None:
    data = healthy(2)
    data["devices"][0]["nvmlDeviceGetRemappedRows"] = {
        "err": 999,
        "cls": "NVMLError_Unknown",
        "msg": "Unknown",
    }
    assert judged(data, (log(xid(48), xid(63)),))["gpu.xid", "gpu0"].status is Status.FAIL


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("RLW_RXPIPE Nonfatal XC0", Status.WARN),
        ("NETIR_LINK_EVT Fatal XC0", Status.FAIL),
        ("no word", Status.FAIL),
    ],
)
def test_an_nvlink_error_is_judged_by_its_word_and_without_one_as_fatal(
    text: str, status: Status, judged: Judged, healthy: Healthy
) -> None:
    for number in range(144, 151):
        assert seen(judged, healthy, xid(number, text)).status is status


def test_the_worst_of_several_decides_and_storms_are_counted(judged: Judged, healthy: Healthy) -> None:
    finding = seen(judged, healthy, *[xid(13)] * 214, xid(64), *[xid(31)] * 3)
    assert finding.status is Status.FAIL
    assert finding.value == 64
    assert finding.message.startswith("Xid 64")
    assert "(214 times, the last " in finding.message
    assert len(finding.message) < 400


def test_a_number_that_the_catalogue_lacks_is_said_to_be_so(judged: Judged, healthy: Healthy) -> None:
    finding = seen(judged, healthy, xid(990))
    assert finding.status is Status.WARN
    assert "not in the catalogue" in finding.message


def test_a_closed_log_is_unknown_and_one_that_the_record_lacks_is_left_out(
    judged: Judged, healthy: Healthy
) -> None:
    closed = Section(kernlog.KIND, kernlog.PATH, None, "Operation not permitted")
    finding = judged(healthy(2), (closed,))["gpu.xid", "host"]
    assert finding.status is Status.UNKNOWN
    assert "dmesg_restrict" in (finding.fix or "")
    assert not [key for key in judged(healthy(2)) if key[0] in ("gpu.xid", "fabric.sxid", "node.nccl_crash")]


def test_a_container_is_not_blamed_for_the_other_gpus_of_its_host(judged: Judged, healthy: Healthy) -> None:
    from tests.unit.checks.test_adapter import IN_LXC, nodes, page
    from tests.unit.checks.test_driver_rules import bus

    here = (IN_LXC, *bus((f"{A}.0", "nvidia"), (f"{B}.0", "nvidia")), page(f"{A}.0", 0), page(f"{B}.0", 1))
    findings = judged(healthy(1), (*here, nodes(0), log(xid(79, at=B))))
    assert ("gpu.xid", f"{B}.0") not in findings
    outside = judged(healthy(1), (*here[1:], nodes(0, 1), log(xid(79, at=B))))
    assert outside["gpu.xid", f"{B}.0"].status is Status.FAIL


SWITCH = "0000:c3:00.0"


def sxid(number: int, text: str) -> str:
    return f"nvidia-nvswitch0: SXid (PCI:{SWITCH}): {number}, {text}"


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ((sxid(12028, "Non-fatal, Link 61 egress non-posted PRIV error"),), Status.WARN),
        ((sxid(20034, "Fatal, Link 30 LTSSM Fault Up"),), Status.FAIL),
        ((sxid(31999, "Fatal, something new"),), Status.FAIL),
        ((sxid(31999, "Non-fatal, something new"),), Status.WARN),
        ((sxid(31999, "something without a word"),), Status.FAIL),
        ((sxid(11021, "Non-fatal, single bit ECC"),), Status.PASS),
        ((sxid(20034, "Fatal, Link 30"), LOAD), Status.PASS),
        ((LOAD,), Status.PASS),
    ],
)
def test_switch_errors_are_judged_by_their_word(
    lines: tuple[str, ...], status: Status, judged: Judged, healthy: Healthy
) -> None:
    sections = (Section("dir", node.PCI, f"{SWITCH}\n".encode()), *switch(SWITCH), log(*lines))
    assert judged(healthy(2), sections)["fabric.sxid", "host"].status is status


def test_without_a_switch_nothing_is_said_of_switches(judged: Judged, healthy: Healthy) -> None:
    assert ("fabric.sxid", "host") not in judged(healthy(2), (log(LOAD),))


def test_crashes_in_nccl_are_counted(judged: Judged, healthy: Healthy) -> None:
    crash = "pt_main_thread[2536443]: segfault at 7f ip 7f sp 7f error 4 in libnccl.so.2[7f7c+d3d3000]"
    bad = judged(healthy(2), (log(crash, crash),))["node.nccl_crash", "host"]
    assert (bad.status, bad.value) == (Status.WARN, 2)
    assert judged(healthy(2), (log(LOAD),))["node.nccl_crash", "host"].status is Status.PASS


def test_peermem_complains_once_however_often_it_says_so(judged: Judged, healthy: Healthy) -> None:
    line = "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing"
    finding = judged(healthy(2), (log(*[line] * 7),))["driver.peermem", "host"]
    assert (finding.status, finding.value) == (Status.WARN, 7)
    assert ("driver.peermem", "host") not in judged(healthy(2), (log(LOAD),))


def test_without_a_gpu_on_the_bus_nobody_s_errors_are_missed(judged: Judged) -> None:
    closed = Section(kernlog.KIND, kernlog.PATH, None, "Operation not permitted")
    missing = {"nvmlInit": {"err": 12, "cls": "NVMLError_LibraryNotFound", "msg": "not found"}}
    empty = Section("dir", node.PCI, b"")
    assert judged(missing, (empty, closed))["gpu.xid", "host"].status is Status.SKIP
    assert judged(missing, (closed,))["gpu.xid", "host"].status is Status.UNKNOWN
