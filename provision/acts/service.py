"""Acts and proofs of steps 9 and 10: the cut-over, and whether the service really generates."""

from __future__ import annotations

import shlex

from pyinfra.api.host import Host

from provision.acts import shell
from provision.acts.voice import Voice
from provision.data import engines
from provision.host import transport
from provision.stack.cutover import Cutover
from provision.stack.desired import PYTHON, PYZ, DesiredService
from provision.templates import render


def cutover(host: Host, asked: Cutover, say: Voice) -> None:
    """Puts the staged service in place. Raises ActFailed when it does not generate; then the last good one is back."""
    desired = asked.desired
    script = render(
        "cutover.sh.j2",
        unit=desired.service.unit,
        name=desired.name,
        digest=desired.digest,
        generate=shlex.join([PYTHON, PYZ, "_generate"]),
        url=shlex.quote(desired.url),
        environment=shlex.quote(desired.engine.path),
        key_path=shlex.quote(desired.key_path),
        key_variable=engines.kind_of(desired.service.engine.kind).key_variable or "KPRO_NO_KEY",
        ready_seconds=desired.service.ready_seconds,
    )
    say(f"{desired.service.unit}: waiting for its first tokens (at most {desired.service.ready_seconds} s)")
    shell.run(host, "sh -s", f"putting {desired.service.unit} into service", stdin=script.encode())


def prove(host: Host, desired: DesiredService) -> transport.Completed:
    """One try to have a token generated; changes nothing."""
    key = ["--api-key-file", desired.key_path] if desired.key is not None else []
    words = [PYTHON, PYZ, "_generate", desired.url, "--model", desired.name, *key, "--once"]
    return transport.run(host, shlex.join(words), timeout=120)
