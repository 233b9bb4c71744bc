"""Several kernel logs given together: what heals an error heals it in its own log, whatever the order of the files."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from checks.errors import BadInput
from checks.gpus import texts
from checks.gpus.report import judge_record
from checks.gpus.texts import together
from checks.model import Finding

LOAD = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  550.90.07"
XID = "NVRM: Xid (PCI:0000:3b:00): {}, pid=7, name=x, y"
RESET = "nvidia 0000:3b:00.0: reset done"
DONE = (
    "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
)
ASKED = (
    "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
)
SXID = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Fatal, Link 46 MC TS crumbstore MCTO (First)"
AER = "pcieport 0000:3a:00.0: AER: Uncorrectable (Fatal) error message received from 0000:3b:00.0"
BOOT = "Linux version 6.12.1 (b@h) (gcc) #1 SMP"
GPU = ("gpu.xid", "0000:3b:00.0")


def journal(day: int, *lines: str, host: str = "gpu7") -> str:
    return "".join(
        f"Mar {day:02} 10:00:{second:02} {host} kernel: {line}\n" for second, line in enumerate(lines)
    )


def dmesg(start: float, *lines: str) -> str:
    return "".join(f"[{start + at:12.6f}] {line}\n" for at, line in enumerate(lines))


def told(*files: str) -> dict[tuple[str, str], Finding]:
    """The findings on the files in every order; all orders say the same."""
    seen = []
    for order in permutations(files):
        record = together.join([texts.read(one.encode(), "a log") for one in order])
        report = judge_record(record, None, replayed=True, name="the logs")
        seen.append({(one.id, one.subject): one for one in report.findings})
    assert all(one == seen[0] for one in seen), "the order of the files has no part in it"
    return seen[0]


@pytest.mark.parametrize(
    "other",
    [
        dmesg(4.100001, LOAD),
        dmesg(90000.5, LOAD),
        journal(3, BOOT, LOAD),
        f"[Tue Mar  3 08:00:00 2026] {LOAD}\n",
        f"{LOAD}\n",
        f"2026-03-03T08:00:00+0000 gpu7 kernel: {LOAD}\n",
    ],
    ids=["dmesg", "later dmesg", "journal", "dmesg -T", "without times", "iso"],
)
def test_a_load_in_a_log_that_cannot_be_ordered_clears_no_xid_of_another(other: str) -> None:
    sick = dmesg(900.000001, XID.format(79))
    assert told(sick, other)[GPU].status.value == "fail"
    assert told(sick + dmesg(1000.000001, LOAD), other)[GPU].status.value == "pass", "its own load does"


def test_logs_of_one_machine_with_times_of_one_form_are_put_in_their_order() -> None:
    sick, loaded = journal(2, XID.format(79)), journal(3, BOOT, LOAD)
    assert told(sick, loaded).get(GPU) is None, "an earlier boot is past"
    assert told(journal(2, XID.format(79)), journal(3, LOAD))[GPU].status.value == "pass"
    assert told(journal(4, XID.format(79)), journal(3, LOAD))[GPU].status.value == "fail"


def test_two_parts_of_one_log_that_overlap_are_one_log() -> None:
    lines = dmesg(900.000001, LOAD, XID.format(79), LOAD, XID.format(31), XID.format(31)).splitlines(True)
    first, second = "".join(lines[:4]), "".join(lines[3:])
    finding = told(first, second)[GPU]
    assert (finding.status.value, finding.value) == ("warn", 31)
    assert "(2 times" in finding.message, "the line that both have is one event"
    healed = "".join(lines[:3])
    assert told("".join(lines[:2]), healed)[GPU].status.value == "pass", (
        "the later copy of one log knows more"
    )


def test_round_times_that_every_boot_has_prove_no_common_log() -> None:
    same = f"[    0.004000] {LOAD}\n"
    assert (
        told(same + dmesg(900.000001, XID.format(79)), same + dmesg(950.000001, LOAD))[GPU].status.value
        == "fail"
    )


def test_a_load_at_the_very_second_of_an_xid_of_another_log_clears_it_not() -> None:
    assert told(journal(3, XID.format(79)), journal(3, LOAD))[GPU].status.value == "fail"


def test_half_a_year_without_a_year_is_no_order() -> None:
    december = journal(2, XID.format(79)).replace("Mar", "Dec")
    january = journal(3, LOAD).replace("Mar", "Jan")
    assert told(december, january)[GPU].status.value == "fail"


def test_a_log_whose_times_fall_gives_no_order() -> None:
    two_boots = journal(9, XID.format(79)) + journal(2, LOAD)
    assert told(two_boots, journal(8, "NVRM: Persistence mode is deprecated"))[GPU].status.value == "pass"
    assert told(journal(9, XID.format(79)), journal(10, LOAD) + journal(2, LOAD))[GPU].status.value == "fail"


@pytest.mark.parametrize(
    "other", [journal(3, LOAD, host="gpu8"), journal(3, "NVRM: x", host="gpu8.example.org")]
)
def test_logs_of_two_machines_are_refused_in_any_order(other: str, tmp_path: Path) -> None:
    for number, text in enumerate((journal(2, XID.format(79)), other)):
        (tmp_path / str(number)).write_text(text)
    for order in ("01", "10"):
        with pytest.raises(BadInput, match=r"several machines \(gpu7, gpu8\).*one by one"):
            together.load([tmp_path / name for name in order])
    with pytest.raises(BadInput, match="several machines"):
        texts.read((journal(2, XID.format(79)) + other).encode(), "both.log")


def test_a_machine_without_a_name_yet_or_with_its_domain_is_the_same() -> None:
    early = journal(1, BOOT, LOAD, host="localhost")
    assert told(early, journal(2, XID.format(79), host="gpu7"))[GPU].status.value == "fail"
    named = journal(2, XID.format(79), host="gpu7.example.org")
    assert told(named, journal(3, LOAD))[GPU].status.value == "pass"


@pytest.mark.parametrize(
    ("sick", "other", "identity"),
    [
        (dmesg(9.000001, XID.format(79)), dmesg(9.5, XID.format(79), RESET), "gpu.xid"),
        (dmesg(9.000001, ASKED), dmesg(9.5, ASKED, DONE), "gpu.xid"),
        (dmesg(9.000001, SXID), dmesg(9.5, LOAD), "fabric.sxid"),
        (
            dmesg(9.000001, f"NVRM: GPU 0000:3b:00.0: x\n{AER}"),
            dmesg(9.5, "NVRM: x", AER, RESET),
            "pcie.errors",
        ),
        (dmesg(9.000001, "NVRM: No NVIDIA GPU found."), dmesg(9.5, BOOT, LOAD), "driver.log"),
        (
            dmesg(9.000001, "NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x62:0x25:1792)"),
            dmesg(9.5, "nvidia-nvlink: Nvlink Core is being initialized", LOAD),
            "driver.adapter_init",
        ),
    ],
    ids=["reset", "recovery", "switch", "pcie", "module", "adapter"],
)
def test_no_rule_takes_the_healing_of_one_log_for_another(sick: str, other: str, identity: str) -> None:
    def verdicts(*files: str) -> set[str]:
        return {one.status.value for (name, _), one in told(*files).items() if name == identity}

    assert "fail" in verdicts(sick)
    assert "fail" not in verdicts(other)
    assert "fail" in verdicts(sick, other)


def test_three_logs_keep_what_is_in_force_in_any() -> None:
    seen = told(dmesg(9.000001, XID.format(79)), dmesg(50.5, LOAD), journal(3, BOOT, LOAD))
    assert seen[GPU].status.value == "fail"


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("[1.0] usb 1-1: new device\n", "unknown"),
        ("[0.0] Linux version 6.8.0-1013-nvidia (b@h)\n[1.0] usb 1-1: new device\n", "unknown"),
        ("[1.0] nvidia-smi[77]: segfault at 0 ip 0 sp 0 error 4 in libc.so.6\n", "unknown"),
        (f"[1.0] {LOAD}\n", "pass"),
        ("[1.0] nvidia 0000:3b:00.0: enabling device\n", "pass"),
        ("[1.0] [drm] [nvidia-drm] [GPU ID 0x00003b00] Loading driver\n", "pass"),
    ],
)
def test_no_xid_is_a_pass_only_in_a_log_that_mentions_the_driver(text: str, verdict: str) -> None:
    finding = told(text)["gpu.xid", "host"]
    assert finding.status.value == verdict
    assert ("does not mention" in finding.message) == (verdict == "unknown")


def test_a_log_without_the_driver_says_nothing_beside_one_that_has_it() -> None:
    calm = "[1.0] usb 1-1: new device\n[2.0] usb 1-2: new device\n"
    assert told(calm, f"[4.1] {LOAD}\n")["gpu.xid", "host"].status.value == "pass"
    assert told(calm, calm.replace("usb", "eth"))["gpu.xid", "host"].status.value == "unknown"
