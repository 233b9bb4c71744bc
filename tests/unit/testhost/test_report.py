"""The report of the demonstration: nothing is claimed that was not seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from provision.testhost.report import (
    NOT_SHOWN,
    SHOWN,
    WRONG,
    Demo,
    GateSeen,
    GpuSeen,
    Timed,
    claims,
    complete,
    ends_with,
    render,
)

A, B = "0000:01:00.0", "0000:02:00.0"
KERNEL = "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x62:0x25:1792)"
WHOLE = Demo(
    steps=(
        Timed("build the image", 80.0, "from the cache"),
        Timed("boot the virtual host", 40.0),
        Timed("apply", 200.0),
    ),
    boot_seconds=40.0,
    gpus=(
        GpuSeen(
            A, ("modprobe.d/vfio.conf ids=", "vfio-pci.ids= on the command line"), "nvidia", "/dev/nvidia0"
        ),
        GpuSeen(B, ("udev rule 10-vfio.rules",), "nvidia", "/dev/nvidia1"),
    ),
    pin="535.261.03",
    driver="535.261.03",
    live_gate=GateSeen("fail", "live", KERNEL),
    gate=GateSeen("pass", "replayed"),
    answer="tick tock",
    second_run_changes=0,
)


def test_a_whole_demonstration_shows_every_part() -> None:
    text = render(WHOLE, width=160)
    assert complete(WHOLE)
    assert {claim.state for claim in claims(WHOLE)} == {SHOWN}
    for word in (
        "by modprobe.d/vfio.conf ids=, vfio-pci.ids= on the command line",
        "driver nvidia, /dev/nvidia1 in the container",
        "535.261.03, wanted 535.261.03",
        KERNEL,
        "REPLAYED (pass)",
        "'tick tock'",
        "0 changes",
        "everything was shown",
        "composed record: REPLAYED",
    ):
        assert word in text


def test_each_step_has_its_seconds_and_its_ratio_to_a_boot() -> None:
    lines = render(WHOLE).splitlines()
    (apply,) = [line for line in lines if line.startswith("apply")]
    assert apply.split() == ["apply", "200.0", "5.00"]
    (built,) = [line for line in lines if line.startswith("build")]
    assert built.split()[3:] == ["80.0", "2.00", "from", "the", "cache"]
    (total,) = [line for line in lines if line.startswith("all")]
    assert total.split() == ["all", "320.0", "8.00"]
    for unknown in (None, 0.0):
        (apply,) = [
            line
            for line in render(replace(WHOLE, boot_seconds=unknown)).splitlines()
            if line.startswith("apply")
        ]
        assert apply.split() == ["apply", "200.0", "-"]


@pytest.mark.parametrize(
    ("change", "what", "state"),
    [
        ({"gpus": ()}, "GPUs locked", NOT_SHOWN),
        ({"gpus": (GpuSeen(A, (), "nvidia", "/dev/nvidia0"),)}, f"{A} was locked", NOT_SHOWN),
        ({"gpus": (GpuSeen(A, ("x",)),)}, f"{A} is released", NOT_SHOWN),
        ({"gpus": (GpuSeen(A, ("x",), "vfio-pci", "/dev/nvidia0"),)}, f"{A} is released", WRONG),
        ({"gpus": (GpuSeen(A, ("x",), "nvidia", None),)}, f"{A} is released", WRONG),
        ({"driver": None}, "driver as pinned", NOT_SHOWN),
        ({"driver": "535.309.01"}, "driver as pinned", WRONG),
        ({"live_gate": None}, "an honest gate", NOT_SHOWN),
        ({"live_gate": GateSeen("pass", "live", KERNEL)}, "an honest gate", WRONG),
        ({"live_gate": GateSeen("fail", "replayed", KERNEL)}, "an honest gate", WRONG),
        ({"live_gate": GateSeen("fail", "live")}, "an honest gate", WRONG),
        ({"gate": None}, "gate of the service", NOT_SHOWN),
        ({"gate": GateSeen("unknown", "replayed")}, "gate of the service", WRONG),
        ({"answer": None}, "the service answers", NOT_SHOWN),
        ({"second_run_changes": None}, "a second run", NOT_SHOWN),
        ({"second_run_changes": 1}, "a second run", WRONG),
    ],
)
def test_what_was_not_seen_or_is_wrong_is_never_green(change: dict[str, Any], what: str, state: str) -> None:
    demo = replace(WHOLE, **change)
    found = [claim for claim in claims(demo) if claim.what.startswith(what)]
    assert [claim.state for claim in found] == [state]
    assert not complete(demo)
    assert "everything was shown" not in render(demo)


def test_an_end_that_is_not_zero_is_no_success_whatever_was_shown() -> None:
    demo = replace(WHOLE, exit_code=1, stopped="interrupted")
    assert not complete(demo)
    assert "ended with 1: interrupted" in render(demo)


def test_an_interrupt_is_no_fault_and_says_so() -> None:
    gpus = tuple(replace(gpu, driver="vfio-pci", node=None) for gpu in WHOLE.gpus)
    cut = replace(WHOLE, exit_code=130, stopped="", gpus=gpus, answer=None)
    text = render(cut)
    assert not complete(cut)
    assert "WRONG" not in text
    assert "interrupted; not shown: " in text
    assert "WRONG" in render(replace(cut, exit_code=1))


def test_a_live_verdict_is_never_called_replayed() -> None:
    assert "REPLAYED" not in render(replace(WHOLE, gate=GateSeen("pass", "live")), width=160)


def test_an_early_end_lists_all_that_is_missing() -> None:
    text = render(Demo((Timed("build the image", 3.0),), exit_code=3, stopped="no /dev/kvm"))
    assert "ended with 3: no /dev/kvm" in text
    assert text.count(NOT_SHOWN) >= 7


def test_brackets_in_what_was_seen_are_no_markup_and_colours_come_on_demand() -> None:
    assert "'[red]x[/red]'" in render(replace(WHOLE, answer="[red]x[/red]"), width=160)
    assert "\x1b[" not in render(WHOLE)
    assert "\x1b[" in render(WHOLE, colour=True)
    assert max(map(len, render(WHOLE, width=80).splitlines())) <= 80


def test_the_end_of_one_that_lacks_something_names_the_code_that_it_ends_with() -> None:
    lacks = replace(WHOLE, gate=None)
    assert (ends_with(WHOLE), ends_with(lacks), ends_with(replace(lacks, exit_code=3))) == (0, 1, 3)
    text = " ".join(render(lacks).split())
    assert "so this ends with 1: not shown or wrong: gate of the service" in text
    assert "ended with 0" not in text
