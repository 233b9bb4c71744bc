"""The proof of step 10: whether the service really generates."""

from __future__ import annotations

import shlex

from pyinfra.api.host import Host

from provision.host import transport
from provision.stack.desired import PYTHON, PYZ, DesiredService


def prove(host: Host, desired: DesiredService) -> transport.Completed:
    """One try to have a token generated; changes nothing."""
    key = ["--api-key-file", desired.key_path] if desired.key is not None else []
    words = [PYTHON, PYZ, "_generate", desired.url, "--model", desired.name, *key, "--once"]
    return transport.run(host, shlex.join(words), timeout=120)
