"""Whether the names of machines can be resolved from here, as OpenSSH would, within a bounded time."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator

from provision.spec import Machine, Ssh

SECONDS = 10.0
"""For all names together; a resolver that is silent for longer would stop the deploy at its first connection
as well."""


def unresolvable(machines: Iterable[Machine], seconds: float = SECONDS) -> Iterator[tuple[Machine, str]]:
    """The machines whose ssh host leads nowhere, with what was tried. All names are asked at once."""
    asked: list[tuple[Machine, list[str | None], threading.Thread]] = []
    for machine in machines:
        if machine.ssh is not None:
            answer: list[str | None] = []
            thread = threading.Thread(target=_ask, args=(machine.ssh, answer, seconds), daemon=True)
            thread.start()
            asked.append((machine, answer, thread))
    until = time.monotonic() + seconds
    for machine, answer, thread in asked:
        thread.join(max(0.0, until - time.monotonic()))
        host = machine.ssh.host if machine.ssh else ""
        text = (
            answer[0] if answer else f"{host!r} was not resolved within {seconds:g} s: is the resolver well?"
        )
        if text:
            yield machine, text


def _ask(ssh: Ssh, answer: list[str | None], seconds: float) -> None:
    answer.append(why_not(ssh, seconds))


def why_not(ssh: Ssh, seconds: float) -> str | None:
    """None when the host can be reached by name: it resolves here, or a jump host or proxy command resolves
    it elsewhere. Else what was seen and what to do."""
    options = _ssh_options(ssh.host, seconds)
    if any(options.get(name, "none") != "none" for name in ("proxyjump", "proxycommand")):
        return None
    name = options.get("hostname", ssh.host)
    try:
        socket.getaddrinfo(name, ssh.port or 22, type=socket.SOCK_STREAM)
    except OSError as error:
        alias = f" (which ssh_config makes {name!r})" if name != ssh.host else ""
        return (
            f"{ssh.host!r}{alias} cannot be resolved from here: {error.strerror or error}; "
            "check the name, or give it a HostName or ProxyJump in ~/.ssh/config"
        )
    except UnicodeError:
        return f"{name!r} is no host name"
    return None


def _ssh_options(host: str, seconds: float) -> dict[str, str]:
    """What ``ssh -G`` says for a host; nothing where there is no ssh program or it fails."""
    program = shutil.which("ssh")
    if program is None:
        return {}
    try:
        done = subprocess.run(
            [program, "-G", "--", host],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    pairs = (line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    return {key.lower(): value.strip() for key, value in pairs} if done.returncode == 0 else {}
