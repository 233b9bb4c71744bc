"""An end of a migration whose guest is this machine's shell with folders of its own, and whose service a stand-in."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from provision.host.transport import Completed, TransportError
from provision.spec import Engine, Gpu, Guest, Machine, Model, Service, Ssh
from provision.testhost.process import Standin

RUN = "20261130T120000Z-a1b2c3"
DIGEST = "d" * 64


class End:
    """``inside`` runs scripts with /var/lib/kpro and /run/kpro-migrate below ``root``; systemctl knows one process."""

    def __init__(
        self,
        name: str,
        root: Path,
        standin: Standin | None,
        *,
        gpus: tuple[str, ...] = (),
        **more: Any,
    ) -> None:
        self.root, self.down = root, False
        self.ran: list[str] = []
        given: dict[str, Any] = {
            "name": "tiny",
            "engine": Engine(kind="standin", version="1.0.0"),
            "model": Model(repo="kpro/tiny", revision="0" * 40),
            "port": standin.port if standin is not None else 9,
            **more,
        }
        self.service = Service(**given)
        bdfs = [f"4{at}:00.0" for at in range(len(gpus))]
        guest = {"name": "llm", "backend": "lxc", "id": "llm", "suite": "bookworm", "unprivileged": False}
        self.guest = Guest(**guest, gpus=bdfs, services=[self.service])
        self.machine = Machine(
            name=name,
            ssh=Ssh(host=name, user="root"),
            gpus=[Gpu(bdf=bdf, model=model) for bdf, model in zip(bdfs, gpus, strict=True)],
            guests=[self.guest],
        )
        for folder in ("bin", "var/lib/kpro/good", "run"):
            (root / folder).mkdir(parents=True)
        pid = standin.process.pid if standin is not None else 0
        control = root / "bin/systemctl"
        control.write_text(
            f'#!/bin/sh\ncase "$*" in\n"show -p MainPID --value "*) echo {pid} ;;\n'
            '"show -p ControlGroup --value "*) ;;\n*) exit 99 ;;\nesac\n'
        )
        control.chmod(0o755)
        # The stand-in writes no journal; a machine of which this is a container may have none.
        journal = root / "bin/journalctl"
        journal.write_text('#!/bin/sh\ncase "$*" in *kpro-*) ;; *) exit 99 ;; esac\n')
        journal.chmod(0o755)

    @property
    def name(self) -> str:
        return self.machine.name

    def host(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
        raise AssertionError("nothing is done on the metal")

    def inside(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
        if self.down:
            raise TransportError(f"{self.name}: the connection was lost")
        self.ran.append(script)
        for path in ("/var/lib/kpro", "/run/kpro-migrate"):
            script = script.replace(path, f"{self.root}{path}")
        done = subprocess.run(
            ["/bin/sh", "-c", script],
            input=stdin,
            capture_output=True,
            timeout=timeout,
            check=False,
            env={**os.environ, "PATH": f"{self.root}/bin:/usr/bin:/bin"},
        )
        return Completed(done.returncode, done.stdout, done.stderr)

    def hold(self) -> None:
        return

    def put(self, path: str, text: str) -> None:
        """A file of the guest."""
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
