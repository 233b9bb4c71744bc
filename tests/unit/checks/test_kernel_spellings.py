"""Kernel logs in other languages and wrappings, and Xids whose address is not told: no error is lost."""

from __future__ import annotations

import pytest

from checks.bdf import Bdf
from checks.gpus import kernlog, texts
from checks.gpus.command import judge_record
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
        ("154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", "warn"),
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
