"""A place to run the whole chain: an inventory of its own, a container of its own, the real programs."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path

from provision.testhost import demo_files
from tests.controller import Operator
from tests.guest.rig import LXC, Container

_INVENTORY = """\
from provision.spec import Engine, Guest, Machine, Model, Service, Ssh

machine = Machine(
    name="box",
    ssh={ssh},
    managed=False,
    models={models!r},
    guests=[
        Guest(
            name="llm",
            backend="lxc",
            id={id!r},
            unprivileged={unprivileged},
            services=[
                Service(
                    name="tiny",
                    engine=Engine(kind="standin", version="1.0.0", **{engine}),
                    port={port},
                    flags={flags},
                    ready_seconds={ready},
                    **dict(model=Model(repo="kpro/tiny", revision={revision!r}, folder={folder!r})) | {more},
                )
            ],
        )
    ],
)
metal, guests = machine.pyinfra_groups()
"""


_BLOCK = 10
"""Ports that one service of a test takes at most: its own, and that of its candidate behind it."""
_next = count()


def free_port() -> int:
    """The first of a block of ports that this process gives to nobody else, whether or not they are in use by then.

    Below the range that outgoing connections take theirs from: one of those would keep a service from binding.
    """
    start = 18600 + os.getpid() % 60 * 200
    for block in islice(_next, 100):
        ports = [start + block * _BLOCK + offset for offset in range(_BLOCK)]
        if not any(_answers(port) for port in ports[:2]):
            return ports[0]
    raise AssertionError("no free port")


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass
class Place(Operator):
    """One machine (this one), one container, one service."""

    container: Container
    port: int = field(default_factory=free_port)
    ssh: str = "None"
    unprivileged: bool = False

    @property
    def models(self) -> Path:
        """The machine's folder of models. An unprivileged container reaches none of the test's own folders."""
        return Path("/srv", f"{self.container.name}-models")

    @property
    def guest_host(self) -> str:
        return "@guest/box/llm" if self.ssh != "None" else "@guest/@local/llm"

    def write(
        self,
        *,
        flags: tuple[str, ...] = (),
        ready: int = 60,
        engine: dict[str, str] | None = None,
        **more: object,
    ) -> None:
        """The inventory; ``more`` are further arguments of the service."""
        files = self.folder / "files"
        demo_files.prepare(files)
        wheels = {"source": "wheel", "wheelhouse": str(demo_files.wheel_folder(files))}
        self.inventory.write_text(
            _INVENTORY.format(
                ssh=self.ssh,
                id=self.container.name,
                unprivileged=self.unprivileged,
                models=str(self.models),
                engine=engine if engine is not None else wheels,
                revision=demo_files.DEMO_REVISION,
                folder=str(demo_files.model_folder(files)),
                port=self.port,
                flags=list(flags),
                ready=ready,
                more=more,
            )
        )

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
        beside = [*LXC.glob(f".kpro-{self.container.name}*"), *self.models.rglob(".kpro-put*")]
        return inside + [str(path) for path in (*beside, *self.models.glob(".incoming/*"))]

    def remove(self) -> None:
        subprocess.run(["lxc-stop", "-k", "-n", self.container.name], capture_output=True, check=False)
        shutil.rmtree(LXC / self.container.name, ignore_errors=True)
        shutil.rmtree(LXC / f".kpro-{self.container.name}.partial", ignore_errors=True)
        shutil.rmtree(self.models, ignore_errors=True)
        Path("/run/kpro/guests", self.container.name).unlink(missing_ok=True)
