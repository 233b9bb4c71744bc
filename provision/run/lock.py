"""One hand at a time: the lock that every changing run holds on a machine.

``/run/kpro/lock`` is an flock held by a small command on the machine, whose standard input is tied to the
controller: when the controller dies in any way, the command sees the end of its input and the kernel frees the
lock, so a stale lock cannot exist. The file's content says who holds it. ``/run/kpro/busy`` is held shared by every
changing command; a new run gets it exclusively once, and so waits for a command that outlived its controller.
"""

from __future__ import annotations

import getpass
import json
import os
import shlex
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from provision.host import transport
from provision.run.errors import Locked, RunError

FOLDER = "/run/kpro"
BUSY_SECONDS = 3600
"""How long a new run waits for a command of an earlier run: an engine build can take most of this."""

_HOLD = f"""
umask 077; mkdir -p {FOLDER} || exit 1
exec 8>>{FOLDER}/lock
if ! flock -n 8; then printf 'locked %s\\n' "$(cat {FOLDER}/lock)"; exit 75; fi
printf '%s\\n' {{owner}} >{FOLDER}/lock
echo held
exec cat >/dev/null
"""

LOOK_SECONDS = 5
PROGRESS = f"{FOLDER}/progress"
"""The last line of progress of a long command (provision.hub.machine writes it): whoever waits for it can tell."""
_WAIT = f"exec 9>>{FOLDER}/busy; flock -w {LOOK_SECONDS} -x 9 || {{ cat {PROGRESS} 2>/dev/null; exit 75; }}"
# The holder is the one process that has the lock's file open; it does nothing but hold it.
_END = f"""
for fd in /proc/[0-9]*/fd/8; do
  [ "$(readlink "$fd" 2>/dev/null)" != {FOLDER}/lock ] || {{ pid=${{fd#/proc/}}; kill "${{pid%%/*}}" 2>/dev/null; }}
done
for n in 1 2 3 4 5 6 7 8 9 10; do flock -n {FOLDER}/lock true && exit 0; sleep 0.2; done
exit 1
"""
_TRY = f"exec 9>>{FOLDER}/busy; flock -n -x 9"


@dataclass(frozen=True)
class Owner:
    """Who holds a machine, as the lock file says it. ``place``: the boot and the process namespace that its pid means
    something in; empty where the controller's system does not tell."""

    run: str
    owner: str
    pid: int
    reason: str
    since: str
    place: str = ""

    @classmethod
    def here(cls, run: str, reason: str) -> Owner:
        name = f"{getpass.getuser()}@{socket.gethostname()}"
        since = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(run, name, os.getpid(), reason, since, _place())

    def line(self) -> str:
        return json.dumps(asdict(self))


def _place() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def describe(line: str) -> str:
    """The sentence about an owner, from the content of the lock file."""
    try:
        owner = json.loads(line)
        since = datetime.fromisoformat(owner["since"])
        age = int((datetime.now(UTC) - since).total_seconds())
        return f"{owner['owner']} (pid {owner['pid']}, run {owner['run']}: {owner['reason']}), for {age} s"
    except (ValueError, KeyError, TypeError):
        return "a run that has not said its name yet"


class MachineLock:
    """The lock of one machine, held while this object lives and the controller does."""

    def __init__(self, held: transport.Held) -> None:
        self._held = held

    @property
    def alive(self) -> bool:
        return self._held.alive

    def release(self) -> None:
        self._held.release()


def _ends(host: Any, say: Callable[[str], None]) -> bool:
    """Waits for the command of an earlier run, and repeats what it says of itself: while that changes, however long."""
    until, last = time.monotonic() + BUSY_SECONDS, ""
    while time.monotonic() < until:
        done = transport.run(host, _WAIT)
        if done.ok:
            return True
        if done.rc != 75:
            return False
        line = done.text.strip()
        if line and line != last:
            say(f"{host.name}: {line}")
            until, last = time.monotonic() + BUSY_SECONDS, line
    return False


def _is_dead(line: str, here: Owner) -> bool:
    """Was it taken from this very controller, by a process that is no more, or by this one over a broken connection?"""
    try:
        owner = json.loads(line)
        pid = int(owner["pid"])
        if not here.place or (owner["owner"], owner["place"]) != (here.owner, here.place):
            return False
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (ValueError, KeyError, TypeError, OSError):
        return False
    return pid == os.getpid()


def take(host: Any, owner: Owner, say: Callable[[str], None], *, again: bool = True) -> MachineLock:
    """Takes the machine, then waits for what an earlier run left running there.

    Raises Locked when another run holds it (with the owner's name), or when a left-over command does not end within
    BUSY_SECONDS; RunError when the lock cannot be taken at all.
    """
    held = transport.hold(host, _HOLD.format(owner=shlex.quote(owner.line())), timeout=60)
    said = (held.first_line or b"").decode(errors="replace")
    if said.startswith("locked"):
        held.release()
        owner_line = said.removeprefix("locked").strip()
        if again and _is_dead(owner_line, owner):
            # Its connection broke in the middle: the machine's sshd may keep the other end for hours.
            say(f"{host.name}: {describe(owner_line)} has ended on this controller; its lock is taken over")
            transport.run(host, _END, timeout=60)
            return take(host, owner, say, again=False)
        raise Locked(f"{host.name} is locked by {describe(owner_line)}. Wait for it to end, then run again")
    if said != "held":
        why = held.exited.error_text if held.exited else said
        raise RunError(f"{host.name}: the lock {FOLDER}/lock could not be taken: {why}")
    if not transport.run(host, _TRY).ok:
        say(f"{host.name}: a command of an earlier run still works there; waiting for it to end")
        started = time.monotonic()
        if not _ends(host, say):
            held.release()
            raise Locked(
                f"{host.name}: a command of an earlier run still works after {time.monotonic() - started:.0f} s. "
                f"Look at it with: fuser -v {FOLDER}/busy"
            )
        say(f"{host.name}: it ended after {time.monotonic() - started:.0f} s")
    return MachineLock(held)
