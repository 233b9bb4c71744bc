"""How a machine is reached, as an operator writes it. Pure."""

from __future__ import annotations

from provision.forms import Port, SshHost
from provision.spec_base import Spec


class Ssh(Spec):
    """How the machine is reached. ``host`` may be an alias of the operator's ssh_config."""

    host: SshHost
    port: Port | None = None
    user: str | None = None
    key: str | None = None
    known_hosts: str | None = None
