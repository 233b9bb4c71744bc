"""The way into a container, as shell text for its machine, and what came back, as a value. Pure.

One command looks at the container's state and, only when it runs, goes inside. When it does not, a line on
standard error that nothing inside can forge (it holds a nonce) says why.

States of a container: ``man lxc-info`` and ``lxc/src/lxc/state.c`` (RUNNING, STOPPED, STARTING, STOPPING,
ABORTING, FREEZING, FROZEN, THAWED); ``pct status``: ``status: running|stopped``, and exit 2 with
"Configuration file 'nodes/NODE/lxc/ID.conf' does not exist" from PVE::AbstractConfig when there is none.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from enum import Enum
from typing import Literal

Backend = Literal["lxc", "pct"]

NOT_ENTERED = 113
"""Exit status of the wrapper when nothing ran inside; counts only together with its line."""

BUSY_FILE = "/run/kpro/busy"

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
}
"""All that a command inside inherits."""


class GuestState(Enum):
    ABSENT = "absent"
    STOPPED = "stopped"
    RUNNING = "running"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Seen:
    """A container's state, and what was seen that tells so."""

    state: GuestState
    text: str


_MARK = "kpro-guest"

_HEAD = """\
cd /; PATH="$PATH:/usr/sbin:/sbin"
say() {{ printf '{mark}:{nonce}:%s:%s\\n' "$1" "$(printf %s "$2" | tr '\\n' ' ')" >&2; exit {rc}; }}
"""

# Absent is said only on ENOENT: a folder that cannot be looked into proves nothing.
_LXC = """\
if command -v lxc-info >/dev/null; then
  d=$(lxc-config lxc.lxcpath 2>&1) || say unknown "lxc-config fails: $d"
else
  d=/var/lib/lxc
fi
c="$d/"{name}/config
if ! e=$(LC_ALL=C ls -d -- "$c" 2>&1); then
  case $e in *'No such file or directory'*) say absent "there is no $c" ;; *) say unknown "$e" ;; esac
fi
command -v lxc-info >/dev/null || say unknown "$c exists, but LXC is not installed"
s=$(LC_ALL=C timeout 30 lxc-info -n {name} -s -H 2>&1) || say unknown "lxc-info fails (exit $?): $s"
case $s in
  RUNNING) ;;
  STOPPED) say stopped "lxc-info says STOPPED" ;;
  *) say unknown "lxc-info says $s" ;;
esac
"""

_PCT = """\
command -v pct >/dev/null || say unknown "pct is not installed: this is no Proxmox VE host"
s=$(LC_ALL=C timeout 60 pct status {name} 2>&1); r=$?
case "$r:$s" in
  0:*) s=$(printf '%s\\n' "$s" | sed -n 's/^status: //p') ;;
  2:*"Configuration file 'nodes/"*"/lxc/"{name}".conf' does not exist"*) say absent "$s" ;;
  *) say unknown "pct status fails (exit $r): $s" ;;
esac
case $s in
  running) ;;
  stopped) say stopped "pct status says stopped" ;;
  *) say unknown "pct status says '$s'" ;;
esac
"""

_LOCK = """\
mkdir -p {folder} && exec 9>>{file} || {{ echo "{file} cannot be opened" >&2; exit 1; }}
flock -s -w 600 9 || {{ echo "{file} is held exclusively by another run for more than 600 s" >&2; exit 1; }}
"""


def probe_script(backend: Backend, ident: str, nonce: str) -> str:
    """Only look. Exits 0 with no output when the container runs; read_answer tells the rest."""
    return _head(backend, ident, nonce)


def enter_script(backend: Backend, ident: str, command: str, nonce: str, *, busy: bool) -> str:
    """Look, and run ``sh -c command`` inside when the container runs.

    With ``busy`` the wrapper holds a shared lock on BUSY_FILE until the command ended, so that a later run
    can wait for a command that outlived its controller. The lock's descriptor is closed for the command
    itself: a service that it starts must not keep the lock.
    """
    shell = f"/bin/sh -c {shlex.quote(command)}"
    if backend == "lxc":
        sets = " ".join(f"-v {shlex.quote(f'{key}={value}')}" for key, value in ENVIRONMENT.items())
        attach = f"lxc-attach -n {shlex.quote(ident)} --clear-env {sets} -- {shell}"
    else:
        sets = " ".join(shlex.quote(f"{key}={value}") for key, value in ENVIRONMENT.items())
        attach = f"pct exec {shlex.quote(ident)} -- /usr/bin/env -i {sets} {shell}"
    head = _head(backend, ident, nonce)
    if not busy:
        return f"{head}exec {attach}\n"
    lock = _LOCK.format(folder=BUSY_FILE.rpartition("/")[0], file=BUSY_FILE)
    return f"{head}{lock}{attach} 9>&-\nexit $?\n"


def read_answer(nonce: str, rc: int, stderr: bytes) -> Seen | None:
    """Why nothing ran inside; None when the command did run."""
    if rc != NOT_ENTERED:
        return None
    found = re.search(
        rf"^{_MARK}:{nonce}:(absent|stopped|unknown):(.*)$", stderr.decode("utf-8", "replace"), re.M
    )
    return Seen(GuestState(found[1]), found[2].strip()) if found else None


def _head(backend: Backend, ident: str, nonce: str) -> str:
    look = _LXC if backend == "lxc" else _PCT
    return _HEAD.format(mark=_MARK, nonce=nonce, rc=NOT_ENTERED) + look.format(name=shlex.quote(ident))
