"""The way into the test host: the ``ssh`` program with a key and a host key that are known in advance."""

from __future__ import annotations

import shlex
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .errors import TestHostError

_SSH_FAILED = 255


@dataclass(frozen=True)
class Address:
    """What an inventory needs: ``known_hosts`` holds this machine's key and nothing else."""

    port: int
    key: Path
    known_hosts: Path
    host: str = "127.0.0.1"
    user: str = "root"

    def command(self) -> list[str]:
        """The ``ssh`` command; a remote command line goes behind it. The user's own settings play no part."""
        options = {
            "BatchMode": "yes",
            "ConnectTimeout": "20",
            "IdentitiesOnly": "yes",
            "LogLevel": "ERROR",
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": str(self.known_hosts),
        }
        settings = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        return [
            "ssh",
            "-F",
            "none",
            "-i",
            str(self.key),
            "-p",
            str(self.port),
            *settings,
            f"{self.user}@{self.host}",
        ]

    def line(self) -> str:
        """The command for a person to paste."""
        return shlex.join(self.command())

    def answers(self, timeout: float = 3.0) -> bool:
        """Whether an SSH server greets on the port: much cheaper for the guest than a login."""
        try:
            with socket.create_connection((self.host, self.port), timeout) as connection:
                connection.settimeout(timeout)
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def run(
        self, command: str, *, stdin: bytes = b"", timeout: float = 120, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Runs a shell command line as root.

        Raises TestHostError when the host cannot be reached, after ``timeout`` seconds, and with ``check`` when
        the command fails.
        """
        try:
            done = subprocess.run(
                [*self.command(), command], input=stdin, capture_output=True, timeout=timeout, check=False
            )
        except subprocess.TimeoutExpired:
            raise TestHostError(
                f"the test host gave no answer within {timeout:.0f} s to: {command}"
            ) from None
        result = subprocess.CompletedProcess(
            command,
            done.returncode,
            done.stdout.decode(errors="replace"),
            done.stderr.decode(errors="replace"),
        )
        if check and result.returncode:
            what = "cannot be reached" if result.returncode == _SSH_FAILED else f"exits {result.returncode}"
            raise TestHostError(
                f"the test host: {command!r} {what}: {result.stderr.strip() or result.stdout.strip()}"
            )
        return result
