"""Services that GPUs may need: fabric manager and persistence daemon, looked for among the processes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from checks.gpus.host_read import By, made, text
from checks.record import Section

PROCESSES, PACKAGES = "/proc", "/var/lib/dpkg/status"
_WANTED = {"nv-fabricmanage": "nv-fabricmanager", "nvidia-persiste": "nvidia-persistenced"}
"""What /proc/PID/comm shows (15 characters) -> the program."""
_VERSION = re.compile(
    r"^Package: nvidia-fabricmanager\S*\n(?:(?!\n\n)[\s\S])*?^Status: install ok installed\n"
    r"(?:(?!\n\n)[\s\S])*?^Version: (?:\d+:)?(\d{3,4}\.\d+(?:\.\d+)?)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Services:
    fabric_manager: bool
    persistenced: bool
    fabric_version: str | None = None


def look(root: str, *, switches: bool) -> Iterator[Section]:
    """The package list is read only where NVSwitches make its version matter."""
    yield made("services", PROCESSES, lambda: _running(root))
    if switches:
        yield made("package", "nvidia-fabricmanager", lambda: _package(root))


def _running(root: str) -> bytes:
    found = set()
    for entry in Path(root + PROCESSES).iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):  # it ended meanwhile
                found.add((entry / "comm").read_text(errors="replace").strip())
    return "".join(f"{_WANTED[name]}\n" for name in sorted(found & _WANTED.keys())).encode()


def _package(root: str) -> bytes:
    found = _VERSION.search(Path(root + PACKAGES).read_text(errors="replace"))
    return f"{found[1]}\n".encode() if found else b""


def parse(by: By) -> Services | None:
    said = text(by, "services", PROCESSES)
    if said is None:
        return None
    version = (text(by, "package", "nvidia-fabricmanager") or "").strip() or None
    return Services("nv-fabricmanager" in said, "nvidia-persistenced" in said, version)
