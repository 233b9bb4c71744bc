"""The form for a person: verdict first, what is not green with its cause and fix, the rest in a line."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from checks.model import Finding, Report, Silence, Status
from checks.report import render
from checks.report.options import wants_color

PASS, WARN, FAIL, SKIP, UNKNOWN = Status.PASS, Status.WARN, Status.FAIL, Status.SKIP, Status.UNKNOWN


def node(*more: Finding) -> Report:
    """Eight GPUs with thirty checks each, all well, and what is added to it."""
    well = (Finding(f"gpu.c{n}", PASS, f"gpu{gpu}", "well", value=n) for gpu in range(8) for n in range(30))
    return Report("gpus", (*well, *more), facts={"host": "kpro5"})


def bad(subject: str = "gpu3", status: Status = FAIL, **more: object) -> Finding:
    finding = Finding("gpu.ecc", status, subject, "2 errors", cause="memory wears out", fix="reset it")
    return replace(finding, **more)  # type: ignore[arg-type]


def test_the_first_line_is_the_verdict() -> None:
    assert render(node(), "table").startswith("pass: 240 pass (provcheck gpus on kpro5)\n")
    assert render(node(bad()), "table").startswith("fail: 1 fail, 240 pass")


def test_eight_healthy_gpus_take_one_line() -> None:
    text = render(node(), "table")
    assert "gpu0-gpu7  30 pass each\n" in text
    assert len(text.splitlines()) == 4


def test_verbose_spells_out_what_is_green() -> None:
    text = render(node(), "table", verbose=True)
    assert text.count("well") == 240
    assert "--verbose" not in text


def test_what_is_not_green_stands_under_its_gpu_with_cause_and_fix() -> None:
    lines = render(node(bad()), "table").splitlines()
    at = lines.index("gpu3")
    assert lines[at + 1].split() == ["fail", "gpu.ecc", "2", "errors"]
    assert [line.strip() for line in lines[at + 2 : at + 4]] == ["cause: memory wears out", "fix: reset it"]


def test_the_same_advice_is_given_once() -> None:
    text = render(node(*(bad(f"gpu{n}") for n in range(8))), "table")
    assert text.count("fix: reset it") == 1
    assert text.count("cause and fix: as for gpu0") == 7


def test_other_advice_for_another_gpu_is_not_lost() -> None:
    text = render(node(bad("gpu0"), bad("gpu1", fix="replace it")), "table")
    assert "fix: reset it" in text
    assert "fix: replace it" in text


def test_ids_that_say_the_same_of_a_gpu_share_a_line() -> None:
    lost = [Finding(f"gpu.c{n}", UNKNOWN, "gpu3", "the GPU is lost") for n in range(3)]
    text = render(Report("gpus", tuple(lost)), "table")
    assert text.count("the GPU is lost") == 1
    assert "gpu.c0, gpu.c1, gpu.c2  the GPU is lost" in text


def test_measured_values_are_printed_also_when_they_are_good() -> None:
    rate = Finding("load.h2d", PASS, "gpu0", "55.4 GB/s to the GPU", value=55.4, unit="GB/s")
    assert "55.4 GB/s" in render(Report("load", (rate,)), "table")
    assert "55.4 GB/s" in render(Report("all", (replace(rate, command="load"),)), "table")
    assert "55.4 GB/s" not in render(Report("all", (replace(rate, command="gpus"),)), "table")


def test_measurements_of_many_pairs_are_a_line_with_the_least() -> None:
    rates = [
        Finding("nccl.peer_copy", PASS, f"pair {a}-{b}", "whole", value=390.0 + a, unit="GB/s")
        for a in range(8)
        for b in range(8)
        if a != b
    ]
    text = render(Report("nccl", tuple(rates)), "table")
    assert "nccl.peer_copy  56 pass: 390 to 397 GB/s, the least at pair 0-1" in text
    assert len(text.splitlines()) < 8
    assert render(Report("nccl", tuple(rates)), "table", verbose=True).count("whole") == 56
    slow = replace(rates[0], status=FAIL, message="wrong data", value=1.0)
    text = render(Report("nccl", (slow, *rates[1:])), "table")
    assert "wrong data" in text
    assert "55 pass: 390 to 397" in text


def test_what_could_not_be_seen_without_root_is_said_in_one_line() -> None:
    blind = [
        bad("host", UNKNOWN, id="gpu.xid", message="the kernel log: Operation not permitted"),
        bad("host", UNKNOWN, id="pcie.acs", message="not readable", fix="run it as root"),
    ]
    text = render(node(*blind), "table")
    assert text.splitlines()[-1] == (
        "not seen without root: gpu.xid, pcie.acs; run it as root to have these judged"
    )
    assert "run it as root to" not in render(node(*blind), "table", root=True), "it was"
    assert "not seen though run as root: gpu.xid, pcie.acs" in render(node(*blind), "table", root=True)
    assert "without root" not in render(node(bad(status=UNKNOWN)), "table")
    assert "without root" not in render(node(bad(fix="as root: reboot")), "table"), "a failure was seen"


def test_no_line_is_wider_than_the_terminal_and_no_path_is_broken() -> None:
    path = "/sys/bus/pci/devices/0000:00:00.0/" + "x" * 80
    long = bad(message="word " * 60, fix=f"read {path} now")
    text = render(node(long), "table", width=60)
    assert path in text
    assert all(len(line) <= 60 for line in text.splitlines() if path not in line)


def test_markup_in_a_message_stays_text() -> None:
    text = render(node(bad(message="[bold red]x[/] [link=file:///]y")), "table", color=True)
    assert "[bold red]x[/] [link=file:///]y" in text


def test_without_colour_there_is_no_escape_and_with_it_no_other_difference() -> None:
    import re

    rates = tuple(Finding("load.h2d", PASS, f"gpu{n}", "m", value=n, command="load") for n in range(8))
    report = node(bad(), *rates)
    plain, colored = render(report, "table", width=50), render(report, "table", width=50, color=True)
    assert "\x1b" not in plain
    assert "\x1b[1;31m" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == plain


@pytest.mark.parametrize(
    ("terminal", "environ", "wanted"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": "0"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_colour_is_for_terminals_and_no_color_holds_when_it_says_something(
    terminal: bool, environ: dict[str, str], wanted: bool
) -> None:
    assert wants_color(terminal, environ) is wanted


def test_a_silenced_finding_looks_like_none_that_counts() -> None:
    quiet = bad(silence=Silence("ops", "known fan", "2027-01-31"))
    lines = render(node(quiet, bad("gpu4", WARN)), "table").splitlines()
    assert lines[0].startswith("warn: 1 warn, 240 pass, 1 fail silenced ")
    assert lines[lines.index("gpu3") + 1].split()[:4] == ["silenced", "gpu.ecc", "fail:", "2"]
    assert lines[lines.index("gpu4") + 1].split()[:2] == ["warn", "gpu.ecc"]
    both = render(node(quiet, replace(quiet, id="gpu.x", silence=None)), "table")
    assert "gpu.ecc, gpu.x" not in both, "one of them counts"


def test_a_silenced_finding_is_shown_with_who_answers_for_it() -> None:
    text = render(node(bad(silence=Silence("ops", "known fan", "2027-01-31"))), "table")
    assert "silenced: gpu3 gpu.ecc, silenced by ops until 2027-01-31: known fan" in text
    assert text.startswith("pass:")


def test_the_table_is_made_without_rich() -> None:
    code = (
        "import sys; from checks.report import render; from checks.model import *;"
        "render(Report('gpus', ()), 'table', color=True); assert 'rich' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
