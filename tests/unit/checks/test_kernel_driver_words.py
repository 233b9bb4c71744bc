"""The driver's words in the kernel log that are no Xid: none of them is a green silence."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from checks.data.driver_lines import DRIVER_LINES, DriverLine
from checks.gpus import kernlog, texts
from checks.gpus.report import judge_record
from checks.gpus.texts import together
from checks.model import Finding
from checks.record import Section

AT = "0000:d2:00.0"
FAILED = f"NVRM: GPU {AT}: RmInitAdapter failed! (0x26:0x56:1474)"
MISMATCH = "NVRM: API mismatch: the client has the version 550.127.05, but"
REST = """\
NVRM: this kernel module has the version 550.90.07.  Please
NVRM: make sure that this kernel module and all NVIDIA driver
NVRM: components have the same version."""
LOADING = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  550.90.07  Release Build"
CORE = "nvidia-nvlink: Nvlink Core is being initialized, major device number 511"

Findings = dict[tuple[str, str], Finding]
Judged = Callable[..., Findings]


def told(*parts: str) -> Findings:
    record = together.join([texts.read(part.encode(), "a log") for part in parts])
    report = judge_record(record, None, replayed=True, name="a log")
    return {(one.id, one.subject): one for one in report.findings}


def log(*lines: str) -> Section:
    return Section(kernlog.KIND, kernlog.PATH, "".join(f"[   61.5] {line}\n" for line in lines).encode())


def test_a_gpu_that_the_log_alone_shows_as_not_started_fails_by_its_address() -> None:
    finding = told(f"[2.0] {FAILED}\n")["driver.adapter_init", AT]
    assert finding.status.value == "fail"
    assert "0x26:0x56:1474" in finding.message
    assert ("driver.adapter_init", AT) not in told(f"[2.0] {FAILED.replace('failed!', 'succeeded!')}\n")


def test_a_gpu_without_address_that_did_not_start_fails_for_the_host() -> None:
    assert (
        told(f"[2.0] NVRM: {FAILED.split(': ', 2)[2]}\n")["driver.adapter_init", "host"].status.value
        == "fail"
    )


def test_a_gpu_without_a_window_is_told() -> None:
    finding = told("[2.0] NVRM: BAR1 is 0M @ 0x0 (PCI:0000:d2:00.0)\n")["driver.adapter_init", AT]
    assert "Above 4G" in (finding.fix or "")


def test_what_went_wrong_before_the_module_was_loaded_anew_is_past() -> None:
    assert ("driver.adapter_init", AT) not in told(f"[2.0] {FAILED}\n[9.0] {CORE}\n[9.1] {LOADING}\n")
    assert ("driver.adapter_init", AT) in told(f"[1.0] {CORE}\n[1.1] {LOADING}\n[2.0] {FAILED}\n")


def test_a_gpu_that_the_query_shows_did_start() -> None:
    query = f"Attached GPUs    : 1\nGPU 0000{AT}\n    Product Name   : NVIDIA H100\n    PCI\n        Bus  : 0xD2\n"
    assert ("driver.adapter_init", AT) not in told(query, f"[2.0] {FAILED}\n")


def test_a_gpu_that_fell_off_the_bus_is_told_once() -> None:
    seen = told(f"[2.0] NVRM: GPU {AT}: GPU has fallen off the bus.\n")
    assert ("gpu.xid", AT) in seen
    assert ("driver.adapter_init", AT) not in seen


@pytest.mark.parametrize("head", ["", "[    1.0] "])
def test_a_library_that_was_turned_away_fails_with_both_versions(head: str) -> None:
    text = "\n".join(head + line for line in (MISMATCH, *REST.splitlines()))
    finding = told(text + "\n")["driver.library", "host"]
    assert (finding.status.value, finding.value, finding.limit) == ("fail", "550.127.05", "550.90.07")
    assert ("driver.library", "host") not in told(f"{head}{LOADING}\n")


def test_a_library_that_was_turned_away_where_nvml_works_is_another_programs(
    judged: Judged, healthy: Callable[..., Any]
) -> None:
    assert judged(healthy(1), (log(LOADING),))["driver.library", "host"].status.value == "pass"
    finding = judged(healthy(1), (log(LOADING, MISMATCH, *REST.splitlines()),))["driver.library", "host"]
    assert finding.status.value == "warn"


@pytest.mark.parametrize("row", DRIVER_LINES, ids=lambda row: row.name)
def test_each_word_of_the_module_on_itself_has_its_verdict(row: DriverLine) -> None:
    finding = told(f"[4.0] {row.example}\n")["driver.log", "host"]
    assert finding.status.value == ("fail" if row.fatal else "warn")
    assert (finding.cause, finding.fix) == (row.cause, row.fix)
    assert next(one for one in DRIVER_LINES if re.search(one.pattern, row.example)) == row


def test_a_line_of_the_driver_that_no_rule_knows_is_counted_and_quoted() -> None:
    strange = "NVRM: GPU0 nvAssertFailedNoLog: Assertion failed: {} @ kern.c:77"
    text = "".join(f"[{n}.0] {strange.format(n)}\n" for n in range(3))
    finding = told(f"[0.1] {LOADING}\n{text}")["driver.log", "host"]
    assert finding.status.value == "warn"
    assert finding.value == 3
    assert "failed: 2 @" in finding.message
    assert told(f"[0.1] {LOADING}\n")["driver.log", "host"].status.value == "pass"


def test_a_line_that_is_unknown_is_no_fault_where_nvml_itself_was_asked(
    judged: Judged, healthy: Callable[..., Any]
) -> None:
    finding = judged(healthy(1), (log("NVRM: something quite new"),))["driver.log", "host"]
    assert finding.status.value == "pass"
    assert "something quite new" in finding.message


AER = "pcieport 0000:c9:01.0: AER: Uncorrected ({}) error received: {}"
NEW = "pcieport 0000:c9:01.0: AER: Uncorrectable ({}) error message received from {}"
OWN = "nvidia {1}: PCIe Bus Error: severity=Uncorrected ({0}), type=Transaction Layer, (Receiver ID)"


@pytest.mark.parametrize("form", [AER, NEW, OWN])
@pytest.mark.parametrize(("word", "verdict"), [("Fatal", "fail"), ("Non-Fatal", "warn")])
def test_an_uncorrected_pcie_error_of_a_gpu_is_a_finding(form: str, word: str, verdict: str) -> None:
    named = f"[1.0] nvidia {AT}: enabling device (0140 -> 0142)\n"
    finding = told(f"{named}[6.1] {form.format(word, AT)}\n")["pcie.errors", AT]
    assert finding.status.value == verdict
    assert "6.1 s" in finding.message


def test_a_pcie_error_of_a_device_that_the_log_does_not_name_is_not_passed_over() -> None:
    finding = told(f"[6.1] {AER.format('Fatal', AT)}\n")["pcie.errors", AT]
    assert finding.status.value == "warn"
    assert "lspci" in (finding.fix or "")


def test_with_the_bus_beside_it_a_pcie_error_is_the_gpus_or_nobodys() -> None:
    bus = "d2:00.0 3D controller: NVIDIA Corporation GH100 (rev a1)\n04:00.0 Ethernet controller: X Y\n"
    assert told(bus, f"[6.1] {AER.format('Fatal', AT)}\n")["pcie.errors", AT].status.value == "fail"
    other = told(bus, f"[6.1] {AER.format('Fatal', '0000:04:00.0')}\n")
    assert not [key for key in other if key[0] == "pcie.errors"]


def test_a_pcie_error_before_the_reset_of_the_gpu_is_past(
    judged: Judged, healthy: Callable[..., Any]
) -> None:
    record = healthy(1)
    at = str(record["devices"][0]["nvmlDeviceGetPciInfo"]["busId"]).lower()[-12:]
    error, reset = AER.format("Fatal", at), f"pci {at}: reset done"
    seen = judged(record, (log(LOADING, error),))
    assert seen["pcie.errors", "gpu0"].status.value == "fail"
    assert ("pcie.errors", "gpu0") not in judged(record, (log(LOADING, error, reset),))
    assert (
        judged(record, (log(LOADING, error.replace("Uncorrected", "Corrected")),))[
            "pcie.errors", "host"
        ].status.value
        == "pass"
    )
