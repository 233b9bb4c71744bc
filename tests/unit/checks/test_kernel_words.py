"""What a kernel log says of GPUs in the driver's own words: when, how often, and what it asks for."""

from __future__ import annotations

import pytest

from checks.gpus import texts
from checks.gpus.report import judge_record
from checks.gpus.texts import together
from checks.model import Finding

AT = "0000:3b:00.0"
XID79 = f"NVRM: Xid (PCI:{AT[:10]}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
FALLEN = f"NVRM: GPU {AT}: GPU has fallen off the bus."


def told(text: str, expect: int | None = None) -> dict[tuple[str, str], Finding]:
    report = judge_record(texts.read(text.encode(), "a log"), expect, replayed=True, name="a log")
    return {(one.id, one.subject): one for one in report.findings}


def xid154(before: str, after: str) -> str:
    return f"NVRM: Xid (PCI:{AT[:10]}): 154, GPU recovery action changed from {before} to {after}\n"


def test_the_second_wording_of_an_xid_is_no_second_xid() -> None:
    message = told(f"[5.1] {XID79}\n[5.2] {FALLEN}\n")["gpu.xid", AT].message
    assert "times" not in message
    assert "2 times" in told(f"[5.1] {XID79}\n[5.2] {FALLEN}\n[6.1] {XID79}\n")["gpu.xid", AT].message
    assert told(f"[5.2] {FALLEN}\n")["gpu.xid", AT].status.value == "fail"


@pytest.mark.parametrize(
    ("head", "when"),
    [
        ("[1234567.891018] ", "1234567.8 s after boot"),
        ("[Mon Nov 24 03:20:01 2025] ", "Mon Nov 24 03:20:01 2025"),
        ("Nov 24 03:12:44 node7 kernel: ", "Nov 24 03:12:44"),
        ("2025-11-24T03:12:45.123456+00:00 node7 kernel: ", "2025-11-24T03:12:45"),
        ("kern  :err   : [Mon Nov 24 03:20:01 2025] ", "Mon Nov 24 03:20:01 2025"),
        ("4,1207,9876543210,-;", "9876.5 s after boot"),
        ("<4>[   77.5] ", "77.5 s after boot"),
    ],
)
def test_an_xid_is_told_with_the_newest_time_that_the_log_gives_it(head: str, when: str) -> None:
    older = head.replace("1234567", "1000000").replace("24 03", "23 03").replace("9876543210", "1000")
    one = told(f"{head}{XID79}\n")["gpu.xid", AT].message
    assert f"(at {when}" in one
    assert f"(2 times, the last {when}" in told(f"{older}{XID79}\n{head}{XID79}\n")["gpu.xid", AT].message


def test_a_log_without_times_gives_an_xid_no_time() -> None:
    assert "(" not in told(f"{XID79}\n")["gpu.xid", AT].message.replace("[needs", "")


@pytest.mark.parametrize(
    ("asked", "word", "fix"),
    [
        ("0x2 (Node Reboot Required)", "node reboot", "reboot the host"),
        ("0x1 (GPU Reset Required)", "GPU reset", "--gpu-reset -i N"),
        ("0x3 (Drain P2P)", "peer-to-peer", "stop the work"),
        ("0x9 (Something New)", "does not know", "nvml.h"),
    ],
)
def test_a_recovery_that_the_driver_asks_for_fails_with_that_recovery(
    asked: str, word: str, fix: str
) -> None:
    finding = told(xid154("0x0 (None)", asked))["gpu.xid", AT]
    assert finding.status.value == "fail"
    assert word in finding.message
    assert fix in (finding.fix or "")


def test_only_the_newest_word_on_recovery_holds() -> None:
    asked, over = xid154("0x0 (None)", "0x2 (Node Reboot Required)"), xid154("0x2 (Reboot)", "0x0 (None)")
    assert told(asked + over)["gpu.xid", AT].status.value == "pass"
    assert told(over + asked)["gpu.xid", AT].status.value == "fail"
    assert told(f"{XID79}\n{over}")["gpu.xid", AT].value == 79


def test_an_action_that_the_gpu_itself_no_longer_asks_for_is_over() -> None:
    query = "GPU 00000000:3B:00.0\n    GPU Recovery Action                   : {}\n"
    log = texts.read(xid154("0x0 (None)", "0x1 (GPU Reset Required)").encode(), "log")
    for said, verdict in (("None", "pass"), ("Reset", "fail")):
        both = together.join([texts.read(query.format(said).encode(), "q"), log])
        report = judge_record(both, None, replayed=True, name="both")
        (finding,) = [one for one in report.findings if one.id == "gpu.xid"]
        assert (finding.subject, finding.status.value) == ("gpu0", verdict)
