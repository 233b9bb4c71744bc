"""The proof of step 10: whether the service really generates."""

from __future__ import annotations

from pyinfra.api.host import Host

from provision.acts import running
from provision.host import transport
from provision.stack.desired import DesiredService


def prove(host: Host, desired: DesiredService) -> transport.Completed:
    """One try to have a token generated; changes nothing."""
    return transport.run(
        host, running.asked(desired, "_generate", ["--model", desired.name, "--once"]), timeout=120
    )
