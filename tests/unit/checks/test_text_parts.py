"""A file with several texts in it: every part is read, and what is not read is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.cli import main
from checks.errors import BadInput
from checks.gpus import texts
from checks.gpus.report import judge_record
from checks.gpus.texts import parts
from checks.model import Finding

QUERY = """\
==============NVSMI LOG==============

Timestamp                                 : Mon Nov 24 03:20:01 2025
Driver Version                            : 550.90.07
Attached GPUs                             : 2
GPU 00000000:17:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    ECC Mode
        Current                           : Enabled
        Pending                           : Enabled
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : 2
        Pending                           : Yes
        Remapping Failure Occurred        : No
GPU 00000000:3B:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    MIG Mode
        Current                           : Disabled
        Pending                           : Disabled
"""
LOG = """\
[    5.3] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC 2024
[ 1234.8] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
"""
BUS = """\
17:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)
\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported
\tLnkSta:\tSpeed 32GT/s (ok), Width x8 (downgraded)
\tKernel driver in use: nvidia
3b:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev ff)
"""
LIST = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-7c8a5b1e-1111-2222-3333-444455550000)\n"
TOPO = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV18\t0-31\nGPU1\tNV18\t X \t0-31\n"
FAILED = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
RULE = "____________________________________________\n"

Findings = dict[tuple[str, str], Finding]


def told(text: str) -> tuple[Findings, str]:
    record = texts.read(text.encode(), "report.log")
    report = judge_record(record, None, replayed=True, name="report.log")
    return {(one.id, one.subject): one for one in report.findings}, " ".join(record.notes)


@pytest.mark.parametrize("text", [LOG + "\n" + QUERY, QUERY + "\n" + LOG, QUERY + LOG])
def test_a_log_and_a_query_in_one_file_are_both_read(text: str) -> None:
    seen, said = told(text)
    assert seen["gpu.row_remap", "gpu0"].status.value == "fail"
    assert seen["gpu.xid", "gpu1"].value == 79
    assert "kernel log" in said
    assert "nvidia-smi -q" in said
    assert "not read" not in said


def test_a_bug_report_is_read_in_its_parts_and_the_rest_is_named() -> None:
    text = (
        f"{RULE}Start of NVIDIA bug report log file.\n\n*** /proc/cmdline\nBOOT_IMAGE=/vmlinuz\n{RULE}"
        f'/usr/bin/lspci -d "10de:*" -v -xxx\n{BUS}{RULE}/usr/bin/nvidia-smi --query\n\n{QUERY}{RULE}'
        f"/bin/dmesg:\n{LOG}{RULE}/usr/bin/journalctl -b -k\n"
        + LOG.replace("[    5.3]", "Nov 24 03:00:00 node7 kernel:").replace(
            "[ 1234.8]", "Nov 24 03:12:44 node7 kernel:"
        )
    )
    seen, said = told(text)
    assert seen["gpu.lost", "gpu1"].status.value == "fail"
    assert seen["gpu.row_remap", "gpu0"].status.value == "fail"
    assert seen["gpu.pcie_width", "gpu0"].status.value == "fail"
    assert "times" not in seen["gpu.xid", "gpu1"].message, "dmesg and journalctl tell the same Xid"
    assert "2 lines are of no known form and were not read, the first: 'Start of NVIDIA" in said


def test_the_log_of_an_earlier_boot_is_not_taken_for_this_one() -> None:
    text = f"{QUERY}{RULE}/usr/bin/journalctl -b -1 -k\n{LOG}"
    seen, said = told(text)
    assert not [key for key in seen if key[0] == "gpu.xid"]
    assert "2 lines are the log of an earlier boot" in said


def test_a_terminals_paste_is_read_in_its_parts() -> None:
    log = "[   10.1] NVRM: GPU 0000:17:00.0: RmInitAdapter failed! (0x62:0x25:1792)\n"
    seen, _ = told(f"root@gpu07:~# nvidia-smi\n{FAILED}\nroot@gpu07:~# dmesg | grep -i nvrm\n{log}")
    assert seen["driver.adapter_init", "0000:17:00.0"].status.value == "fail"
    assert seen["driver.library", "host"].status.value == "unknown"


def test_parts_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(BadInput, match=r"report\.log, in its parts"):
        told(f"{FAILED}\n{QUERY}")


@pytest.mark.parametrize("text", [QUERY, LOG, BUS, LIST, TOPO, FAILED])
def test_a_file_of_one_form_is_read_whole_and_says_nothing_of_parts(text: str) -> None:
    assert len(parts.split(text).forms) == 1
    assert texts.read(text.encode(), "x").notes == ()


def test_every_form_is_found_among_others() -> None:
    forms = parts.split(LIST + TOPO + "\n" + BUS + "\n" + LOG + "\n" + QUERY).forms
    assert forms == [parts.LIST, parts.TOPO, parts.BUS, parts.KERNEL, parts.QUERY]


def test_the_reader_is_told_on_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mix.txt"
    file.write_text(f"{LOG}\n{QUERY}\nsome words of a person\n")
    assert main(["gpus", "--json", "--replay", str(file)]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "some words of a person" in error
