"""The way back, called by the controller: ``undo.sh`` on the machine, looked at, run, looked at again."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO

from pyinfra.api.host import Host

from provision.acts import shell
from provision.host import keeping, transport
from provision.host.changes import Change, undo_script
from provision.run.errors import ActFailed

SECONDS = 3600
"""An initramfs made on a slow disk for several kernels takes minutes; a container has two of them to stop."""

_LOOK = """
t=$(mktemp) && trap 'rm -f "$t"' EXIT && cat >"$t" || exit 1
sh "$t" --look {run} </dev/null 2>&1
"""


@dataclass(frozen=True)
class Look:
    """What the machine would have put back (``todo``), and what it says of the rest. ``left``: something there is not
    as kpro wrote it, and stays so."""

    todo: tuple[str, ...]
    said: tuple[str, ...]
    left: bool


@dataclass(frozen=True)
class Undone:
    """How ``undo.sh`` ended. ``reboot``: the next boot finishes it."""

    ok: bool
    reboot: bool
    said: tuple[str, ...]


def look(host: Host, changes: Sequence[Change], run: str = "") -> Look:
    """Asks the machine what is not as it was; changes nothing. Raises ActFailed."""
    script = undo_script(changes).encode()
    try:
        done = transport.run(
            host, _LOOK.format(run=shlex.quote(run) if run else ""), stdin=script, timeout=600
        )
    except OSError as error:
        raise ActFailed(f"{host.name}: {error}") from error
    if done.rc not in (0, 1):
        raise ActFailed(f"{host.name}: it cannot be told what would be put back:\n{shell.tail(done)}")
    lines = done.text.splitlines()
    todo = tuple(line.removeprefix("would ") for line in lines if line.startswith("would "))
    said = tuple(line for line in lines if not line.startswith("would "))
    return Look(todo, said, done.rc == 1)


def undo(host: Host, owner: str, run: str = "", say: Callable[[str], None] | None = None) -> Undone:
    """Runs the machine's ``undo.sh``, for all changes or for those of one run. ``owner`` is the run that holds the
    lock; ``say`` is told each line when it comes. Raises ActFailed when it could not be run to its end."""
    words = ["sh", f"{keeping.STATE}/undo.sh", *([run] if run else [])]
    script = f"KPRO_RUN={shlex.quote(owner)} {shlex.join(words)} </dev/null 2>&1"
    try:
        done = _told(host, shell.BUSY_PREFIX + script, say)
    except OSError as error:
        raise ActFailed(f"{host.name}: {error}") from error
    if done.rc not in (0, 1, 10):
        raise ActFailed(f"{keeping.STATE}/undo.sh ended with {done.rc}:\n{shell.tail(done)}")
    return Undone(done.rc != 1, done.rc == 10, tuple(done.text.splitlines()))


def _told(host: Host, script: str, say: Callable[[str], None] | None) -> transport.Completed:
    out, errors, line = bytearray(), bytearray(), bytearray()

    def heard(data: bytes) -> None:
        out.extend(data)
        line.extend(data)
        *whole, rest = bytes(line).split(b"\n")
        line[:] = rest
        for text in whole if say else ():
            say(text.decode(errors="replace"))  # type: ignore[misc]

    ended = transport.execute(host, script, BytesIO(), heard, errors.extend, timeout=SECONDS)
    return ended.finish(out, errors)
