"""Looks at the machine for a bundle: each thing by itself, with a deadline, and what cannot be had says why."""

from __future__ import annotations

import base64
import json
import platform
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from checks import __version__, child
from checks.bundle.archive import Content
from checks.bundle.redact import Redactor
from checks.errors import BadInput
from checks.record import Record, parse

Run = Callable[[Sequence[str], float], child.Ended]
TIME_LIMIT = 120.0
"""Seconds for all of it; what is not reached by then is left out."""


class Program(NamedTuple):
    """Output of a program; ``tail``: the end matters more than the beginning; ``verdict``: its exit code is one."""

    file: str
    argv: tuple[str, ...]
    deadline: float
    tail: bool = False
    verdict: bool = False


PROGRAMS = (
    Program("nvidia-smi-q.txt", ("nvidia-smi", "-q"), 20.0),
    Program("lspci-nvidia.txt", ("lspci", "-d", "10de:", "-nnvvv"), 10.0),
    Program(
        "packages.txt", ("dpkg-query", "-W", "*nvidia*", "*cuda*", "*nccl*", "linux-image*", "libc6"), 10.0
    ),
    Program("units.txt", ("systemctl", "cat", "--no-pager", "kpro-*"), 10.0),
    Program("units-status.txt", ("systemctl", "--no-pager", "list-units", "--all", "kpro-*"), 10.0),
    Program(
        "journal.txt",
        ("journalctl", "--no-pager", "-b", "-n", "4000", "-o", "short-iso", "-u", "kpro-*"),
        20.0,
        True,
    ),
)
FILES = ("/etc/os-release", "/proc/driver/nvidia/version", "/proc/cmdline", "/proc/meminfo", "/proc/modules")
NEVER = {
    "environment files": "they hold keys; provcheck never opens them",
    "environment of running processes": "it holds keys; provcheck never reads it for a bundle",
    "model files and prompts": "not needed, and not ours to hand on",
}
_RECORD_SECONDS = 30.0


def gather(redactor: Redactor, run: Run, url: str | None = None, root: str = "") -> Content:
    """Everything that can be had. Never raises for what this machine lacks."""
    content = Content(left_out=dict(NEVER))
    end = time.monotonic() + TIME_LIMIT
    steps: list[tuple[str, Callable[[float], None]]] = [
        ("versions.txt", lambda left: _versions(content, redactor)),
        ("gpus.record.json", lambda left: _gpus(content, redactor, run, left)),
        *((p.file, lambda left, p=p: _program(content, redactor, run, p, left)) for p in PROGRAMS),
        *((_flat(path), lambda left, path=path: _file(content, redactor, root, path)) for path in FILES),
    ]
    if url is not None:
        steps.append(("serve.record.json", lambda left: _serve(content, redactor, run, url, left)))
    for name, step in steps:
        left = end - time.monotonic()
        if left <= 0:
            content.left_out[name] = f"the {TIME_LIMIT:g} s for a bundle were over"
            continue
        try:
            step(left)
        except (OSError, BadInput) as error:
            content.left_out[name] = redactor.text(str(error))
    return content


def _versions(content: Content, redactor: Redactor) -> None:
    system = platform.uname()
    lines = [
        f"provcheck {__version__}",
        f"python {platform.python_version()}",
        f"kernel {system.system} {system.release} {system.version} {system.machine}",
    ]
    content.add("versions.txt", redactor.text("\n".join(lines) + "\n").encode())


def _gpus(content: Content, redactor: Redactor, run: Run, left: float) -> None:
    seconds = min(_RECORD_SECONDS, left)
    ended = run(child.self_command("_probe", "record", f"{seconds:g}"), seconds + 15)
    if ended.code != 0:
        raise BadInput(f"the GPUs gave no record: {_why(ended)}")
    record = parse(ended.stdout, "the record")
    kernel = next((part for part in record.sections if (part.kind, part.path) == ("log", "kernel")), None)
    if kernel is not None and kernel.data is not None:
        content.add(
            "kernel-nvidia.log", redactor.text(kernel.data.decode(errors="replace")).encode(), tail=True
        )
    elif kernel is not None:
        content.left_out["kernel-nvidia.log"] = (
            f"the kernel log could not be read: {kernel.error or 'absent'}"
        )
    content.add("gpus.record.json", _clean_record(record, redactor))
    with tempfile.TemporaryDirectory(prefix="provcheck-") as folder:
        # Judged in a child: a bundle is for when something is broken, which may be a rule.
        file = Path(folder) / "record"
        file.write_bytes(content.files["gpus.record.json"])
        judge = child.self_command("_probe", "judged", str(file))
        _program(content, redactor, run, Program("gpus.txt", tuple(judge), 30.0, verdict=True), left)


def _clean_record(record: Record, redactor: Redactor) -> bytes:
    """The record, still one that replays: its sections are decoded, cleaned and coded again."""
    whole = json.loads(record.dump())
    for section in whole["sections"]:
        if section["b64"] is not None:
            text = base64.b64decode(section["b64"]).decode("utf-8", "replace")
            section["b64"] = base64.b64encode(redactor.text(text).encode()).decode()
        section["path"] = redactor.text(section["path"])
        section["err"] = redactor.text(section["err"]) if section["err"] else section["err"]
    for part in ("nvml", "serve"):
        if whole.get(part) is not None:
            whole[part] = redactor.data(whole[part])
    whole["host"] = redactor.text(whole["host"]) if whole.get("host") else whole.get("host")
    return (json.dumps(whole, indent=1) + "\n").encode()


def _serve(content: Content, redactor: Redactor, run: Run, url: str, left: float) -> None:
    """The record of a service, by counters alone: no prompt is sent, and no unit's log is asked for."""
    with tempfile.TemporaryDirectory(prefix="provcheck-") as folder:
        file = Path(folder) / "record"
        ended = run(
            child.self_command("serve", url, "--passive", "--json", "--record", str(file)), min(60.0, left)
        )
        if not file.is_file():
            raise BadInput(f"the service gave no record: {_why(ended)}")
        content.add("serve.record.json", _clean_record(parse(file.read_bytes(), "the record"), redactor))


def _program(content: Content, redactor: Redactor, run: Run, program: Program, left: float) -> None:
    try:
        ended = run(program.argv, min(program.deadline, left))
    except FileNotFoundError:
        raise BadInput(f"there is no {program.argv[0]} here") from None
    text = redactor.text(ended.stdout.decode(errors="replace"))
    if text.strip():
        content.add(program.file, text.encode(), tail=program.tail)
    if ended.timed_out:
        content.left_out[program.file] = f"cut: {program.argv[0]} did not end within {program.deadline:g} s"
    elif not text.strip() or (ended.code != 0 and not program.verdict):
        content.left_out[program.file] = redactor.text(f"{Path(program.argv[0]).name} {_why(ended)}")


def _file(content: Content, redactor: Redactor, root: str, path: str) -> None:
    try:
        data = Path(root + path).read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    content.add(_flat(path), redactor.text(data.decode(errors="replace")).encode())


def _flat(path: str) -> str:
    return path.strip("/").replace("/", "-") + ".txt"


def _why(ended: child.Ended) -> str:
    said: Any = " / ".join(ended.stderr.splitlines()[-2:])[:300]
    return "gave no answer in time" if ended.timed_out else f"ended with {ended.code}: {said}".rstrip(": ")
