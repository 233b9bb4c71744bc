"""Kernel logs in other languages and wrappings, and Xids whose address is not told: no error is lost."""

from __future__ import annotations

import pytest

from checks.bdf import Bdf
from checks.errors import BadInput
from checks.gpus import kernlog, texts
from checks.gpus.report import judge_record
from checks.model import Finding

XID = "NVRM: Xid (PCI:0000:3b:00): 48, pid=1, name=python, DBE"


def told(text: str) -> Finding:
    report = judge_record(texts.read(text.encode(), "a log"), None, replayed=True, name="a log")
    (finding,) = [one for one in report.findings if one.id == "gpu.xid"]
    return finding


@pytest.mark.parametrize(
    "head",
    [
        "déc. 01 12:00:00 host kernel: ",
        "12月 01 12:00:00 host kernel: ",
        "\u043d\u043e\u044f 30 12:00:00 host kernel: ",
        "[Mo Nov 30 12:00:00 2026] ",
        "[月 11月 30 12:00:00 2026] ",
        "node1: ",
        "> ",
        "\x1b[32m[  123.456789] \x1b[0m\x1b[33m",
        "\ufeff",
        "Nov 30 12:00:00 host kernel: [  1.5] ",
        "<4>1 2026-11-30T12:00:00Z host kernel - - - ",
    ],
)
def test_what_stands_before_the_drivers_words_hides_no_error(head: str) -> None:
    finding = told(f"{head}{XID}\r\n")
    assert (finding.status.value, finding.subject) == ("fail", "0000:3b:00.0")


@pytest.mark.parametrize("place", ["PCI:3b:00", "3b:00", "PCI:0000:3B:00.0"])
def test_an_address_without_domain_is_in_the_first(place: str) -> None:
    (event,) = kernlog.read(f"NVRM: Xid ({place}): 62, x").events
    assert event.bdf == Bdf.parse("0000:3b:00.0")


def test_an_xid_of_a_gpu_that_is_not_told_is_still_an_error() -> None:
    finding = told("NVRM: Xid (unknown): 62, x\n")
    assert (finding.status.value, finding.subject) == ("fail", "host")


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", "fail"),
        ("154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", "pass"),
    ],
)
def test_a_recovery_that_is_over_is_no_finding(line: str, verdict: str) -> None:
    assert told(f"NVRM: Xid (PCI:0000:3b:00): {line}\n").status.value == verdict


def test_an_nvlink_error_that_is_not_fatal_asks_for_no_reset() -> None:
    mild = told("NVRM: Xid (PCI:0000:3b:00): 145, RLW_REMAP Nonfatal XC0\n")
    assert (mild.status.value, "reset" in (mild.fix or "")) == ("warn", False)
    grave = told("NVRM: Xid (PCI:0000:3b:00): 149, NETIR_LINK_EVT Fatal XC0\n")
    assert (grave.status.value, "reset" in (grave.fix or "")) == ("fail", True)


def every(text: str) -> dict[str, Finding]:
    report = judge_record(texts.read(text.encode(), "a log"), None, replayed=True, name="a log")
    return {one.id: one for one in report.findings}


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: The NVIDIA GPU 0000:3b:00.0\nNVRM: (PCI ID: 10de:2330) installed in this system has\n"
        "NVRM: fallen off the bus and is not responding to commands.\n",
        "[1.0] NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:2330)\n[1.0] NVRM: installed in this system has\n"
        "[1.0] NVRM: fallen off the bus and is not responding to commands.\n",
        "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.\n",
    ],
)
def test_a_gpu_that_fell_off_the_bus_is_found_however_its_line_was_broken(text: str) -> None:
    finding = told(text)
    assert (finding.status.value, finding.subject) == ("fail", "0000:3b:00.0")


def test_a_fall_off_the_bus_without_an_address_is_an_error_of_the_host() -> None:
    finding = told("[1.0] NVRM: GPU has fallen off the bus.\n")
    assert (finding.status.value, finding.subject) == ("fail", "host")


SWITCH = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, "


@pytest.mark.parametrize(("word", "number", "verdict"), [("Non-fatal", 0, "warn"), ("Fatal", 1, "fail")])
def test_the_further_lines_of_an_sxid_are_no_errors_of_their_own(
    word: str, number: int, verdict: str
) -> None:
    lines = (
        f"{word}, Link 46 MC TS crumbstore MCTO (First)",
        f"Severity {number} Engine instance 46 Sub-engine instance 00",
        "Data {0x00140004, 0x00100000}",
    )
    finding = every("".join(f"{SWITCH}{line}\n" for line in lines))["fabric.sxid"]
    assert finding.status.value == verdict
    assert "in all" not in finding.message
    alone = every(f"{SWITCH}{lines[2]}\n")["fabric.sxid"]
    assert alone.status.value == "fail", "an error whose first line was overwritten is no harmless one"


@pytest.mark.parametrize(
    ("level", "words", "verdict"),
    [
        ("ERROR", "driver interface version 550.1 don't match with driver version 560.2.", "fail"),
        ("ERROR", "failed to find any NVSwitch", "warn"),
        ("INFO", "Successfully configured all the available NVSwitches", None),
    ],
)
def test_the_errors_of_fabric_manager_itself_are_told(level: str, words: str, verdict: str | None) -> None:
    line = f"[Nov 30 2026 00:00:00] [{level}] [tid 1] {words}\n"
    finding = every(line).get("fabric.manager")
    assert (finding and finding.status.value) == verdict


def test_errors_before_fabric_managers_last_start_are_past() -> None:
    head = "[Nov 30 2026 00:00:00] [{}] [tid 1] {}\n"
    start = head.format(
        "INFO", "Fabric Manager version 580.1 is running with the following configuration options"
    )
    assert "fabric.manager" not in every(head.format("ERROR", "failed to start") + start)
    assert "fabric.manager" in every(start + head.format("ERROR", "failed to start"))


@pytest.mark.parametrize(
    ("text", "identity", "verdict"),
    [
        (
            "python[1]: segfault at 0 ip 00007f sp 00 error 4 in libnccl.so.2[7f00+1000]\n",
            "node.nccl_crash",
            "warn",
        ),
        (
            "mlx5_core 0000:5e:00.0: 63.008 Gb/s available PCIe bandwidth, limited by x8 link\n",
            "gpu.xid",
            "unknown",
        ),
    ],
)
def test_one_line_of_a_kernel_log_without_time_is_a_kernel_log(
    text: str, identity: str, verdict: str
) -> None:
    assert every(text)[identity].status.value == verdict


BUS = "3b:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330] (rev {}) (prog-if {})\n"


def test_a_gpu_of_which_the_bus_reads_only_ones_is_lost() -> None:
    assert every(BUS.format("ff", "ff"))["gpu.lost"].status.value == "fail"
    assert "gpu.lost" not in every(BUS.format("a1", "00"))


def test_a_bus_without_a_gpu_is_told_as_that() -> None:
    finding = every("00:02.0 VGA compatible controller [0300]: Intel Corporation UHD [8086:3e92]\n")[
        "gpu.count"
    ]
    assert (finding.status.value, finding.value) == ("unknown", 0)


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-30 12:00:00,123 INFO worker.py: NCCL WARN something failed",
        "2026-11-30T12:00:00Z starting the engine",
        "engine:started:8000",
    ],
)
def test_the_log_of_another_program_is_no_green_kernel_log(line: str) -> None:
    with pytest.raises(BadInput):
        texts.read(f"{line}\n{line}\n".encode(), "engine.log")
    assert told(f"2026-11-30T12:00:00,285060+00:00 {XID}\n").status.value == "fail"


@pytest.mark.parametrize("head", ["déc. 01 12:00:00 host kernel: ", "[Mo Nov 30 12:00:00 2026] ", "[  1.5] "])
def test_a_kernel_log_without_a_word_of_the_driver_is_one_in_any_language(head: str) -> None:
    calm = f"{head}usb 1-1: new device\n{head}EXT4-fs: mounted\n"
    assert told(calm).status.value == "unknown", "a log that does not mention the driver proves nothing"
    assert (
        told(f"{calm}{head}NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.90\n").status.value == "pass"
    )


@pytest.mark.parametrize(("times", "said"), [(2, "(2 times, "), (30000, "(at least ")])
def test_the_number_of_a_storm_is_not_told_as_if_all_had_been_kept(times: int, said: str) -> None:
    assert said in told("".join(f"[{n}.0] {XID}\n" for n in range(times))).message
