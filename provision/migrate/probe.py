"""provcheck in the guest of either end, brought for the migration alone, and asked of the service as it runs there.

The source may be a host that kpro never set up, or one with an older provcheck; what it has is not touched.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from checks import pack
from provision.adopt import words as adopted
from provision.data.engines import KEY_VARIABLES
from provision.host.transport import Completed
from provision.listening import url
from provision.run.errors import ActFailed
from provision.spec import Service

PYTHON = "/usr/bin/python3"


class InGuest(Protocol):
    """The part of a side of the migration that is needed here."""

    @property
    def name(self) -> str: ...

    @property
    def service(self) -> Service: ...

    def inside(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed: ...


def inside(side: InGuest, script: str, what: str, timeout: float = 60) -> Completed:
    """A script in the guest that must succeed. Raises ActFailed, also where the guest is not reached."""
    try:
        done = side.inside(script, timeout=timeout)
    except OSError as error:
        raise ActFailed(f"{side.name}: {what}: {error}") from error
    if not done.ok:
        raise ActFailed(f"{side.name}: {what} ended with {done.rc}: {done.error_text or done.text.strip()}")
    return done


def folder(run: str) -> str:
    """On both machines and in both guests; /run is gone after a boot."""
    return f"/run/kpro-migrate/{run}"


def path(run: str) -> str:
    return f"{folder(run)}/provcheck.pyz"


@cache
def _pyz() -> tuple[bytes, str]:
    data = Path(pack.cached()).read_bytes()
    return data, sha256(data).hexdigest()


_THERE = "printf '%s  %s\\n' {digest} {file} | sha256sum --check --status 2>/dev/null"

_PUT = """
umask 077
install -d -m 700 {folder} && t=$(mktemp {folder}/.kpro-put.XXXXXX) && cat >"$t" &&
  printf '%s  %s\\n' {digest} "$t" | sha256sum --check --status && mv -fT -- "$t" {file} || exit 1
{python} -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {{
  echo "its Python is $({python} --version 2>&1), and 3.10 is needed" >&2; exit 1; }}
"""


def bring(side: InGuest, run: str) -> None:
    """Puts it there, or sees that it is there. Raises ActFailed."""
    data, digest = _pyz()
    words = {
        "folder": shlex.quote(folder(run)),
        "file": shlex.quote(path(run)),
        "digest": digest,
        "python": PYTHON,
    }
    try:
        if side.inside(_THERE.format(**words), timeout=60).ok:
            return
        done = side.inside(_PUT.format(**words), stdin=data, timeout=300)
    except OSError as error:
        raise ActFailed(f"{side.name}: provcheck could not be brought into the guest: {error}") from error
    if not done.ok:
        said = done.error_text or f"exit {done.rc}"
        raise ActFailed(f"{side.name}: provcheck could not be brought into the guest: {said}")


_ASK = r"""
set -u
unit={unit}
pids=$(systemctl show -p MainPID --value "$unit" 2>/dev/null)
group=$(systemctl show -p ControlGroup --value "$unit" 2>/dev/null)
[ -z "$group" ] || pids="$pids $(cat "/sys/fs/cgroup$group/cgroup.procs" 2>/dev/null)"
# Through pipes alone: no file, no argument and no variable ever holds it.
key() {{
  for pid in $pids; do
    [ "$pid" = 0 ] && continue
    tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | sed -n 's/^\({keys}\)=\(..*\)$/\2/p'
    tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | sed -n '/^--api-key$/{{n;p;}};s/^--api-key=//p'
  done | head -n 1
}}
url=$(cat {good} 2>/dev/null)
url=${{url:-{url}}}
ask() {{ {ask} "$url" {words} "$@"; }}
if [ -n "$(key)" ]; then key | ask --api-key-file /dev/stdin; else ask </dev/null; fi
"""


def asked(service: Service, run: str, command: str, words: Sequence[str]) -> str:
    """A script for the guest: ``provcheck COMMAND ADDRESS WORDS`` at what the service's unit runs now, with the key of
    its own process; its exit code. ``command`` may be several words."""
    return _ASK.format(
        unit=shlex.quote(service.unit),
        keys=r"\|".join(KEY_VARIABLES),
        good=shlex.quote(f"/var/lib/kpro/good/{service.name}.url" if service.found is None else "/dev/null"),
        url=shlex.quote(address(service)),
        ask=shlex.join([PYTHON, path(run), *command.split()]),
        words=shlex.join(words),
    )


def address(service: Service) -> str:
    """Where the service answers in its own guest."""
    return url(service.listen, service.port)


def served(service: Service) -> str:
    """The name that the service's model is asked by."""
    if service.found is None:
        return service.name
    started = adopted.started(service.found.command)
    return (started.served or started.model) if started is not None else service.model.repo
