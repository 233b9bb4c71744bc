"""How a machine is reached, as an operator writes it. Pure."""

from __future__ import annotations

import re

from pydantic import ValidationError

from provision.forms import Port, SshHost
from provision.spec_base import Spec


class Ssh(Spec):
    """How the machine is reached. ``host`` may be an alias of the operator's ssh_config."""

    host: SshHost
    port: Port | None = None
    user: str | None = None
    key: str | None = None
    known_hosts: str | None = None


def machine_name(host: str) -> str:
    """The name of a machine that no inventory describes, from its host's."""
    return re.sub(r"[^a-z0-9-]+", "-", host.lower()).strip("-") or "host"


_WORD = re.compile(
    r"(?:(?P<user>[\w.-]+)@)?(?P<host>[\w.-]+|\[[0-9a-fA-F:]+\]|[0-9a-fA-F]*:[0-9a-fA-F:.]*:[0-9a-fA-F:.]*)"
    r"(?::(?P<port>[0-9]{1,5}))?"
)


def ssh_of(text: str) -> Ssh | None:
    """``[user@]host[:port]``, an IPv6 address with a port in brackets; None when it is none."""
    match = None if text.startswith("-") else _WORD.fullmatch(text)
    if match is None:
        return None
    port = int(match["port"]) if match["port"] else None
    try:
        return Ssh(host=match["host"].strip("[]"), user=match["user"], port=port)
    except ValidationError:
        return None
