"""The host key of a machine that is met for the first time: taken and kept, as before, and said in one line with what
an operator compares it by. Where the inventory names ``known_hosts``, or ssh_config says ``StrictHostKeyChecking yes``,
no such key is taken."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paramiko import PKey, SSHException
from pyinfra.connectors.sshuserclient.client import AcceptNewPolicy, append_hostkey, get_ssh_config

from provision.printable import say_on_stderr
from provision.spec_ssh import Ssh


def fingerprint(key: PKey) -> str:
    """As ``ssh-keygen -lf`` shows it, with the kind before it: ``ED25519 SHA256:…``."""
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    return f"{kind(key)} SHA256:{digest}"


def kind(key: PKey) -> str:
    """The key's type in the words of ssh-keygen."""
    words = key.get_name().removeprefix("ssh-").removeprefix("sk-ssh-").upper()
    return "ECDSA" if words.startswith("ECDSA") else words.partition("-")[0].partition("@")[0]


def strict(ssh: Ssh) -> bool:
    """Does the operator's ssh_config say that no new key is taken from this host? An Ssh with ``known_hosts`` is strict
    by itself."""
    config = get_ssh_config()
    return config is not None and config.lookup(ssh.host).get("stricthostkeychecking", "").lower() == "yes"


def tell(say: Callable[[str], None] = say_on_stderr) -> None:
    """From now on each key that is taken is told once, and kept in a file that is made where there is none."""

    def missing_host_key(self: AcceptNewPolicy, client: Any, hostname: str, key: PKey) -> None:
        file = _made(client._host_keys_filename)
        append_hostkey(client, hostname, key)  # type: ignore[no-untyped-call]
        # pyinfra reads the file once in a process; without this every further connection would meet it anew.
        client._host_keys.add(hostname, key.get_name(), key)
        say(
            f"{hostname}: its host key was not known, and is taken and kept in {file}: {fingerprint(key)}. Compare it "
            f"on the machine: ssh-keygen -lf /etc/ssh/ssh_host_{kind(key).lower()}_key.pub"
        )

    AcceptNewPolicy.missing_host_key = missing_host_key  # type: ignore[method-assign]


def _made(name: str) -> Path:
    """Raises SSHException where the key could not be kept: then it is not taken either."""
    file = Path(name)
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
    except OSError as error:
        raise SSHException(f"its host key cannot be kept in {file}: {error.strerror}") from error
    return file
