"""./test and scripts/bootstrap, run for real in a small checkout of their own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PASSING = "def test_a() -> None:\n    pass\n"
FAILING = "def test_b() -> None:\n    raise ValueError('red')\n"
SKIPPING = "import pytest\n\n\n@pytest.mark.skip(reason='never')\ndef test_c() -> None:\n    pass\n"


@pytest.fixture
def checkout(repo_root: Path, tmp_path: Path) -> Path:
    """./test with this environment's tools, and nothing to set up or to lint."""
    for name in ("unit", "replay", "guest", "wheel", "later"):
        (tmp_path / "tests" / name).mkdir(parents=True)
    (tmp_path / "scripts").mkdir()
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    shutil.copy(repo_root / "test", tmp_path)
    script(tmp_path / "scripts/bootstrap", "exit 0")
    script(tmp_path / "scripts/guest-tier", "echo no containers on this machine; exit 1")
    return tmp_path


def script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def run(checkout: Path, *arguments: str, ci: bool = False) -> tuple[int, str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("CI", "PYTEST"))}
    done = subprocess.run(
        [checkout / "test", *arguments, "--", "-n0", "-pno:hypothesispytest"],
        env=environment | ({"CI": "true"} if ci else {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    return done.returncode, done.stdout


def last(output: str) -> str:
    return output.rstrip().splitlines()[-1]


def test_a_green_tier_is_green_and_the_last_line_counts_it(checkout: Path) -> None:
    (checkout / "tests/unit/test_x.py").write_text(PASSING)
    code, output = run(checkout, "unit")
    assert (code, last(output)) == (0, "1 passed, 0 failed, 0 skipped"), output


def test_one_red_test_makes_the_run_red(checkout: Path) -> None:
    (checkout / "tests/unit/test_x.py").write_text(PASSING + FAILING)
    (checkout / "tests/replay/test_y.py").write_text(PASSING)
    code, output = run(checkout, "unit", "replay")
    assert (code, last(output)) == (1, "2 passed, 1 failed, 0 skipped"), output


@pytest.mark.parametrize("content", ["", SKIPPING, "import nothing_of_that_name\n"])
def test_a_tier_in_which_no_test_passed_is_red(checkout: Path, content: str) -> None:
    (checkout / "tests/unit/test_x.py").write_text(content)
    code, output = run(checkout, "unit")
    assert code == 1, output
    assert "0 passed, 1 failed" in last(output)


def test_containers_that_cannot_run_are_said_and_are_red_in_ci(checkout: Path) -> None:
    (checkout / "tests/unit/test_x.py").write_text(PASSING)
    (checkout / "tests/guest/test_g.py").write_text(PASSING)
    for arguments, ci, expected in ((("unit", "guest"), True, 1), (("guest",), False, 1)):
        code, output = run(checkout, *arguments, ci=ci)
        assert code == expected, output
        assert "not run: no containers on this machine" in output


def test_ci_runs_every_folder_of_tests_that_has_tests(checkout: Path) -> None:
    for name in ("unit", "replay", "guest", "wheel", "later"):
        (checkout / "tests" / name / f"test_{name}.py").write_text(PASSING)
    (checkout / "tests/gpu").mkdir()
    (checkout / "tests/gpu/test_gpu.py").write_text(FAILING)
    script(checkout / "scripts/guest-tier", "exit 0")
    output = run(checkout, "--all", ci=True)[1]
    summary = output[output.index("== summary") :]
    assert [line.split()[0] for line in summary.splitlines()[1:] if line.endswith("skipped")] == [
        "unit+replay",
        "guest",
        "wheel",
        "later",
        str(6),
    ], output


def test_the_migrate_tier_shares_the_workers_of_the_guest_tier(checkout: Path) -> None:
    for name, text in (("unit", PASSING), ("guest", PASSING), ("wheel", PASSING), ("migrate", FAILING)):
        (checkout / "tests" / name).mkdir(exist_ok=True)
        (checkout / f"tests/{name}/test_{name}.py").write_text(text)
    script(checkout / "scripts/guest-tier", "exit 0")
    code, output = run(checkout, "--all", ci=True)
    told = {line.split()[0]: " ".join(line.split()[3:]) for line in output.splitlines() if " s  " in line}
    assert (code, told["guest+migrate"]) == (1, "FAILED (exit 1): 1 passed, 1 failed, 0 skipped"), output
    assert "migrate" not in told
    assert run(checkout, "migrate")[0] == 1


MEETS = """
import os, pathlib, pytest, time

pytestmark = pytest.mark.guest

def test_meets():
    pathlib.Path({own!r}).touch()
    until = time.monotonic() + 120
    while not os.path.exists({other!r}):
        assert time.monotonic() < until
        time.sleep(0.05)
"""


def test_the_vm_tier_runs_beside_the_guest_tier_and_the_engine_tier_after_both(checkout: Path) -> None:
    script(checkout / "scripts/guest-tier", "exit 0")
    for name, other in (("guest", "vm"), ("vm", "guest")):
        (checkout / "tests" / name).mkdir(exist_ok=True)
        (checkout / f"tests/{name}/test_{name}.py").write_text(MEETS.format(own=name, other=other))
    (checkout / "tests/engine").mkdir()
    (checkout / "tests/engine/test_engine.py").write_text(PASSING)
    (checkout / "tests/vm/test_red.py").write_text(FAILING)
    code, output = run(checkout, "--all", ci=True)
    summary = output[output.index("== summary") :].splitlines()
    told = {line.split()[0]: " ".join(line.split()[3:]) for line in summary[1:-2]}
    assert list(told)[-2:] == ["vm", "engine"], output
    assert told["guest"] == told["engine"] == "1 passed, 0 failed, 0 skipped"
    assert told["vm"] == "FAILED (exit 1): 1 passed, 1 failed, 0 skipped"
    assert "ValueError: red" in output
    assert code == 1


SLOW = """
import pathlib, pytest, time

pytestmark = pytest.mark.guest

@pytest.fixture
def held():
    pathlib.Path({name!r}).touch()
    yield
    pathlib.Path({name!r}).unlink()

def test_slow(held):
    time.sleep(600)
"""
# As tests/conftest.py has it.
ENDS = "import signal\n\n\ndef pytest_configure():\n    signal.signal(signal.SIGTERM, signal.default_int_handler)\n"


@pytest.mark.parametrize(("end", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_ends_all_tiers_in_order(checkout: Path, end: signal.Signals, code: int) -> None:
    """Ctrl-C is heard by all processes of the terminal, a SIGTERM by the script alone."""
    script(checkout / "scripts/guest-tier", "exit 0")
    (checkout / "tests/vm").mkdir()
    (checkout / "tests/conftest.py").write_text(ENDS)
    for name in ("guest", "vm"):
        (checkout / f"tests/{name}/test_{name}.py").write_text(SLOW.format(name=f"held-{name}"))
    running = subprocess.Popen(
        ["env", "--default-signal", checkout / "test", "guest", "vm", "--", "-n0", "-pno:hypothesispytest"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    until = time.monotonic() + 120
    while len(list(checkout.glob("held-*"))) < 2:
        assert time.monotonic() < until
        time.sleep(0.05)
    if end is signal.SIGINT:
        os.killpg(running.pid, end)
    else:
        running.send_signal(end)
    assert running.wait(120) == code
    assert list(checkout.glob("held-*")) == []


@pytest.mark.parametrize("argument", ["nothing", "--nothing"])
def test_an_unknown_tier_or_option_is_named_and_nothing_runs(checkout: Path, argument: str) -> None:
    code, output = run(checkout, argument)
    assert (code, output.count("\n")) == (2, 1)
    assert argument in output


def _without(tools: set[str], folder: Path) -> str:
    """A PATH on which these tools are missing and the user is not root."""
    folder.mkdir()
    for tool in Path("/usr/bin").iterdir():
        if tool.name not in tools | {"sudo", "id"}:
            (folder / tool.name).symlink_to(tool)
    script(folder / "id", 'case "$1" in -u) echo 1000;; *) echo someone;; esac')
    return str(folder)


@pytest.mark.parametrize(
    ("option", "tools", "packages"),
    [
        ("--guest", {"lxc-start", "mmdebstrap", "ssh", "zstd"}, "lxc mmdebstrap openssh-client zstd"),
        ("--browser", {"chromium", "chromium-headless-shell"}, "chromium-headless-shell"),
        (
            "--tests",
            {"ssh", "zstd", "pkill", "strace", "rsync", "xz", "gcc"},
            "openssh-client zstd procps strace rsync xz-utils gcc",
        ),
    ],
)
def test_without_root_a_missing_tool_is_named_with_the_exact_command(
    repo_root: Path, tmp_path: Path, option: str, tools: set[str], packages: str
) -> None:
    path = _without(tools, tmp_path / "bin")
    done = subprocess.run(
        [repo_root / "scripts/bootstrap", option],
        env={"PATH": path, "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    # A bare machine lacks more than these.
    needs = done.stderr.removeprefix("bootstrap: needs ").split(", and installing")[0]
    assert set(packages.split()) <= set(needs.split())
    wanted = f"apt-get install --no-install-recommends {needs}"
    assert done.stderr.endswith(f"as root run: apt-get update && {wanted}\n")
