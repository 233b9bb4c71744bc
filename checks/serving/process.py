"""The process behind a loopback port, from /proc: command line, environment of weight, CPUs. Secrets are left out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_ENV = re.compile(r"(NCCL|VLLM|SGLANG|SGL|CUDA|OMP|TORCH|PYTORCH|FLASHINFER|TRITON|HF_HUB)_?[A-Z0-9_]*")
_SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)", re.I)
_SECRET_OPTION = re.compile(r"--?[a-z-]*(api-?key|token|secret|password)\b(?!s)[a-z-]*", re.I)
_LIMIT = 1 << 20


def listener(port: int, proc: Path = Path("/proc")) -> int | None:
    """The pid that listens on a TCP port of this machine, None when it is not ours to see."""
    inodes = _listening(port, proc)
    if not inodes:
        return None
    for folder in sorted(proc.glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            links = [str(entry.readlink()) for entry in (folder / "fd").iterdir()]
        except OSError:
            continue
        if any(link[8:-1] in inodes for link in links if link.startswith("socket:[")):
            return int(folder.name)
    return None


def describe(pid: int, proc: Path = Path("/proc")) -> dict[str, Any]:
    """``cmdline`` (secrets masked), ``environ`` (variables that change an engine), ``cpus`` allowed, ``pid``."""
    folder = proc / str(pid)
    told: dict[str, Any] = {"pid": pid, "cmdline": masked(_words(folder / "cmdline"))}
    environ = dict(word.partition("=")[::2] for word in _words(folder / "environ"))
    told["environ"] = {
        name: value[:500]
        for name, value in sorted(environ.items())
        if _ENV.fullmatch(name) and not _SECRET.search(name)
    }
    cpus = _cpus(folder / "status")
    if cpus is not None:
        told["cpus"] = cpus
    return told


def masked(words: list[str]) -> list[str]:
    """The words of a command line without the values of options that hold secrets."""
    found: list[str] = []
    hide = False
    for word in words:
        if hide and not word.startswith("-"):
            found.append("***")
            continue
        hide = bool(_SECRET_OPTION.fullmatch(word))
        name, equals, _ = word.partition("=")
        found.append(f"{name}=***" if equals and _SECRET_OPTION.fullmatch(name) else word[:4000])
    return found


def _listening(port: int, proc: Path) -> set[str]:
    inodes: set[str] = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            parts = line.split()
            if len(parts) > 9 and parts[3] == "0A" and int(parts[1].rpartition(":")[2], 16) == port:
                inodes.add(parts[9])
    return inodes


def _words(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            raw = file.read(_LIMIT)
    except OSError:
        return []
    return [word.decode("utf-8", "replace") for word in raw.split(b"\0") if word]


def _cpus(path: Path) -> int | None:
    try:
        text = path.read_text()
    except OSError:
        return None
    match = re.search(r"^Cpus_allowed_list:\s*(\S+)", text, re.M)
    if match is None:
        return None
    total = 0
    for part in match[1].split(","):
        low, _, high = part.partition("-")
        total += int(high or low) - int(low) + 1
    return total
