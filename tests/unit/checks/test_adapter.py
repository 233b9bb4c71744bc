"""A GPU that the driver holds and NVML does not show: when it is a failure, whose it is, what the kernel says."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from checks.bdf import Bdf
from checks.data.kernel_lines import KERNEL_LINES, KernelLine
from checks.gpus import kernlog, node
from checks.gpus.dump import DIED, TIMEOUT
from checks.model import Finding, Status
from checks.record import Section
from tests.unit.checks.test_driver_rules import bus, started_with

Judged = Callable[..., dict[tuple[str, str], Finding]]
A, B = "0000:10:00.0", "0000:11:00.0"
RULE = "driver.adapter_init"
FAILED = f"NVRM: GPU {B}: RmInitAdapter failed! (0x62:0x25:1792)"

NEAR_MISSES = {
    "gsp-missing": "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  535.261.03  Release Build",
    "off-the-bus": f"NVRM: Xid (PCI:{A[:-2]}): 43, pid=1234, name=python, Ch 00000008",
    "asleep": "vfio-pci 0000:01:00.0: enabling device (0000 -> 0003)",
    "no-video-bios": "nvidia 0000:01:00.0: Invalid PCI ROM header signature: expecting 0xaa55, got 0xffff",
    "no-firmware-file": "i915 0000:00:02.0: Direct firmware load for i915/tgl_dmc.bin failed with error -2",
    "firmware-still-up": "NVRM: GPU0 _kgspBootGspRm: WPR2 is up",
    "gsp-boot": "NVRM: GPU0 GSP firmware RM initialized",
    "no-window": "NVRM: BAR1 is 256M @ 0x38000000000 (PCI:0000:01:00.0)",
    "not-of-this-branch": "NVRM: GPU 0000:01:00.0 is supported by this driver release",
    "probe": "nvidia: probe of 0000:01:00.0 succeeded",
    "init": "NVRM: GPU 0000:01:00.0: RmInitAdapter succeeded!",
}


def log(*lines: str) -> Section:
    return Section(kernlog.KIND, kernlog.PATH, "".join(f"[   61.5] {line}\n" for line in lines).encode())


def nodes(*minors: int) -> Section:
    return Section("nodes", node.NODES, "".join(f"nvidia{n} {n}\n" for n in minors).encode())


def page(bdf: str, minor: int, excluded: str = "No") -> Section:
    text = f"Device Minor: \t {minor}\nGPU Excluded:\t {excluded}\n"
    return Section("file", f"{node.PROC_GPUS}/{bdf}/information", text.encode())


IN_LXC = Section("file", "/run/systemd/container", b"lxc\n")
HELD = (*bus((A, "nvidia"), (B, "nvidia")), page(A, 0), page(B, 1))


def test_every_row_has_a_near_miss_and_its_own_name() -> None:
    assert sorted(NEAR_MISSES) == sorted(row.name for row in KERNEL_LINES)


@pytest.mark.parametrize("row", KERNEL_LINES, ids=lambda row: row.name)
def test_a_row_matches_its_example_first_and_not_the_near_miss(row: KernelLine) -> None:
    assert next(r for r in KERNEL_LINES if re.search(r.pattern, row.example)) == row
    assert not re.search(row.pattern, NEAR_MISSES[row.name])
    assert all((row.cause, row.fix, row.source))


@pytest.mark.parametrize("row", KERNEL_LINES, ids=lambda row: row.name)
def test_each_kind_of_line_gives_its_cause_and_fix(
    row: KernelLine, healthy: Callable[..., object], judged: Judged
) -> None:
    example = re.sub(r"0000:[0-9a-f]{2}:00\.0", B, row.example)
    end = example if row.name == "init" else FAILED
    finding = judged(healthy(1), (*HELD, nodes(0, 1), log(example, end)))[RULE, B]
    assert (finding.status, finding.cause, finding.fix) == (Status.FAIL, row.cause, row.fix)
    assert example in finding.message
    assert end in finding.message


def test_a_gpu_that_nvml_shows_is_never_blamed_for_an_old_line(
    healthy: Callable[..., object], judged: Judged
) -> None:
    findings = judged(healthy(2), (*HELD, nodes(0, 1), log(FAILED)), 2)
    assert findings[RULE, "host"].status is Status.PASS
    assert (RULE, B) not in findings


def test_without_a_readable_kernel_log_it_still_fails_and_says_so(
    healthy: Callable[..., object], judged: Judged
) -> None:
    closed = Section(kernlog.KIND, kernlog.PATH, None, "Operation not permitted")
    finding = judged(healthy(1), (*HELD, nodes(0, 1), closed))[RULE, B]
    assert finding.status is Status.FAIL
    assert "could not be read: Operation not permitted" in finding.message
    assert "dmesg" in (finding.fix or "")


def test_a_missing_device_node_is_told_apart_from_an_adapter_that_failed(
    healthy: Callable[..., object], judged: Judged
) -> None:
    finding = judged(healthy(1), (*HELD, nodes(0), log()))[RULE, B]
    assert finding.status is Status.FAIL
    assert "nvidia-modprobe -c 1" in (finding.fix or "")
    told = judged(healthy(1), (*HELD, nodes(0), log(FAILED)))[RULE, B]
    assert "RmInitAdapter" in told.message
    silent = judged(healthy(1), (*HELD, nodes(0, 1), log()))[RULE, B]
    assert silent.status is Status.FAIL
    assert "says nothing" in silent.message


@pytest.mark.parametrize(
    ("given", "shown", "subject", "status"),
    [
        ((0, 1), 1, B, Status.FAIL),
        ((0,), 1, "host", Status.PASS),
        ((1,), 0, B, Status.FAIL),
        ((), 0, "host", Status.SKIP),
    ],
)
def test_in_a_container_a_gpu_counts_when_its_device_node_was_passed_in(
    given: tuple[int, ...],
    shown: int,
    subject: str,
    status: Status,
    healthy: Callable[..., object],
    judged: Judged,
) -> None:
    findings = judged(healthy(shown), (*HELD, IN_LXC, nodes(*given), log(FAILED)))
    assert findings[RULE, subject].status is status
    assert [key for key in findings if key[0] == RULE] == [(RULE, subject)]


@pytest.mark.parametrize(("used", "subject", "status"), [("no", "host", Status.PASS), ("rw", B, Status.FAIL)])
def test_in_a_container_a_node_that_its_device_cgroup_keeps_closed_was_not_passed_in(
    used: str, subject: str, status: Status, healthy: Callable[..., object], judged: Judged
) -> None:
    told = f"nvidia0 195 0 0666 rw\nnvidia1 195 1 0666 {used}\nnvidiactl 195 255 0666 rw\n"
    seen = (*HELD, IN_LXC, nodes(0, 1), Section("devices", "/dev", told.encode()), log())
    findings = judged(healthy(1), seen)
    assert [key for key in findings if key[0] == RULE] == [(RULE, subject)]
    assert findings[RULE, subject].status is status


def test_in_a_container_whose_gpus_cannot_be_told_a_closed_node_is_none_too_many(
    healthy: Callable[..., object], judged: Judged
) -> None:
    told = Section(
        "devices", "/dev", b"nvidia0 195 0 0666 rw\nnvidia1 195 1 0666 no\nnvidiactl 195 255 0666 rw\n"
    )
    held = (*bus((A, "nvidia"), (B, "nvidia")), IN_LXC, nodes(0, 1))
    assert judged(healthy(1), (*held, told, log()))[RULE, "host"].status is Status.SKIP
    assert judged(healthy(1), (*held, log()))[RULE, "host"].status is Status.UNKNOWN


def test_in_a_container_whose_gpus_cannot_be_told_a_node_too_many_is_unknown(
    healthy: Callable[..., object], judged: Judged
) -> None:
    held = (*bus((A, "nvidia"), (B, "nvidia")), IN_LXC)
    assert judged(healthy(1), (*held, nodes(0, 1), log(FAILED)))[RULE, "host"].status is Status.UNKNOWN
    assert judged(healthy(1), (*held, nodes(1), log(FAILED)))[RULE, "host"].status is Status.SKIP
    assert judged(healthy(1), (*held, log(FAILED)))[RULE, "host"].status is Status.SKIP


def test_a_gpu_that_the_driver_was_told_to_leave_out_is_not_missing(
    healthy: Callable[..., object], judged: Judged
) -> None:
    held = (*bus((A, "nvidia"), (B, "nvidia")), page(A, 0), page(B, 1, "Yes"))
    findings = judged(healthy(1), (*held, nodes(0, 1), log(FAILED)))
    assert findings[RULE, "host"].status is Status.PASS
    assert findings["gpu.count", "host"].status is Status.PASS


@pytest.mark.parametrize("code", [12, 9, 4, 18, 999, TIMEOUT, DIED, "ImportError"])
def test_an_nvml_that_could_not_be_asked_proves_nothing_unless_the_kernel_does(
    code: object, judged: Judged
) -> None:
    quiet = judged(started_with(code), (*HELD, nodes(0, 1), log()), 2)
    assert quiet[RULE, "host"].status is Status.UNKNOWN
    told = judged(started_with(code), (*HELD, nodes(0, 1), log(FAILED)), 2)
    assert [key for key in told if key[0] == RULE] == [(RULE, B)]
    assert told[RULE, B].status is Status.FAIL


@pytest.mark.parametrize("code", [6, 15, 255])
def test_an_nvml_that_finds_no_device_makes_each_gpu_of_the_driver_a_failure(
    code: object, judged: Judged
) -> None:
    findings = judged(started_with(code), (*HELD, nodes(0, 1), log(FAILED)), 2)
    assert {findings[RULE, A].status, findings[RULE, B].status} == {Status.FAIL}


def test_a_gpu_of_nvml_without_an_address_leaves_it_open_which_one_is_missing(
    healthy: Callable[..., dict[str, object]], judged: Judged
) -> None:
    data = healthy(2)
    data["devices"][0]["nvmlDeviceGetPciInfo"] = {"err": 999, "msg": "Unknown Error"}  # type: ignore[index]
    three = (*bus((A, "nvidia"), (B, "nvidia"), ("0000:12:00.0", "nvidia")), log())
    findings = judged(data, three)
    assert [f.status for (rule, _), f in findings.items() if rule == RULE] == [Status.UNKNOWN]
    assert judged(data, (*bus((A, "nvidia"), (B, "nvidia")), log()))[RULE, "host"].status is Status.PASS


def test_a_refused_gpu_is_told_only_where_gpus_are_missing(
    healthy: Callable[..., object], judged: Judged
) -> None:
    refused = log(f"NVRM: GPU {B}: GPU has fallen off the bus.")
    unbound = (*bus((A, "nvidia"), (B, None)), refused)
    short = judged(healthy(1), unbound, 2)[RULE, B]
    assert (short.status, "did not take" in short.message) == (Status.FAIL, True)
    for expect in (1, None):
        assert judged(healthy(1), unbound, expect)[RULE, "host"].status is Status.PASS
    for_a_vm = (*bus((A, "nvidia"), (B, "vfio-pci")), refused)
    assert judged(healthy(1), for_a_vm, 2)[RULE, "host"].status is Status.PASS


def test_lines_without_an_address_belong_to_the_gpu_that_the_burst_names() -> None:
    said = kernlog.parse(
        log(
            "NVRM: kgspExtractVbiosFromRom_TU102: did not find valid ROM signature",
            f"NVRM: GPU {A}: RmInitAdapter failed! (0x62:0x25:1792)",
            f"NVRM: GPU {A}: rm_init_adapter failed, device minor number 0",
            "NVRM: GPU0 _kgspBootGspRm: unexpected WPR2 already up, cannot proceed with booting GSP",
            f"NVRM: GPU {B}: RmInitAdapter failed! (0x62:0x40:2168)",
            f"NVRM: GPU {B}: rm_init_adapter failed, device minor number 1",
        )
    )
    first, second = said.about(Bdf.parse(A)), said.about(Bdf.parse(B))
    assert first is not None
    assert second is not None
    assert (first.row.name, second.row.name) == ("no-video-bios", "firmware-still-up")
    assert said.about(Bdf.parse("0000:99:00.0")) is None
    assert (
        kernlog.parse(log("NVRM: GPU 0000:99:1f.7: x", "NVRM: GPU 0000:99:ff.0: x")).about(Bdf.parse(A))
        is None
    )


def test_the_last_word_of_the_kernel_on_a_gpu_counts() -> None:
    said = kernlog.parse(
        log(f"NVRM: GPU {A}: GPU has fallen off the bus.", f"NVRM: GPU {B}: fine", FAILED.replace(B, A))
    )
    story = said.about(Bdf.parse(A))
    assert story is not None
    assert story.row.name == "init"


def test_a_message_broken_over_lines_is_one_again() -> None:
    text = (
        b"[  102.1] NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:1b38)\n"
        b"               NVRM: installed in this system is not supported by open\n"
        b"               NVRM: nvidia.ko because it does not include the required GPU\n"
        b"               NVRM: System Processor (GSP).\n"
        b"[  102.2] NVRM: The NVIDIA probe routine failed for 1 device(s).\n"
    )
    lines = kernlog.parse(Section(kernlog.KIND, kernlog.PATH, text)).lines
    assert len(lines) == 2
    assert lines[0].endswith("does not include the required GPU System Processor (GSP).")
    untimed = re.sub(rb"\[ +[0-9.]+\] ", b"", text)
    assert kernlog.parse(Section(kernlog.KIND, kernlog.PATH, untimed)).lines == lines


def test_a_message_is_one_wherever_the_driver_broke_it() -> None:
    said = kernlog.read(
        f"[  102.1] NVRM: The NVIDIA GPU {A}\n"
        "               NVRM: (PCI ID: 10de:2230) installed in this system has\n"
        "               NVRM: fallen off the bus and is not responding to commands.\n"
        f"[  102.2] nvidia: probe of {A} failed with error -1\n"
    )
    story = said.about(Bdf.parse(A))
    assert story is not None
    assert story.row.name == "off-the-bus"


def test_the_log_is_kept_without_serial_numbers_and_without_what_is_not_nvidia_s() -> None:
    uuid = "GPU-604d3abb-43d5-088f-f873-9dc453a081a5"
    kept = kernlog.look(
        lambda: (
            f"<6>[ 1.0] usb 1-1: SerialNumber: 123\n<4>[ 2.0] NVRM: GPU at PCI:0000:06:00: {uuid}\n"
            "<4>[ 2.1] NVRM: GPU Board Serial Number: 1324517000001\n<4>[ 2.2] " + FAILED + "\n"
        )
    )
    text = (kept.data or b"").decode()
    assert FAILED in text
    assert "usb" not in text
    assert "604d3abb" not in text
    assert "1324517000001" not in text
    assert "<4>" not in text


def test_a_log_that_cannot_be_read_is_a_section_with_the_reason() -> None:
    def refused() -> str:
        raise PermissionError(1, "Operation not permitted")

    assert kernlog.look(refused) == Section(kernlog.KIND, kernlog.PATH, None, "Operation not permitted")


def test_a_flood_of_lines_keeps_the_last() -> None:
    kept = kernlog.look(lambda: "".join(f"NVRM: line {n} {'x' * 900}\n" for n in range(2000)))
    lines = (kept.data or b"").decode().splitlines()
    assert len(lines) == kernlog.LINES_KEPT
    assert lines[-1].startswith("NVRM: line 1999 ")
    assert max(map(len, lines)) == 500


def test_nothing_of_a_gpu_s_page_but_minor_and_exclusion_is_kept(tmp_path: Path) -> None:
    device = tmp_path / "sys/bus/pci/devices/0000:42:00.0"
    device.mkdir(parents=True)
    for name, text in (("vendor", "0x10de\n"), ("device", "0x2230\n"), ("class", "0x030000\n")):
        (device / name).write_text(text)
    (device / "driver").symlink_to("../../../bus/pci/drivers/nvidia")
    proc = tmp_path / "proc/driver/nvidia/gpus/0000:42:00.0"
    proc.mkdir(parents=True)
    (proc / "information").write_text(
        "Model: \t\t NVIDIA RTX A6000\nGPU UUID: \t GPU-604d3abb-43d5-088f-f873-9dc453a081a5\n"
        "Device Minor: \t 1\nGPU Excluded:\t No\n"
    )
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia1").write_text("a plain file is no device node")
    sections = node.look(str(tmp_path))
    assert not any(b"604d3abb" in (section.data or b"") for section in sections)
    seen = node.parse(sections, "tree")
    assert seen.gpus is not None
    assert (seen.gpus[0].minor, seen.gpus[0].excluded) == (1, False)
    assert seen.nodes == frozenset()


def test_the_log_is_what_the_kernel_wrote_into_the_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"<4>[    1.000000] NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x62:0x25:1679)\n"

    def klogctl(action: int, buffer: Any, size: int) -> int:
        if action == 3:
            buffer[: len(text)] = text
        return len(text)

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace(klogctl=klogctl))
    section = kernlog.look()
    assert section.data is not None
    assert b"RmInitAdapter failed!" in section.data
