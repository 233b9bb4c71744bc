"""Someone who runs the real programs with an inventory file: plans, applies, is killed, reads the journals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import ROOT

BIN = Path(sys.executable).parent


def hear_interrupts() -> None:
    """A shell that runs the tests in the background has them, and all they start, ignore SIGINT; nohup, SIGHUP."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@dataclass
class Operator:
    """``folder`` holds the inventory ``box.py`` and what its runs print."""

    folder: Path

    @property
    def inventory(self) -> Path:
        return self.folder / "box.py"

    def provision(self, *words: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        return self.run(str(BIN / "provision"), *words, timeout=timeout)

    def pyinfra(self, *words: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        return self.run(str(BIN / "pyinfra"), *words, timeout=timeout)

    def run(self, *words: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def apply(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.provision("apply", str(self.inventory), "--yes", *words)

    def plan(self, *words: str) -> dict[str, Any]:
        done = self.provision("plan", str(self.inventory), "--json", *words)
        document: dict[str, Any] = json.loads(done.stdout)
        assert document["exit"] == done.returncode
        return document

    def start_apply(self, *words: str) -> subprocess.Popen[str]:
        """``apply`` in the background, its output to a file."""
        with (self.folder / "apply.log").open("w") as log:
            return subprocess.Popen(
                [str(BIN / "provision"), "apply", str(self.inventory), "--yes", *words],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,
                preexec_fn=hear_interrupts,
            )

    def events(self) -> Iterator[dict[str, Any]]:
        """The events of all runs so far, oldest run first."""
        runs = Path(os.environ["XDG_STATE_HOME"]) / "kpro" / "runs"
        for path in sorted(runs.glob("*/journal.jsonl")):
            for line in path.read_text().splitlines():
                try:
                    yield json.loads(line)
                except ValueError:
                    continue

    def wait_for(
        self, wanted: Callable[[dict[str, Any]], bool], process: subprocess.Popen[str], count: int
    ) -> bool:
        """Until the ``count``-th event that is wanted is on disk; False when the process ended before."""
        until = time.monotonic() + 240
        while time.monotonic() < until:
            if sum(map(wanted, self.events())) >= count:
                return True
            if process.poll() is not None:
                return sum(map(wanted, self.events())) >= count
            time.sleep(0.01)
        raise AssertionError(f"nothing happened for 240 s: {(self.folder / 'apply.log').read_text()[-2000:]}")

    def kill(self, process: subprocess.Popen[str]) -> None:
        """-9 for the controller, and for nothing else."""
        os.kill(process.pid, signal.SIGKILL)
        process.wait(30)
