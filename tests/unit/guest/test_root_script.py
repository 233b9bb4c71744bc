"""The root builder in a real shell; apt and mmdebstrap are doubles that leave notes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from provision.guest.root import build_script
from provision.guest.root_recipe import GIVEN, root_file
from tests.unit.guest.doubles import Doubles

TARGETS = """\
Packages|Debian|main|bookworm|http://mirror.test/debian/
Packages|Debian|main|bookworm-updates|http://mirror.test/debian/
Packages|Debian|main|bookworm-security|http://sec.test/debian-security/
Packages|Debian|contrib|bookworm|http://wrong.test/contrib/
Translations|Debian|main|bookworm|http://wrong.test/translations/
Packages|Other|main|bookworm|http://wrong.test/other/
"""

Build = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "roots"


@pytest.fixture
def build(doubles: Doubles, folder: Path, tmp_path: Path) -> Build:
    """Run the script; mmdebstrap writes a tarball and notes its sources and apt configuration."""
    tool = doubles.folder / "mmdebstrap"
    tool.write_text(
        f"""#!/bin/sh
echo run >> {tmp_path}/runs
echo "$*" > {tmp_path}/arguments
for a; do case $a in --aptopt=*) cat "${{a#--aptopt=}}" > {tmp_path}/apt.conf;; esac; before=$last; last=$a; done
cat "$last" > {tmp_path}/sources
cat > {tmp_path}/stdin
[ ! -e {tmp_path}/slow ] || sleep 30
[ ! -e {tmp_path}/broken ] || {{ echo "E: no route" >&2; echo half > "$before"; exit 7; }}
echo tarball > "$before"
"""
    )
    tool.chmod(0o755)
    doubles.answer("id", "-u) echo 0;;")
    doubles.answer("apt-get", f'"indextargets --format "*) cat {tmp_path}/targets;;')
    doubles.answer("apt-config", "shell*) ;;")
    (tmp_path / "targets").write_text(TARGETS)

    def run(suite: str = "bookworm", start: bool = False) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PATH": f"{doubles.folder}:{os.environ['PATH']}"}
        script = build_script(suite, ("b", "a", "a"), str(folder))
        if start:
            return subprocess.Popen(["sh", "-c", script], env=environment, stderr=subprocess.DEVNULL)  # type: ignore[return-value]
        return subprocess.run(
            ["sh", "-s"], input=script, env=environment, capture_output=True, text=True, check=False
        )

    return run


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def test_a_root_is_built_once_and_its_path_is_told(build: Build, folder: Path, tmp_path: Path) -> None:
    tar = root_file("bookworm", ("a", "b"), str(folder))
    for _ in range(2):
        done = build()
        assert (done.returncode, done.stdout) == (0, f"{tar}\n")
    assert Path(tar).read_text() == "tarball\n"
    assert (tmp_path / "runs").read_text() == "run\n"
    assert left(folder) == [Path(tar).name, f"{Path(tar).name}.carried"]
    assert "--include=a,b" in (tmp_path / "arguments").read_text()


def test_other_packages_or_another_suite_are_another_root() -> None:
    paths = {root_file("bookworm", ("a",)), root_file("bookworm", ("a", "b")), root_file("trixie", ("a",))}
    assert len(paths) == 3
    assert root_file("bookworm", ("b", "a", "b")) in paths


def sources(tmp_path: Path) -> list[list[str]]:
    lines = (tmp_path / "sources").read_text().splitlines()
    return [[word for word in line.split() if not word.startswith("[")] for line in lines]


def test_the_mirrors_are_the_debian_ones_of_the_machine_s_own_apt(build: Build, tmp_path: Path) -> None:
    build()
    assert sources(tmp_path) == [
        ["deb", "http://mirror.test/debian/", "bookworm", "main"],
        ["deb", "http://mirror.test/debian/", "bookworm-updates", "main"],
        ["deb", "http://sec.test/debian-security/", "bookworm-security", "main"],
    ]


def test_another_suite_comes_from_the_same_mirrors(build: Build, tmp_path: Path) -> None:
    build("trixie")
    assert [line[2] for line in sources(tmp_path)] == ["trixie", "trixie-updates", "trixie-security"]


def test_a_machine_without_updates_gets_a_root_without_them(build: Build, tmp_path: Path) -> None:
    (tmp_path / "targets").write_text(TARGETS.splitlines()[0])
    build()
    assert [line[2] for line in sources(tmp_path)] == ["bookworm"]


def test_a_machine_that_knows_no_debian_mirror_is_told_so(build: Build, tmp_path: Path, folder: Path) -> None:
    (tmp_path / "targets").write_text(TARGETS.replace("|Debian|", "|Ubuntu|"))
    done = build()
    assert done.returncode == 1
    assert "knows no Debian mirror" in done.stderr
    assert left(folder) == []


def test_the_machine_s_proxy_goes_in(build: Build, doubles: Doubles, tmp_path: Path) -> None:
    doubles.answer("apt-config", "shell*) echo \"proxy='http://127.0.0.1:3142'\";;")
    build()
    assert (tmp_path / "apt.conf").read_text() == 'Acquire::http::Proxy "http://127.0.0.1:3142";\n'


def test_a_root_is_built_anew_when_what_it_carries_changed(
    build: Build, doubles: Doubles, tmp_path: Path
) -> None:
    build()
    doubles.answer("apt-config", "shell*) echo \"proxy='http://127.0.0.1:3142'\";;")
    build()
    assert (tmp_path / "runs").read_text() == "run\nrun\n"


def test_a_build_that_fails_leaves_the_old_root_and_says_why(
    build: Build, tmp_path: Path, folder: Path
) -> None:
    build()
    (tmp_path / "broken").touch()
    tar = Path(root_file("bookworm", ("a", "b"), str(folder)))
    tar.with_name(f"{tar.name}.carried").write_text("other")
    done = build()
    assert (done.returncode, done.stdout) == (1, "")
    assert "E: no route" in done.stderr
    assert "mmdebstrap fails (exit 7)" in done.stderr
    assert tar.read_text() == "tarball\n"
    assert len(left(folder)) == 2


def test_a_build_that_is_interrupted_leaves_nothing(build: Build, tmp_path: Path, folder: Path) -> None:
    (tmp_path / "slow").touch()
    running = build(start=True)
    until = time.monotonic() + 10
    while not (tmp_path / "runs").exists() and time.monotonic() < until:
        time.sleep(0.02)
    pid = running.pid  # type: ignore[attr-defined]
    running.terminate()  # type: ignore[attr-defined]
    # A shell hears it when what it waits for has ended.
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        os.kill(int(child), signal.SIGTERM)
    assert running.wait(20) == 143  # type: ignore[attr-defined]
    assert left(folder) == []


def test_nothing_in_a_build_can_eat_the_rest_of_the_script(build: Build, tmp_path: Path) -> None:
    assert build().returncode == 0
    assert (tmp_path / "stdin").read_text() == ""


def test_a_machine_without_mmdebstrap_is_told_what_to_install(
    build: Build, doubles: Doubles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (doubles.folder / "mmdebstrap").unlink()
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "mkdir", "flock", "sha256sum", "cut", "cat", "rm"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(tools))
    done = build()
    assert (done.returncode, "apt-get install mmdebstrap" in done.stderr) == (1, True)


def test_only_root_builds(build: Build, doubles: Doubles) -> None:
    doubles.answer("id", "-u) echo 1000;;")
    done = build()
    assert (done.returncode, "by root only" in done.stderr) == (1, True)


def test_a_root_that_was_carried_to_the_machine_is_taken_as_it_is(
    build: Build, folder: Path, tmp_path: Path
) -> None:
    tar = Path(root_file("bookworm", ("a", "b"), str(folder)))
    folder.mkdir()
    tar.write_text("carried\n")
    Path(f"{tar}.carried").write_text(f"{GIVEN}\n")
    done = build()
    assert (done.returncode, done.stdout) == (0, f"{tar}\n")
    assert tar.read_text() == "carried\n"
    assert not (tmp_path / "runs").exists()
    Path(f"{tar}.carried").unlink()
    assert build().returncode == 0
    assert tar.read_text() == "tarball\n"
