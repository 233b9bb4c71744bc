"""``provision demo``: what it removes, and what it leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.data import demo
from provision.data.demo import CONTAINER
from tests.conftest import ROOT
from tests.controller import BIN, hear_interrupts
from tests.guest.rig import LXC

pytestmark = pytest.mark.usefixtures("alone")


@pytest.fixture(autouse=True)
def no_demo_yet() -> Iterator[None]:
    if (LXC / CONTAINER).exists():
        pytest.fail(f"there is a container {CONTAINER} on this machine: remove it first")
    return


def _demo(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(BIN / "provision"), "demo", "--quick", *words],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=hear_interrupts,
    )


def test_the_demonstration_goes_from_nothing_to_an_answer_and_leaves_nothing() -> None:
    process = _demo()
    said, _ = process.communicate(timeout=400)
    assert process.returncode == 0, said[-3000:]
    assert "a second run changed nothing" in said
    assert not (LXC / CONTAINER).exists()
    assert not Path("/run/kpro/guests", CONTAINER).exists()
    assert not demo.folder(demo.MACHINE_MODELS).exists()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_an_interrupted_demonstration_leaves_nothing_running(number: int, code: int) -> None:
    process = _demo()
    until = time.monotonic() + 240
    while not (LXC / CONTAINER / "config").exists() and time.monotonic() < until:
        time.sleep(0.1)
    os.kill(process.pid, number)
    said, _ = process.communicate(timeout=240)
    assert process.returncode == code, said[-3000:]
    assert not (LXC / CONTAINER).exists()
    assert "Traceback" not in said
    assert "interrupted" in said
    assert "ended with" not in said


def test_the_demonstration_removes_no_container_but_its_own() -> None:
    folder = LXC / CONTAINER
    folder.mkdir()
    try:
        (folder / "config").write_text("lxc.uts.name = mine\n")
        (folder / "precious").write_text("data\n")
        process = _demo()
        said, _ = process.communicate(timeout=240)
        assert process.returncode == 3, said[-3000:]
        assert (folder / "precious").read_text() == "data\n"
    finally:
        for name in ("config", "precious"):
            Path(folder, name).unlink(missing_ok=True)
        folder.rmdir()
