"""``provision demo`` on the virtual host, as somebody runs it: whole, and interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from provision.testhost.vm.image import Image
from tests.controller import BIN, hear_interrupts
from tests.vm.rig import CACHE, processes

DEADLINE = 3600


@pytest.fixture
def environ(vm_image: Image, prebuilt: Path, tmp_path: Path) -> dict[str, str]:
    return {
        **os.environ,
        "XDG_CACHE_HOME": CACHE,
        "XDG_STATE_HOME": str(tmp_path),
        "KPRO_DEMO_DIR": str(tmp_path),
    }


def test_the_demonstration_shows_everything_and_leaves_nothing(environ: dict[str, str]) -> None:
    done = subprocess.run(
        [str(BIN / "provision"), "demo"],
        env=environ,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "everything was shown" in done.stderr
    assert "REPLAYED (pass)" in done.stderr
    assert not processes(f"{CACHE}/kpro/vm/run/")


def test_an_interrupt_ends_the_virtual_host(environ: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("w") as out:
        running = subprocess.Popen(
            [str(BIN / "provision"), "demo"],
            env=environ,
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=hear_interrupts,
        )
    until = time.monotonic() + 300
    while "booting" not in log.read_text() and time.monotonic() < until:
        time.sleep(0.5)
    os.kill(running.pid, signal.SIGINT)
    assert running.wait(60) == 130
    assert "interrupted" in log.read_text()
    assert not processes(f"{CACHE}/kpro/vm/run/")
    assert not (tmp_path / "vm.json").exists()
