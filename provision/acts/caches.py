"""Compile caches that no profile refers to any more, after a cut-over that went well."""

from __future__ import annotations

from pyinfra.api.host import Host

from provision.acts.voice import Voice
from provision.host import transport
from provision.templates import render


def clean(host: Host, say: Voice) -> None:
    """Removes them and says so. What is in the way is said too, and fails nothing: the service generates."""
    try:
        done = transport.run(host, "sh -s", stdin=render("caches.sh.j2").encode(), timeout=300)
    except OSError as error:
        say(f"{host.name}: compile caches were not looked at: {error}")
        return
    removed = [line.split()[1] for line in done.text.splitlines() if line.startswith("removed ")]
    if removed:
        say(f"{host.name}: compile caches of earlier profiles are removed: {', '.join(removed)}")
    if not done.ok:
        say(f"{host.name}: {done.error_text.strip() or 'compile caches were not looked at'}")
