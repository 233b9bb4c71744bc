"""The pages made from rows are those of the rows; a page reads like a rule's; shells complete from the same rows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checks import pages
from checks.data import load_limits, seat_limits
from checks.data.areas import AREAS
from checks.data.catalogue import CATALOGUE
from checks.data.coverage import COVERAGE
from checks.data.thresholds import THRESHOLDS
from checks.gpus import clocks, memory, nvlink, pcie, processes
from checks.nccl import rules_speed


@pytest.mark.parametrize("name", pages.DOCUMENTS)
def test_a_committed_page_is_that_of_the_rows(name: str, repo_root: Path) -> None:
    assert (repo_root / f"docs/{name}.md").read_text() == pages.DOCUMENTS[name](), "run scripts/make-docs"


def test_every_row_of_the_health_table_has_a_verdict_that_can_be_explained() -> None:
    areas = {identity.partition(".")[0] for identity in CATALOGUE}
    assert len(COVERAGE) >= 31
    for row in COVERAGE:
        assert row.ids, row.what
        assert {name for name in row.ids if name.partition(".")[0] in areas} <= set(CATALOGUE), row.what


def test_every_finding_about_gpus_stands_in_the_health_table() -> None:
    covered = {identity for row in COVERAGE for identity in row.ids}
    ours = {
        identity
        for identity in CATALOGUE
        if identity.partition(".")[0] in ("gpu", "nvlink", "fabric", "pcie")
    }
    assert ours <= covered


def test_every_finding_has_its_heading_and_no_line_is_too_long() -> None:
    text = pages.findings()
    assert re.findall(r"^### (\S+)$", text, re.M) == [
        name for ids in pages.grouped().values() for name in ids
    ]
    assert max(map(len, text.splitlines())) <= 120
    assert len(re.findall(r"^```$", text, re.M)) == 2 * len(CATALOGUE)


def test_every_area_of_the_catalogue_is_listed_and_each_id_once() -> None:
    assert {identity.partition(".")[0] for identity in CATALOGUE} <= set(AREAS)
    listed = re.findall(r"^  (\S+)  ", pages.listing(), re.M)
    assert sorted(listed) == sorted(CATALOGUE)


def test_thresholds_belong_to_findings_that_exist() -> None:
    assert set(THRESHOLDS) <= set(CATALOGUE)


@pytest.mark.parametrize(
    ("identity", "numbers"),
    [
        ("gpu.pcie_replay", [pcie.MANY_REPLAYS]),
        ("gpu.retired_pages", [memory.FULL_TABLE]),
        ("gpu.processes", [processes.DRIVERS_OWN / processes.GIB]),
        ("gpu.clocks", [clocks._FAR_BELOW * 100]),
        ("nvlink.errors", [nvlink.NOISE]),
        ("node.shm", [row.fails // seat_limits.MIB for row in seat_limits.SHARED]),
        ("node.memlock", [seat_limits.MEMLOCK_FAILS // seat_limits.MIB]),
        ("load.h2d", load_limits.COPY[:2]),
        ("load.d2h", load_limits.COPY[:2]),
        ("load.memory_bandwidth", [*load_limits.MEMORY[:2], load_limits.SIBLING.good]),
        ("load.clocks", [load_limits.CLOCK_FLOOR]),
        ("nccl.busbw", [*rules_speed.THRESHOLDS["nvlink"], *rules_speed.THRESHOLDS["pcie"]]),
        ("nccl.slow_rank", [rules_speed.LATE_RATIO, rules_speed.LATE_S * 1000]),
    ],
)
def test_the_thresholds_of_a_page_are_those_of_the_rule(identity: str, numbers: list[float]) -> None:
    said = [float(word) for word in re.findall(r"\d+(?:\.\d+)?", THRESHOLDS[identity])]
    assert {float(number) for number in numbers} <= set(said)


@pytest.mark.parametrize("identity", sorted(CATALOGUE))
def test_a_page_has_every_part_and_fits_a_terminal(identity: str) -> None:
    text = pages.page(identity, CATALOGUE[identity])
    for heading in ("What it is", "Why it matters", "Example", "How to mend it", "Source"):
        assert f"\n{heading}\n" in text
    assert not [line for line in text.splitlines()[1:] if len(line) > 90 and " " in line.strip()]


def test_markdown_is_on_request_and_not_json(provcheck: Callable[..., Any]) -> None:
    assert provcheck("explain", "--markdown", "findings").out == pages.findings()
    assert provcheck("explain", "--markdown", "findings", "--json").code == 2


# ---------------------------------------------------------------- completion


def completed(tmp_path: Path, words: str) -> list[str]:
    """What a real bash offers at the end of ``words``."""
    program = tmp_path / "provcheck"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m checks "$@"\n')
    program.chmod(0o755)
    script = subprocess.run([program, "completion", "bash"], capture_output=True, text=True, check=True)
    (tmp_path / "complete.bash").write_text(script.stdout)
    typed = words.split(" ")
    array = " ".join(f"'{word}'" for word in typed)
    ask = (
        f"source {tmp_path}/complete.bash; COMP_WORDS=({array}); COMP_CWORD={len(typed) - 1};"
        " $(complete -p provcheck | sed 's/.*-F \\([^ ]*\\).*/\\1/') provcheck;"
        ' printf "%s\\n" "${COMPREPLY[@]}"'
    )
    path = f"{tmp_path}:{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "--norc", "-c", ask],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stderr == ""
    return ran.stdout.split()


def test_bash_completes_commands_ids_options_and_integrations(tmp_path: Path) -> None:
    assert "gpus" in completed(tmp_path, "provcheck ")
    assert "_observe" not in completed(tmp_path, "provcheck ")
    assert completed(tmp_path, "provcheck expl") == ["explain"]
    assert completed(tmp_path, "provcheck explain gpu.row") == ["gpu.row_remap"]
    assert completed(tmp_path, "provcheck explain nothing.") == []
    assert "--expect" in completed(tmp_path, "provcheck gpus --ex")
    assert completed(tmp_path, "provcheck integrate sl") == ["slurm"]
    assert "junit" in completed(tmp_path, "provcheck gpus --format j")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(shell: str, provcheck: Callable[..., Any]) -> None:
    said = provcheck("completion", shell)
    assert said.code == 0
    assert f"_PROVCHECK_COMPLETE={shell}_complete" in said.out
    assert provcheck("completion", "csh").code == 2
