"""A few words with a running QEMU (QEMU Machine Protocol: JSON lines over a socket)."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from .errors import TestHostError

_SECONDS = 10.0


def execute(path: Path, command: str) -> Any:
    """What QEMU returns for ``command``. Raises TestHostError when it is gone or refuses."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_SECONDS)
            connection.connect(str(path))
            with connection.makefile("rwb") as stream:
                json.loads(stream.readline())  # the greeting
                _ask(stream, "qmp_capabilities")
                return _ask(stream, command)
    except (OSError, ValueError) as error:
        raise TestHostError(f"QEMU does not answer at {path}: {error}") from None


def _ask(stream: Any, command: str) -> Any:
    stream.write(json.dumps({"execute": command}).encode() + b"\n")
    stream.flush()
    while line := stream.readline():
        said = json.loads(line)
        if "return" in said:
            return said["return"]
        if "error" in said:
            raise TestHostError(f"QEMU refuses {command}: {said['error'].get('desc')}")
    raise ValueError("it closed the connection")
