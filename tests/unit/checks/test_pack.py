"""The single file: the same bytes each time, run by a plain python3 that has nothing installed."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from checks import pack
from checks.errors import BadInput


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pack") / "provcheck.pyz"
    pack.build(path)
    return path


def pythons() -> list[str]:
    """Interpreters of 3.10 or later on this machine, the oldest and the newest among them."""
    found = {sys.executable}
    for place in (
        "/usr/bin/python3",
        *(str(p) for p in Path.home().glob(".pyenv/versions/3.1?.*/bin/python3")),
    ):
        if Path(place).exists():
            found.add(place)
    new = []
    for place in sorted(found):
        ran = subprocess.run(
            [place, "-Ic", "import sys; print(sys.version_info >= (3, 10))"], capture_output=True, check=False
        )
        if ran.stdout.strip() == b"True":
            new.append(place)
    return sorted({new[0], new[-1], sys.executable})


PYTHONS = pythons()


def run(python: str, path: Path, *args: str) -> subprocess.CompletedProcess[str]:
    bare = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    return subprocess.run(
        [python, "-S", str(path), *args], env=bare, capture_output=True, text=True, check=False
    )


def test_the_same_inputs_give_the_same_bytes(single: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.pyz"
    digest = pack.build(other)
    assert other.read_bytes() == single.read_bytes()
    assert digest == hashlib.sha256(single.read_bytes()).hexdigest()
    assert single.read_bytes().startswith(b"#!/usr/bin/env python3\n")
    assert os.access(single, os.X_OK)
    assert single.stat().st_size < 5 << 19


def test_it_holds_the_licences_of_what_it_brings_and_no_machine_code(single: Path) -> None:
    names = zipfile.ZipFile(single).namelist()
    assert names == sorted(names)
    assert {name.split("/")[1] for name in names if name.startswith("licences/")} >= {
        "click",
        "packaging",
    }
    assert not [name for name in names if name.endswith(".so")]


def test_bytecode_never_comes_without_its_source_and_is_of_the_python_that_builds(single: Path) -> None:
    with zipfile.ZipFile(single) as archive:
        names = set(archive.namelist())
        compiled = {name for name in names if name.endswith(".pyc")}
        assert {"__main__.pyc", "checks/cli.pyc", "click/core.pyc", "pynvml.pyc"} <= compiled
        assert {name.removesuffix("c") for name in compiled} <= names
        assert all(archive.read(name).startswith(importlib.util.MAGIC_NUMBER) for name in compiled)


COMPILED = """
import runpy, sys
seen = []
sys.addaudithook(lambda event, args: event == "compile" and seen.append(str(args[1])))
path = sys.argv[1]
sys.argv[:] = [path, "_probe", "nvml"] if sys.argv[2] == "child" else [path, "gpus", "--expect", "0"]
try:
    runpy.run_path(path, run_name="__main__")
except SystemExit:
    pass
inside = [name for name in seen if name.startswith(path + "/")]
print()
print(len(inside), *sorted({name[len(path) + 1:] for name in inside if inside.count(name) > 1}))
"""


@pytest.mark.parametrize(("who", "least"), [("child", 10), ("parent", 60)])
def test_where_the_bytecode_is_of_another_python_each_source_is_compiled_once(
    who: str, least: int, single: Path, tmp_path: Path
) -> None:
    bare = tmp_path / "bare.pyz"
    with zipfile.ZipFile(single) as full, zipfile.ZipFile(bare, "w") as sources:
        for name in full.namelist():
            if not name.endswith(".pyc"):
                sources.writestr(name, full.read(name))
    ran = subprocess.run(
        [sys.executable, "-I", "-c", COMPILED, str(bare), who], capture_output=True, text=True, check=True
    )
    number, *twice = ran.stdout.splitlines()[-1].split()
    assert int(number) > least
    assert set(twice) <= {"__main__.py", "checks/__init__.py", "checks/zipped.py"}


def test_another_process_builds_the_same_bytes(single: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.pyz"
    build = "import sys; from pathlib import Path; from checks import pack; pack.build(Path(sys.argv[1]))"
    env = {**os.environ, "PYTHONHASHSEED": "4711"}
    subprocess.run([sys.executable, "-c", build, str(other)], env=env, check=True)
    assert other.read_bytes() == single.read_bytes()


@pytest.mark.parametrize("python", PYTHONS)
def test_it_runs_where_nothing_is_installed(python: str, single: Path) -> None:
    ran = run(python, single, "gpus", "--expect", "0", "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout)["verdict"] == "pass"
    child = run(python, single, "_probe", "nvml")
    assert '"end": true' in child.stdout
    assert "ImportError" not in child.stdout


@pytest.mark.parametrize("form", ["table", "junit", "prometheus", "nagios", "jsonl"])
def test_every_form_works_from_the_single_file(form: str, single: Path) -> None:
    ran = run(PYTHONS[0], single, "gpus", "--expect", "0", "--format", form)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout


def test_data_files_are_read_from_inside_the_single_file(single: Path) -> None:
    ran = run(PYTHONS[0], single, "flags", "--engine", "vllm==0.20.1", "--json", "--", "vllm", "serve", "m")
    assert "Traceback" not in ran.stderr
    assert json.loads(ran.stdout)["command"] == "flags"
    assert run(PYTHONS[0], single, "integrate", "npd").stdout.startswith("{")


def test_the_kernels_for_gpus_are_read_from_inside_the_single_file(single: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(single)!r}); from importlib.resources import files; "
        "from checks.cuda.kernels import kernels; assert '.entry' in kernels('kernels.ptx'); "
        "assert files('checks.cuda').joinpath('kernels.ptx').read_text() == kernels('kernels.ptx')"
    )
    ran = subprocess.run([PYTHONS[0], "-ISc", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_every_data_file_of_the_checkout_travels(single: Path, repo_root: Path) -> None:
    names = set(zipfile.ZipFile(single).namelist())
    wanted = {
        path.relative_to(repo_root).as_posix()
        for path in (repo_root / "checks").rglob("*")
        if path.suffix in (".py", ".json", ".ptx", ".sh")
    }
    assert wanted - names == set()


def test_it_starts_quickly(single: Path) -> None:
    def once() -> float:
        start = time.monotonic()
        assert (
            run(
                "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable,
                single,
                "gpus",
                "--expect",
                "0",
                "--json",
            ).returncode
            == 0
        )
        return time.monotonic() - start

    # usual 0.3 s; the deadline is four times the half second that a gate may cost
    assert min(once() for _ in range(2)) < 2.0


def test_it_copies_itself_when_it_is_what_runs(single: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.pyz"
    code = (
        f"import sys; sys.path.insert(0, {str(single)!r}); from pathlib import Path; "
        f"from checks import pack; print(pack.build(Path({str(copy)!r})))"
    )
    ran = subprocess.run([PYTHONS[0], "-ISc", code], capture_output=True, text=True, check=True)
    assert copy.read_bytes() == single.read_bytes()
    assert ran.stdout.strip() == hashlib.sha256(single.read_bytes()).hexdigest()


def test_it_can_be_run_by_a_relative_name_from_its_folder(single: Path) -> None:
    ran = subprocess.run(
        [PYTHONS[0], single.name, "gpus", "--json"],
        cwd=single.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    findings = {f["id"]: f for f in json.loads(ran.stdout)["findings"]}
    assert "died" not in findings["driver.responds"]["message"]


def test_the_cache_holds_one_file_per_state_of_the_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    first = pack.cached()
    assert first.parent == Path(os.environ["XDG_CACHE_HOME"]) / "kpro"
    before = first.stat().st_ino
    assert pack.cached() == first
    assert first.stat().st_ino == before
    monkeypatch.setitem(pack.PACKAGES, "click", "packaging")
    assert pack.cached() != first


@pytest.mark.parametrize(
    ("ages", "left"),
    [
        ({"a": 5, "b": 4, "c": 3, "d": 2}, {"c", "d"}),
        ({"a": 5, "b": 0.5, "c": 0.4, "d": 0.3, "e": 0.2}, {"b", "c", "d", "e"}),
    ],
    ids=["the newest stay", "and those that somebody took within a day"],
)
def test_old_files_go_but_the_newest_and_those_in_use_stay(ages: dict[str, float], left: set[str]) -> None:
    mine, now = pack.cached(), time.time()
    for name, days in ages.items():
        file = mine.with_name(f"provcheck-{name * 16}.pyz")
        file.write_bytes(b"old")
        os.utime(file, (now - days * 86400,) * 2)
    other = mine.with_name("provcheck-mine.pyz")
    other.write_bytes(b"somebody's")
    os.utime(other, (0, 0))
    os.utime(mine, (now - 9 * 86400,) * 2)
    assert pack.cached() == mine
    assert {name for name in ages if mine.with_name(f"provcheck-{name * 16}.pyz").exists()} == left
    assert other.exists()
    assert mine.stat().st_mtime > now - 3600


def test_a_place_that_cannot_be_written_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot write"):
        pack.build(tmp_path / "no" / "file.pyz")


def test_a_missing_package_is_said_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(pack.PACKAGES, "no_such_package", "no-such-package")
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        pack.build(tmp_path / "x.pyz")
    assert not list(tmp_path.iterdir())


def test_children_find_the_file_again_wherever_they_start(single: Path, tmp_path: Path) -> None:
    moved = tmp_path / "a b'c.pyz"
    shutil.copy(single, moved)
    ran = run(PYTHONS[0], moved, "gpus", "--json")
    assert "died" not in ran.stdout
