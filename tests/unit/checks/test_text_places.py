"""Which GPU a saved text means, how many it shows, and what it does not show."""

from __future__ import annotations

import pytest

from checks.gpus import texts
from checks.gpus.report import Asked, judge_record
from checks.gpus.rule import Plan
from checks.gpus.texts import together
from checks.model import Finding

GIB = 1 << 30
LISTED = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-7c8a5b1e-1111-2222-3333-44445555000{})\n"
UNREACHED = "Unable to determine the device handle for gpu {}: GPU is lost.  Reboot the system\n"
QUERY = """\
GPU 00000000:17:00.0
    Product Name                          : {name}
    FB Memory Usage
        Total                             : 81559 MiB
        Reserved                          : 551 MiB
        Used                              : 80000 MiB
        Free                              : 1008 MiB
    Temperature
        GPU Current Temp                  : 88 C
        GPU T.Limit Temp                  : {margin}
        GPU Shutdown Temp                 : N/A
    Clocks Event Reasons
        Idle                              : Not Active
        SW Thermal Slowdown               : {slow}
"""
ROW = """\
| NVIDIA-SMI 550.90.07              Driver Version: 550.90.07      CUDA Version: 12.4     |
|   0  NVIDIA A100-SXM4-80GB          On  |   00000000:07:00.0 Off |                    {} |
| N/A   34C    P0             64W /  400W |       4MiB /  81920MiB |      0%      Default |
|   1  NVIDIA A100-SXM4-80GB          On  |   00000000:48:00.0 Off |                  ERR! |
|ERR!  ERR!  ERR!           N/A  /  ERR!  |   GPU is lost          |     ERR!        ERR! |
"""


def told(text: str, expect: int | None = None, ask: Asked | None = None) -> dict[tuple[str, str], Finding]:
    record = texts.read(text.encode(), "a text")
    report = judge_record(record, expect, replayed=True, name="a text", ask=ask)
    return {(one.id, one.subject): one for one in report.findings}


def query(name: str = "NVIDIA A100 80GB", margin: str = "20 C", slow: str = "Not Active") -> str:
    return QUERY.format(name=name, margin=margin, slow=slow)


def test_a_lost_gpu_that_is_told_by_its_address_is_no_other() -> None:
    seen = told(LISTED.format(0) + UNREACHED.format("0000:5D:00.0"))
    assert seen["gpu.lost", "0000:5d:00.0"].status.value == "fail"
    assert ("gpu.lost", "gpu0") not in seen
    assert seen["gpu.count", "host"].value == 2
    assert told(LISTED.format(0), 2)["gpu.count", "host"].status.value == "fail"


def test_a_lost_gpu_whose_index_is_told_keeps_it() -> None:
    seen = told(LISTED.format(0) + UNREACHED.format("").replace("gpu ", "GPU1: 0000:5D:00.0"))
    assert seen["gpu.lost", "gpu1"].status.value == "fail"


def test_the_kernels_word_on_a_lost_gpu_goes_to_its_address() -> None:
    parts = [LISTED.format(0) + UNREACHED.format("0000:5D:00.0"), "NVRM: Xid (PCI:0000:5d:00): 79, x\n"]
    both = together.join([texts.read(part.encode(), "a text") for part in parts])
    seen = {(one.id, one.subject) for one in judge_record(both, None, replayed=True, name="x").findings}
    assert ("gpu.xid", "0000:5d:00.0") in seen
    assert ("gpu.lost", "0000:5d:00.0") in seen


def test_a_lost_gpu_of_the_bus_and_of_the_query_is_one() -> None:
    bus = "17:00.0 3D controller: NVIDIA Corporation GH100 (rev ff)\n"
    both = together.join([texts.read(part.encode(), "a text") for part in (query(), bus)])
    seen = {(one.id, one.subject) for one in judge_record(both, None, replayed=True, name="x").findings}
    assert ("gpu.lost", "gpu0") in seen
    assert ("gpu.lost", "0000:17:00.0") not in seen


def test_a_table_that_says_gpu_is_lost_is_no_question() -> None:
    seen = told(ROW.format(0))
    assert seen["gpu.lost", "gpu1"].status.value == "fail"
    assert seen["gpu.lost", "gpu0"].status.value == "pass"
    shown = ROW.replace("GPU is lost ", "4MiB / 81920MiB")
    assert told(shown.format(0))["gpu.lost", "gpu1"].status.value == "unknown"


def test_a_table_says_nothing_of_a_gpus_life() -> None:
    message = told(ROW.format(3))["gpu.ecc", "gpu0"].message
    assert "3 uncorrected" in message
    assert "life" not in message


@pytest.mark.parametrize("expect", [0, 8])
def test_a_number_that_was_asked_for_and_is_not_shown_is_unknown(expect: int) -> None:
    calm = "[1.0] usb 1-1: new device\n[2.0] eth0: link up\n"
    finding = told(calm, expect)["gpu.count", "host"]
    assert (finding.status.value, finding.limit) == ("unknown", expect)
    assert "nvidia-smi -L" in (finding.fix or "")
    assert ("gpu.count", "host") not in told(calm)


def test_a_bus_with_gpus_is_no_machine_without() -> None:
    bus = "17:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330] (rev a1)\n"
    assert told(bus, 0)["gpu.count", "host"].status.value == "warn"
    assert told(bus, 1)["gpu.count", "host"].status.value == "pass"


def test_a_form_that_shows_no_drivers_says_of_no_gpu_that_it_has_none() -> None:
    bus = "17:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330] (rev a1)\n"
    assert "no driver" not in (told(bus, 2)["gpu.count", "host"].cause or "")
    more = bus + "\tKernel driver in use: nvidia\n" + bus.replace("17:", "3b:")
    assert "0000:17:00.0 (nvidia), 0000:3b:00.0 (no driver)" in (
        told(more, 3)["gpu.count", "host"].cause or ""
    )


def test_memory_is_held_by_nobody_only_where_processes_are_shown() -> None:
    ask = Asked(Plan(needs_bytes=75 * GIB))
    silent = told(query(), ask=ask)["gpu.memory", "gpu0"]
    assert "no process" not in (silent.cause or "")
    assert "reset" not in (silent.fix or "")
    shown = told(query() + "    Processes                             : None\n", ask=ask)[
        "gpu.memory", "gpu0"
    ]
    assert "no process" in (shown.cause or "")


@pytest.mark.parametrize(
    ("name", "margin", "slow", "verdict"),
    [
        ("NVIDIA A100 80GB", "-1 C", "Not Active", "warn"),
        ("NVIDIA A100 80GB", "20 C", "Active", "pass"),
        ("NVIDIA H100 80GB HBM3", "-1 C", "Active", "warn"),
        ("NVIDIA H100 80GB HBM3", "-1 C", "Not Active", "pass"),
    ],
)
def test_a_margin_that_is_used_up_is_judged(name: str, margin: str, slow: str, verdict: str) -> None:
    assert told(query(name, margin, slow))["gpu.temperature", "gpu0"].status.value == verdict


def test_a_margin_that_the_text_does_not_have_is_left_out() -> None:
    assert ("gpu.temperature", "gpu0") not in told(query(margin="N/A"))
