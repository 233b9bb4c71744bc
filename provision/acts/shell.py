"""What the acts have in common: a script on a host that must succeed, and the words of an error."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from io import BytesIO

from pyinfra.api.host import Host

from provision.host import transport
from provision.run.errors import ActFailed

BUSY = "/run/kpro/busy"
BUSY_PREFIX = f"mkdir -p -m 700 /run/kpro && exec 9>>{BUSY} && flock -s 9 || exit 1\n"
"""A changing command on a machine begins with it: a new run waits for the end of it."""


def run(
    host: Host, script: str, what: str, *, stdin: bytes | None = None, timeout: float | None = None
) -> str:
    """Runs a changing script, holding the machine's busy file; returns its output.

    A guest's connector holds the file itself, for the machine that carries the command. Raises ActFailed with the
    last lines of what the script said.
    """
    if not host.name.startswith("@guest/"):
        script = BUSY_PREFIX + script
    try:
        done = transport.run(host, script, stdin=stdin, timeout=timeout)
    except OSError as error:
        raise ActFailed(f"{what}: {error}") from error
    if not done.ok:
        raise ActFailed(f"{what} ended with {done.rc}:\n{tail(done)}")
    return done.text


def tail(done: transport.Completed, lines: int = 15) -> str:
    text = (done.text.rstrip() + "\n" + done.error_text).strip()
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:])


def put(host: Host, path: str, data: bytes, *, mode: str, owner: str = "0:0") -> None:
    """Writes a file in one step (temp, fsync, rename). Raises ActFailed."""
    try:
        transport.put(host, BytesIO(data), path, mode=mode, owner=owner)
    except OSError as error:
        raise ActFailed(str(error)) from error


def digests(host: Host, folder: str) -> dict[str, str]:
    """sha256 of every file under a folder of the host, by relative path; the folder is made if it is missing."""
    quoted = shlex.quote(folder)
    script = f"umask 022; mkdir -p -- {quoted} && cd {quoted} && "
    script += "find . -type f ! -name '.kpro-put.*' -exec sha256sum -z {} +"
    text = run(host, script, f"reading {folder}")
    pairs = (entry.split("  ./", 1) for entry in text.split("\0") if entry)
    return {path: digest for digest, path in pairs}


def put_file(
    host: Host,
    local: str,
    path: str,
    *,
    mode: str,
    say: Callable[[str], None] | None = None,
) -> None:
    """Streams a file of the controller. Raises ActFailed."""
    try:
        with open(local, "rb") as source:  # noqa: PTH123
            transport.put(host, source, path, mode=mode, owner="0:0", progress=_percent(source, path, say))
    except OSError as error:
        raise ActFailed(str(error)) from error


def _percent(source: object, path: str, say: Callable[[str], None] | None) -> Callable[[int], None] | None:
    import os

    size = os.fstat(source.fileno()).st_size  # type: ignore[attr-defined]
    if say is None or size < 1 << 28:
        return None
    said = 0

    def progress(sent: int) -> None:
        nonlocal said
        if sent * 10 // size > said:
            said = sent * 10 // size
            say(f"{path}: {said * 10} % of {size >> 20} MiB")

    return progress
