"""The two ends of a copy on the pair's hosts, past kpro's connections, and the data that is copied."""

from __future__ import annotations

import secrets
import subprocess
from dataclasses import dataclass

from provision.host.transport import CommandTimeout, Completed, TransportError
from provision.migrate.copy import Copy, CopySettings, Folder
from provision.run.journal import new_run_id
from provision.spec import Guest, Machine, Mount, Service
from tests.migrate.rig import GUEST, Host, Pair

MODEL = Folder("/srv/models/m", "/srv/models/m")


@dataclass(frozen=True)
class End:
    """A host as ``provision.migrate.copy.ends.Side``."""

    at: Host
    machine: Machine
    lost: bool = False

    @property
    def name(self) -> str:
        return self.machine.name

    @property
    def guest(self) -> Guest:
        return self.machine.guests[0]

    @property
    def service(self) -> Service:
        return self.guest.services[0]

    def hold(self) -> None:
        """Nobody else uses the pair."""

    def host(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
        return self._run(stdin, timeout, "/bin/sh", "-c", script)

    def inside(self, script: str, *, stdin: bytes = b"", timeout: float | None = 60) -> Completed:
        words = ("lxc-attach", "-n", GUEST, "--clear-env", "--", "/bin/sh", "-c", script)
        return self._run(stdin, timeout, *words)

    def _run(self, stdin: bytes, timeout: float | None, *words: str) -> Completed:
        if self.lost:
            raise TransportError(f"{self.name}: not reached")
        whole = self.at.net.words("lxc-attach", "-n", self.at.container, "--clear-env", "--", *words)
        try:
            done = subprocess.run(whole, input=stdin, capture_output=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired as error:
            raise CommandTimeout(f"{self.name}: not ended within {timeout} s") from error
        return Completed(done.returncode, done.stdout, done.stderr)


def end(host: Host, *, mounted: bool = True, unprivileged: bool = False) -> End:
    """``mounted``: the guest's models lie on the machine; else in its own root."""
    mounts = (Mount(source="/srv/models", target="/srv/models"),) if mounted else ()
    guest = Guest(name="llm", backend="lxc", id=GUEST, mounts=mounts, unprivileged=unprivileged)
    return End(host, Machine(name=host.name, guests=(guest,)))


def copy(pair: Pair, *folders: Folder, run: str | None = None, **settings: object) -> Copy:
    given = {"address": pair.b.address, **settings}
    return Copy(
        run or new_run_id(),
        end(pair.a),
        end(pair.b),
        folders or (MODEL,),
        CopySettings(**given),  # type: ignore[arg-type]
    )


def random(host: Host, path: str, mib: int) -> None:
    """A file of bytes that no program can shorten: AES in counter mode, as fast as memory."""
    key = secrets.token_hex(16)
    host.sh(
        f"mkdir -p $(dirname {path}); head -c {mib}M /dev/zero | "
        f"openssl enc -aes-128-ctr -K {key} -iv {'0' * 32} > {path}",
        timeout=300,
    )


def quiet(line: str) -> None:
    """Says nothing."""


def left(pair: Pair, run: str) -> list[str]:
    """What is still there of a run on both hosts."""
    look = (
        f"ls -d /run/kpro-migrate/* /srv/models/.incoming/* /var/lib/kpro/migrations/{run}* 2>/dev/null; "
        f"grep -l kpro-migrate /root/.ssh/authorized_keys; "
        f"systemctl list-units --all --no-legend 'kpro-migrate-*' | cat; pgrep -a rsync; true"
    )
    return [f"{host.name}: {line}" for host in (pair.a, pair.b) for line in host.sh(look).splitlines()]
