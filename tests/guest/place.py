"""A place to run the whole chain: an inventory of its own, a container of its own, the real programs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provision.testhost import demo_files
from tests.conftest import ROOT
from tests.guest.rig import LXC, Container

BIN = Path(sys.executable).parent

_INVENTORY = """\
from provision.spec import Engine, Guest, Machine, Model, Service, Ssh

machine = Machine(
    name="box",
    ssh={ssh},
    managed=False,
    guests=[
        Guest(
            name="llm",
            backend="lxc",
            id={id!r},
            services=[
                Service(
                    name="tiny",
                    engine=Engine(kind="standin", version="1.0.0", **{engine}),
                    model=Model(repo="kpro/tiny", revision={revision!r}, folder={folder!r}),
                    port={port},
                    flags={flags},
                    ready_seconds={ready},
                    **{more},
                )
            ],
        )
    ],
)
metal, guests = machine.pyinfra_groups()
"""


def hear_interrupts() -> None:
    """A shell that runs the tests in the background has them, and all they start, ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def free_port() -> int:
    """Below the range that outgoing connections take theirs from: one of those would keep a service from binding."""
    start = 18600 + os.getpid() % 900
    for port in range(start, start + 100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
    raise AssertionError("no free port")


@dataclass
class Place:
    """One machine (this one), one container, one service."""

    folder: Path
    container: Container
    port: int = field(default_factory=free_port)
    ssh: str = "None"

    @property
    def inventory(self) -> Path:
        return self.folder / "box.py"

    @property
    def guest_host(self) -> str:
        return "@guest/box/llm" if self.ssh != "None" else "@guest/@local/llm"

    def write(
        self,
        *,
        flags: tuple[str, ...] = (),
        ready: int = 60,
        engine: dict[str, str] | None = None,
        **more: str,
    ) -> None:
        """The inventory; ``more`` are further arguments of the service."""
        files = self.folder / "files"
        demo_files.prepare(files)
        wheels = {"source": "wheel", "wheelhouse": str(demo_files.wheel_folder(files))}
        self.inventory.write_text(
            _INVENTORY.format(
                ssh=self.ssh,
                id=self.container.name,
                engine=engine if engine is not None else wheels,
                revision=demo_files.DEMO_REVISION,
                folder=str(demo_files.model_folder(files)),
                port=self.port,
                flags=list(flags),
                ready=ready,
                more=more,
            )
        )

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

    def start_apply(self) -> subprocess.Popen[str]:
        """``apply`` in the background, its output to a file."""
        with (self.folder / "apply.log").open("w") as log:
            return subprocess.Popen(
                [str(BIN / "provision"), "apply", str(self.inventory), "--yes"],
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

    def answer(self) -> str:
        """What the service generates, asked without any code of the product."""
        import urllib.request

        body = json.dumps({"model": "tiny", "prompt": "hello", "max_tokens": 4, "ignore_eos": True}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v1/completions", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=10) as reply:
            text: str = json.load(reply)["choices"][0]["text"]
        return text

    def main_pid(self) -> str:
        return self.container.attach(
            "systemctl", "show", "-p", "MainPID", "--value", "kpro-tiny.service"
        ).strip()

    def digests(self) -> dict[str, str]:
        """Everything of ours in the container, by content; what holds a time of its own is left out."""
        script = (
            "find /opt/kpro /etc/kpro /etc/systemd/system /srv/models /var/lib/kpro -type f "
            "! -name '*.pyc' ! -name kpro-env.json ! -name uv_cache.json ! -name RECORD -print0 | sort -z | "
            "xargs -0 sha256sum; stat -c '%a %U:%G %n' /etc/kpro/* /opt/kpro/* /srv/models /srv/models/*; "
            "getent passwd kpro; systemctl is-enabled kpro-tiny.service; systemctl is-active kpro-tiny.service"
        )
        lines = self.container.attach("sh", "-c", script).splitlines()
        found = {line[66:]: line[:64] for line in lines if len(line) > 66 and line[64:66] == "  "}
        found |= {line: "" for line in lines if line[64:66] != "  "}
        return {name.replace(str(self.port), "PORT"): digest for name, digest in found.items()}

    def leftovers(self) -> list[str]:
        """Files that a cut-off write would leave, in the container and beside it."""
        script = (
            "find / -xdev \\( -name '.kpro-put*' -o -name '*.partial' -o -path '/srv/models/.incoming/?*' \\) "
            "-not -path '/proc/*' -print"
        )
        inside = self.container.attach("sh", "-c", script).split()
        return inside + [str(path) for path in LXC.glob(f".kpro-{self.container.name}*")]

    def remove(self) -> None:
        subprocess.run(["lxc-stop", "-k", "-n", self.container.name], capture_output=True, check=False)
        shutil.rmtree(LXC / self.container.name, ignore_errors=True)
        shutil.rmtree(LXC / f".kpro-{self.container.name}.partial", ignore_errors=True)
        Path("/run/kpro/guests", self.container.name).unlink(missing_ok=True)
