"""The journal that lies on the machine itself, for whoever debugs without the controller."""

from __future__ import annotations

from pyinfra.api.host import Host

from provision.host import transport
from provision.run.errors import RunError

FOLDER = "/var/lib/kpro/journal"

_APPEND = f"""
umask 077; mkdir -p {FOLDER} && cat >>{FOLDER}/{{run}}.jsonl && sync {FOLDER}/{{run}}.jsonl
"""


def append(host: Host, run: str, line: str) -> None:
    """Appends one event to the machine's journal, on disk when this returns. Raises RunError."""
    done = transport.run(host, _APPEND.format(run=run), stdin=(line + "\n").encode(), timeout=60)
    if not done.ok:
        raise RunError(f"{host.name}: the journal in {FOLDER} cannot be written: {done.error_text}")
