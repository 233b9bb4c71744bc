"""A host that is a folder: commands run in it through chroot, files are put below it. For root only."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from checks import snapshot
from provision.host import transport


class Rooted:
    """Stands for a pyinfra host; ``name`` is what the acts look at."""

    name = "box"

    def __init__(self, root: Path) -> None:
        self.root = root
        self.commands: list[str] = []

    def __str__(self) -> str:
        return self.name

    def sh(self, script: str, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        inside = ["unshare", "--mount", "--pid", "--fork", "--kill-child", f"--mount-proc={self.root}/proc"]
        return subprocess.run(
            [*inside, "chroot", str(self.root), "sh", "-c", script],
            input=stdin,
            capture_output=True,
            check=False,
            env={"PATH": path, "HOME": "/root", **environment},
        )

    def use(self, patch: pytest.MonkeyPatch) -> None:
        """From now on the transport brings commands and files here."""

        def run(host: Any, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Any:
            self.commands.append(command)
            done = self.sh(command, stdin or b"")
            return transport.Completed(done.returncode, done.stdout, done.stderr, True)

        def put(
            host: Any, source: BinaryIO, path: str, *, mode: str, owner: str, progress: Any = None
        ) -> None:
            target = self.root / path.lstrip("/")
            target.write_bytes(source.read())
            target.chmod(int(mode, 8))

        patch.setattr(transport, "run", run)
        patch.setattr(transport, "put", put)

    def look(self, requests: list[str]) -> snapshot.Snapshot:
        """A snapshot of the folder as a live machine."""
        quoted = self.sh(
            "exec sh -s -- " + " ".join(_quote(request) for request in requests), snapshot.script().encode()
        )
        assert quoted.returncode == 0, quoted.stderr
        return snapshot.parse(quoted.stdout)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
