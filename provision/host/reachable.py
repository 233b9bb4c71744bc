"""Where pyinfra would connect to for a machine's SSH server, and whether that server is heard through other hosts."""

from __future__ import annotations

import contextlib
import os
import select
from dataclasses import dataclass
from typing import Any

from paramiko import SSHException
from pyinfra.api.exceptions import PyinfraError
from pyinfra.connectors.sshuserclient.client import SSHClient, get_ssh_config

from provision.spec import Ssh


@dataclass(frozen=True)
class Door:
    """``host`` and ``port`` of the SSH server. ``through``: the hosts or the program between; empty: none."""

    host: str
    port: int
    through: str = ""


def door(ssh: Ssh) -> Door:
    """By ~/.ssh/config, which is what pyinfra reads (HostName, Port, ProxyJump, ProxyCommand). Raises OSError and
    ValueError for a file that cannot be read."""
    config = get_ssh_config()
    said = config.lookup(ssh.host) if config else {}
    through = said.get("proxycommand") or said.get("proxyjump") or ""
    return Door(
        said.get("hostname", ssh.host),
        ssh.port or int(said.get("port", 22)),
        "" if through == "none" else through,
    )


def heard(ssh: Ssh, seconds: float) -> str:
    """Empty when an SSH server is heard through the hosts or the program between, else why it is not: the hosts
    between may be what does not answer, so that says nothing of the machine."""
    sock: Any = None
    client: Any = SSHClient()
    try:
        sock = client.parse_config(ssh.host, {"timeout": seconds})[1].get("sock")
        if sock is None:
            return "there is nothing between"
        said = _first(sock, seconds)
        return "" if said else "the connection ended before an SSH server was heard"
    except TimeoutError:
        return f"nothing was heard within {seconds:g} s"
    except (OSError, EOFError, ValueError, SSHException, PyinfraError) as error:
        return str(error) or type(error).__name__
    finally:
        with contextlib.suppress(OSError, EOFError, SSHException):
            if sock is not None:
                _close(sock)


def _first(sock: Any, seconds: float) -> bytes:
    program = getattr(sock, "process", None)
    if program is None:
        # A jump host opens the way only when the machine behind it takes the connection.
        return b"open"
    # paramiko's own recv would ask a program that has ended over and over.
    if not select.select([program.stdout], [], [], seconds)[0]:
        raise TimeoutError
    return os.read(program.stdout.fileno(), 4)


def _close(sock: Any) -> None:
    """paramiko leaves a proxy's program to itself, with its pipes."""
    sock.close()
    program = getattr(sock, "process", None)
    if program is not None:
        program.kill()
        program.wait()
        for pipe in (program.stdin, program.stdout, program.stderr):
            pipe.close()
