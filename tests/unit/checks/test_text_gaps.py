"""What a text shows only in part: a flag without its block, a query that was cut, a bus whose GPUs others hold."""

from __future__ import annotations

from itertools import permutations

import pytest

from checks.gpus import texts
from checks.gpus.report import judge_record
from checks.gpus.texts import together
from checks.model import Finding

GPU = "GPU 00000000:{}:00.0\n"
BODY = """\
    Product Name                          : NVIDIA H100 80GB HBM3
    ECC Mode
        Current                           : Enabled
        Pending                           : Enabled
    ECC Errors
        Volatile
            DRAM Uncorrectable            : 0
        Aggregate
            DRAM Uncorrectable            : 0
    Temperature
        GPU Current Temp                  : 40 C
        GPU Slowdown Temp                 : 89 C
    Processes                             : None
"""
HEAD = "Attached GPUs                             : {}\n"
LIST = "".join(f"GPU {n}: NVIDIA H100 80GB HBM3 (UUID: GPU-{n})\n" for n in range(2))
DEVICE = "{}:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330] (rev a1)\n\tSubsystem: NVIDIA\n"


def told(*parts: str, expect: int | None = None) -> dict[tuple[str, str], Finding]:
    seen = []
    for order in permutations(parts):
        record = together.join([texts.read(part.encode(), "a text") for part in order])
        report = judge_record(record, expect, replayed=True, name="a text")
        seen.append({(one.id, one.subject): one for one in report.findings})
    assert all(
        {k: f.status for k, f in one.items()} == {k: f.status for k, f in seen[0].items()} for one in seen
    )
    return seen[0]


def verdict(text: str, identity: str) -> str | None:
    finding = told(GPU.format("17") + BODY + text).get((identity, "gpu0"))
    return finding and finding.status.value


def rows(pending: str, failure: str) -> str:
    return (
        "    Remapped Rows\n        Correctable Error : 0\n        Uncorrectable Error : 0\n"
        f"        Pending : {pending}\n        Remapping Failure Occurred : {failure}\n"
    )


@pytest.mark.parametrize(
    ("text", "identity", "wanted"),
    [
        ("    GPU Reset Status\n        Reset Required : {}\n", "gpu.recovery", "pass"),
        ("    GPU Reset Status\n        Drain and Reset Recommended : {}\n", "gpu.recovery", "pass"),
        ("    Reset Required : {}\n    Drain and Reset Recommended : No\n", "gpu.recovery", "pass"),
        ("    Remapped Rows\n        Channel Repair Pending : {}\n", "gpu.recovery", None),
        ("        TPC Repair Pending : {}\n", "gpu.recovery", None),
        ("        Channel Repair Pending : N/A\n        TPC Repair Pending : {}\n", "gpu.recovery", None),
        ("        Unrepairable Memory : {}\n", "gpu.row_remap", None),
        ("    Remapped Rows\n        Pending : {}\n", "gpu.row_remap", None),
        ("    Remapped Rows\n        Remapping Failure Occurred : {}\n", "gpu.row_remap", None),
        (rows("{}", "No"), "gpu.row_remap", "pass"),
        (rows("No", "{}"), "gpu.row_remap", "pass"),
        (rows("{}", "N/A"), "gpu.row_remap", None),
        (rows("No", "No") + "    Unrepairable Memory : {}\n", "gpu.row_remap", "pass"),
        ("    Retired Pages\n        Pending Page Blacklist : {}\n", "gpu.retired_pages", None),
    ],
)
def test_a_flag_that_tells_a_fault_is_judged_whatever_else_is_not_shown(
    text: str, identity: str, wanted: str | None
) -> None:
    assert verdict(text.format("Yes"), identity) == "fail"
    assert verdict(text.format("No"), identity) in (wanted, "skip" if "N/A" in text else wanted)
    assert verdict(text.format("Perhaps"), identity) in ("unknown", None if "Pages" in text else "unknown")


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        *(("None", "pass"), ("N/A", "skip"), ("Reset", "fail"), ("GPU Reset", "fail"), ("Reboot", "fail")),
        *(
            ("Drain P2P", "fail"),
            ("Drain and Reset", "fail"),
            ("DRAIN_AND_RESET", "fail"),
            ("Something", "fail"),
        ),
    ],
)
def test_every_recovery_that_the_driver_asks_for_is_one(word: str, wanted: str) -> None:
    assert verdict(f"    GPU Recovery Action : {word}\n", "gpu.recovery") == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Volatile\n DRAM Uncorrectable : 3\n", "fail"),
        ("Volatile\n DRAM Uncorrectable : 0\n", None),
        ("Volatile\n DRAM Uncorrectable : 0\nAggregate\n DRAM Uncorrectable : 3\n", "warn"),
        ("Aggregate\n DRAM Uncorrectable : 3\n", "unknown"),
        ("Aggregate\n SRAM Threshold Exceeded : Yes\n", "fail"),
        ("Aggregate\n SRAM Threshold Exceeded : No\n", None),
    ],
)
def test_ecc_counts_are_judged_without_the_line_of_the_mode(text: str, wanted: str | None) -> None:
    block = "".join(
        f"        {line.replace(' ', '    ', 1) if line[0] == ' ' else line}\n" for line in text.splitlines()
    )
    name = "    Product Name : NVIDIA H100 80GB HBM3\n    GPU UUID : GPU-a\n"
    heat = "    Temperature\n        GPU Current Temp : 40 C\n        GPU Slowdown Temp : 89 C\n"
    finding = told(f"{GPU.format('17')}{name}    ECC Errors\n{block}{heat}")
    seen = finding.get(("gpu.ecc", "gpu0"))
    assert (seen and seen.status.value) == wanted


def whole(count: int, sections: int) -> str:
    return HEAD.format(count) + "".join(GPU.format(f"{0x17 + n:02x}") + BODY for n in range(sections))


@pytest.mark.parametrize("expect", [None, 8])
def test_a_query_that_shows_fewer_gpus_than_it_counts_is_no_answer(expect: int | None) -> None:
    finding = told(whole(8, 1), expect=expect)["gpu.count", "host"]
    assert finding.status.value == "unknown"
    assert "8 GPUs are attached and shows 1" in finding.message
    assert told(whole(8, 8), expect=expect)["gpu.count", "host"].status.value == "pass"


def test_the_one_gpu_of_a_query_that_names_one_keeps_its_address_for_a_name() -> None:
    assert ("gpu.temperature", "0000:17:00.0") in told(whole(8, 1))
    assert ("gpu.temperature", "gpu0") in told(whole(1, 1))


@pytest.mark.parametrize("lines", range(1, 13))
def test_a_last_section_that_ends_early_is_cut(lines: int) -> None:
    text = whole(2, 2)
    kept = "".join(text.splitlines(keepends=True)[:-lines])
    finding = told(kept)["gpu.count", "host"]
    assert finding.status.value == "unknown"
    assert told(text)["gpu.count", "host"].status.value == "pass"


def test_a_section_that_ends_in_a_heading_is_cut_even_alone() -> None:
    cut = whole(1, 1).partition("        Volatile")[0]
    assert told(cut)["gpu.count", "host"].status.value == "unknown"
    assert told(whole(1, 1))["gpu.count", "host"].status.value == "pass"


def test_a_list_of_all_gpus_mends_no_query_that_was_cut_and_a_whole_query_does() -> None:
    assert told(whole(2, 1), LIST, expect=2)["gpu.count", "host"].status.value == "unknown"
    assert told(whole(2, 1), whole(2, 2), expect=2)["gpu.count", "host"].status.value == "pass"


def test_a_table_that_ends_within_a_gpu_says_so() -> None:
    row = "|   {}  NVIDIA H100 80GB HBM3          On  |   00000000:1{}:00.0 Off |                    0 |\n"
    more = "| N/A   34C    P0             71W /  700W |       0MiB /  81559MiB |      0%      Default |\n"
    head = "| NVIDIA-SMI 580.159.04             Driver Version: 580.159.04     CUDA Version: 13.0     |\n"
    text = head + row.format(0, 8) + more + row.format(1, 9)
    assert told(text)["gpu.lost", "gpu1"].status.value == "unknown"
    assert told(text + more)["gpu.lost", "gpu1"].status.value == "pass"


@pytest.mark.parametrize("domain", ["", "0000:"])
@pytest.mark.parametrize("driver", ["vfio-pci", "nouveau", "pci-stub", None])
def test_a_gpu_that_is_not_with_the_driver_is_not_green(domain: str, driver: str | None) -> None:
    ours = domain + DEVICE.format("17") + "\tKernel driver in use: nvidia\n\tKernel modules: nvidia\n"
    held = f"\tKernel driver in use: {driver}\n" if driver else ""
    other = domain + DEVICE.format("3b") + held + "\tKernel modules: nvidia\n"
    for finding in (told(ours + other, expect=2)[key, "host"] for key in ("driver.loaded", "gpu.count")):
        assert finding.status.value == "fail"
        assert (driver or "no driver") in finding.message + str(finding.cause)
    assert told(other, expect=1)["driver.loaded", "host"].status.value == "fail"
    assert told(other)["driver.loaded", "host"].status.value == "fail"
    assert told(ours + other)["driver.loaded", "host"].status.value == "warn"
    assert told(ours + other, expect=1)["driver.loaded", "host"].status.value == "pass"
    assert told(ours, expect=1)["driver.loaded", "host"].status.value == "pass"


def test_files_of_the_bus_tell_the_driver_too() -> None:
    page = (
        "### /sys/bus/pci/devices/0000:17:00.0\nvendor: 0x10de\nclass: 0x030200\ndevice: 0x2330\ndriver: {}\n"
    )
    assert (
        told(page.format("../../../bus/pci/drivers/vfio-pci"), expect=1)["driver.loaded", "host"].status.value
        == "fail"
    )
    assert (
        told(page.format("../../../bus/pci/drivers/nvidia"), expect=1)["driver.loaded", "host"].status.value
        == "pass"
    )
