"""The command line: help that teaches, usage errors of one line, nothing imported that is not used."""

from __future__ import annotations

import ast
import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import checks
from checks import files
from checks.cli import COMMANDS
from checks.data.catalogue import CATALOGUE
from checks.model import Status

IDENTITY = re.compile(r"(gpu|nvlink|pcie|fabric|driver|node|nccl|load|drafter|flags|fit|serve)\.[a-z0-9_]+")


def test_none_wanted_passes_zero_of_zero(provcheck: Callable[..., Any]) -> None:
    said = provcheck("gpus", "--expect", 0, "--json")
    assert (said.code, said.report["verdict"], said.status("gpu.count", "host")) == (0, "pass", "pass")
    assert {f["status"] for f in said.report["findings"] if f["id"] != "gpu.count"} == {"skip"}


@pytest.mark.parametrize(
    "args",
    [
        ("nonsense",),
        ("gpus", "--expect", "two"),
        ("gpus", "--expect", "-1"),
        ("gpus", "--nonsense"),
        ("gpus", "surplus"),
        ("gpus", "--format", "pdf"),
        ("gpus", "--json", "--format", "table"),
        ("gpus", "--deadline", "0"),
        ("gpus", "--host", "-oProxyCommand=id"),
        ("gpus", "--host", ""),
        ("gpus", "--replay", "x", "--record", "y"),
        ("gpus", "--replay", "x", "--host", "y"),
        ("gpus", "--record", "/no/such/folder/file"),
        ("gpus", "--silences", "/no/such/file"),
        ("explain",),
        ("explain", "gpu.nonsense"),
        ("explain", "gpu.ecc", "--list"),
        ("_probe", "nonsense"),
        ("_probe", "record"),
    ],
)
def test_wrong_use_is_one_line_a_mistake_and_exit_2(
    args: tuple[str, ...], provcheck: Callable[..., Any]
) -> None:
    said = provcheck(*args)
    assert (said.code, said.out) == (2, "")
    # A record "x" is not there either.
    assert len(said.err.splitlines()) == (2 if "x" in args else 1)


def test_help_shows_examples_and_exit_codes_and_hides_the_children(provcheck: Callable[..., Any]) -> None:
    said = provcheck("--help")
    assert said.code == 0
    for text in ("provcheck gpus --expect 2", "3 could not check", "explain"):
        assert text in said.out
    assert "_generate" not in said.out
    assert "--replay" in provcheck("gpus", "--help").out
    assert provcheck("_generate", "--help").code == 0


@pytest.mark.parametrize("args", [["--help"], ["explain", "--list"]])
def test_heavy_modules_are_imported_only_where_they_are_used(args: list[str], repo_root: Path) -> None:
    code = (
        "import sys; from checks.cli import main; main(sys.argv[1:]); "
        "print([m for m in ('rich', 'pynvml', 'prometheus_client', 'checks.gpus.command') if m in sys.modules])"
    )
    command = [sys.executable, "-c", code, *args]
    ran = subprocess.run(command, cwd=repo_root, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_a_child_imports_no_click(repo_root: Path) -> None:
    code = "import sys; from checks.cli import main; main(['_probe', 'nvml']); print('click' in sys.modules)"
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, cwd=repo_root, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.splitlines()[-1] == "False"


def test_every_command_of_the_table_is_there(provcheck: Callable[..., Any]) -> None:
    for name in COMMANDS:
        assert provcheck(name, "--help").code == 0


def identities_in_the_code(root: Path) -> set[str]:
    found = set()
    for path in sorted((root / "checks").rglob("*.py")):
        if path.name.endswith("catalogue.py"):
            continue
        for item in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(item, ast.Constant)
                and isinstance(item.value, str)
                and IDENTITY.fullmatch(item.value)
            ):
                found.add(item.value)
    return found


def test_every_finding_is_in_the_catalogue_and_nothing_else(repo_root: Path) -> None:
    assert identities_in_the_code(repo_root) == set(CATALOGUE)


def test_catalogue_examples_start_with_status_subject_and_their_own_id() -> None:
    for identity, entry in CATALOGUE.items():
        status, subject, name = re.sub(r"pair (\d+-\d+)", r"pair:\1", entry.example).split()[:3]
        assert status in {status.value for status in Status}
        assert re.fullmatch(
            r"host|gpu\d+|engine|drafter|target|rank|rank\d+|pair:\d+-\d+|pair|node\d*|0000:01:00\.0", subject
        )
        assert name == identity
        assert all(entry)


def test_explain_reads_like_a_page(provcheck: Callable[..., Any]) -> None:
    said = provcheck("explain", "gpu.row_remap")
    assert said.code == 0
    for heading in ("Why it matters", "Example", "How to mend it", "Source"):
        assert heading in said.out
    assert set(json.loads(provcheck("explain", "--list", "--json").out)) == set(CATALOGUE)
    assert "perhaps gpu.ecc" in provcheck("explain", "gpu.ec").err


@pytest.mark.parametrize(
    ("where", "code", "said"),
    [
        (">&-", {3}, "could not be printed: Bad file descriptor; the verdict was pass"),
        (">/dev/full", {3}, "could not be printed: No space left on device; the verdict was pass"),
        (">/dev/full 2>&1", {3}, ""),
        ("| true", {0}, ""),
        ("| head -c 1", {0}, ""),
        ("--format nagios >/dev/full", {3}, "No space left"),
        ("--exit-style npd >/dev/full", {2}, "No space left"),
    ],
)
def test_a_report_that_nobody_can_read_leaves_the_verdict_and_no_traceback(
    where: str, code: set[int], said: str
) -> None:
    command = f"set -o pipefail; {sys.executable} -m checks gpus --expect 0 {where}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode in code
    assert "Traceback" not in done.stderr
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == bool(said)


@pytest.mark.parametrize("words", ["explain --list", "integrate slurm", "explain gpu.ecc", "--help"])
def test_any_other_text_that_cannot_be_written_is_one_line(words: str) -> None:
    command = f"{sys.executable} -m checks {words} >/dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
    assert "No space left on device" in done.stderr
    quiet = subprocess.run(
        ["bash", "-c", command.replace(">/dev/full", "| true")], capture_output=True, text=True, timeout=60
    )
    assert quiet.stderr == ""


@pytest.mark.parametrize("option", ["--output", "--record"])
def test_a_file_that_cannot_be_written_at_the_end_throws_no_verdict_away(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provcheck: Callable[..., Any]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    said = provcheck("gpus", "--expect", 0, option, tmp_path / "kept")
    assert said.code == 3
    assert said.out.startswith("pass: "), "the report is shown all the same"
    assert "kept: No space left on device; free some space" in said.err
    assert "the verdict was pass" in said.err
    assert "folder that is there" not in said.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--output", "--record"])
def test_a_place_where_nothing_may_be_written_is_told_before_a_look(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provcheck: Callable[..., Any]
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    for command in ("gpus", "load", "nccl"):
        said = provcheck(command, option, tmp_path / "x.json")
        assert (said.code, said.out) == (2, "")
        assert "may not write there" in said.err


@pytest.mark.parametrize("option", ["--output", "--record"])
@pytest.mark.parametrize("name", ["/proc/x.json", "x" * 300, "x" * 254], ids=["proc", "too long", "long"])
def test_a_file_that_cannot_be_made_is_told_before_a_look(
    option: str, name: str, tmp_path: Path, provcheck: Callable[..., Any]
) -> None:
    """The superuser may write anywhere, and cannot everywhere."""
    for command in ("gpus", "load", "nccl"):
        said = provcheck(command, option, tmp_path / name)
        assert (said.code, said.out) == (2, "")
        assert f"{option} " in said.err
        assert "name a" in said.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["gpus", "load", "nccl"])
def test_a_record_and_a_report_are_never_the_same_file(
    command: str, tmp_path: Path, provcheck: Callable[..., Any]
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "x.json")
    for other in (tmp_path / "x.json", tmp_path / ".." / tmp_path.name / "x.json", tmp_path / "link"):
        said = provcheck(command, "--record", tmp_path / "x.json", "--output", other)
        assert (said.code, said.out) == (2, "")
        assert "are the same file" in said.err
    assert not (tmp_path / "x.json").exists()
    assert provcheck("gpus", "--record", tmp_path / "x", "--output", tmp_path / "y", "--expect", 0).code == 0


@pytest.mark.parametrize("command", ["gpus", "load", "nccl", "serve", "all", "bundle", "integrate"])
def test_an_empty_text_names_no_file(command: str, provcheck: Callable[..., Any]) -> None:
    said = provcheck(command, *(["slurm"] if command == "integrate" else []), "--output", "")
    assert said.code == 2
    assert "--output" in said.err
    assert "an empty text names no file" in said.err


def test_a_dash_is_the_standard_input_where_a_file_is_read(healthy: Callable[..., Any]) -> None:
    command = [sys.executable, "-m", "checks", "gpus", "--replay", "-", "--json", "--expect", "2"]
    done = subprocess.run(command, input=json.dumps(healthy(2)), capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout)["evidence"] == "replayed", done.stderr
    for other in ("load", "nccl", "gpus"):
        wrong = [sys.executable, "-m", "checks", other, "--replay", "-"]
        said = subprocess.run(wrong, input="{}", capture_output=True, text=True, timeout=60)
        assert "/dev/stdin has schema" in said.stderr, "it was read"


def test_as_many_gpus_can_be_expected_of_all_as_of_gpus(provcheck: Callable[..., Any]) -> None:
    for command in ("gpus", "all"):
        assert "1024" in provcheck(command, "--expect", 1025).err


@pytest.mark.parametrize("words", [("load", "--replay"), ("nccl", "--replay")])
def test_a_text_in_the_place_of_a_record_is_told_as_that(
    words: tuple[str, ...], tmp_path: Path, healthy: Callable[..., Any], provcheck: Callable[..., Any]
) -> None:
    dump, text = tmp_path / "dump.json", tmp_path / "dmesg.txt"
    dump.write_text(json.dumps(healthy(1)))
    text.write_text("[ 2.0] NVRM: Xid (PCI:0000:10:00): 79\n")
    said = provcheck(*(word.format(dump=dump) for word in words), text)
    assert said.code == 2
    assert "no record of provcheck" in said.err
    assert "column" not in said.err
    assert "char" not in said.err


def test_an_unknown_check_is_sent_to_the_list_of_them(provcheck: Callable[..., Any]) -> None:
    for command in ("gpus", "all"):
        said = provcheck(command, "--leave-out", "foo.bar")
        assert said.code == 2
        assert "'provcheck explain --list' has them" in said.err


def test_a_machine_that_has_no_file_left_is_no_verdict_and_no_traceback() -> None:
    command = f"ulimit -n 7; exec {sys.executable} -m checks nccl --library {sys.executable}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("gpus", "--deadline", "nan"),
        ("load", "--seconds", "nan"),
        ("nccl", "--size-deadline", "nan"),
        ("nccl", "--init-deadline", "inf"),
    ],
)
def test_a_deadline_that_is_no_number_is_refused(
    provcheck: Callable[..., Any], words: tuple[str, ...]
) -> None:
    assert provcheck(*words).code == 2


def test_every_number_of_a_command_is_a_finite_one() -> None:
    for path in Path(checks.__file__).parent.rglob("*.py"):
        if path.name != "ranges.py":
            assert "click.FloatRange" not in path.read_text(), path
