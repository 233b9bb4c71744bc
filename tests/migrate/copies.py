"""The two ends of a copy on the pair's hosts, past kpro's connections, and the data that is copied."""

from __future__ import annotations

import re
import secrets
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from provision.host.transport import CommandTimeout, Completed, TransportError
from provision.migrate.copy import Copy, CopySettings, Folder, copying
from provision.migrate.copy.key import folder
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


def until(run: Copy, share: float) -> int:
    """Bytes that are there as soon as it is this share of all."""
    for _ in range(600):
        now = run.progress()
        assert now.state == "copying", now
        if now.bytes_done >= share * now.bytes_total:
            return now.bytes_done
        time.sleep(0.1)
    raise AssertionError("it does not go on")


def arrived(host: Host, run: Copy) -> int:
    """Bytes that lie in the staging folder."""
    staging = run.parts[0].target.staging(run.run)
    return sum(map(int, host.sh(f"find {staging} -type f -printf '%s\\n'").split()))


def literal(host: Host, run: str) -> int:
    """Bytes of files that the last try sent, as rsync counts them."""
    text = host.sh(f"cat {folder(run)}/*.out")
    return sum(int(found) for found in re.findall(r"Literal data: (\d+)", text))


def left(pair: Pair, run: str) -> list[str]:
    """What is still there of a run on both hosts."""
    look = (
        f"ls -d /run/kpro-migrate/* /srv/models/.incoming/* /var/lib/kpro/migrations/{run}* 2>/dev/null; "
        f"grep -l kpro-migrate /root/.ssh/authorized_keys; "
        f"systemctl list-units --all --no-legend 'kpro-migrate-*' | cat; pgrep -a rsync; true"
    )
    return [f"{host.name}: {line}" for host in (pair.a, pair.b) for line in host.sh(look).splitlines()]


@pytest.fixture
def hosts(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    """The pair with nothing of a copy on it, before and after; a copy is looked at more often than on real hosts."""
    monkeypatch.setattr(copying, "EVERY", 0.2)
    yield pair
    for host in (pair.a, pair.b):
        host.mend()
        host.sh(
            "mountpoint -q /srv/models && umount -l /srv/models; rm -rf /srv/models/* /srv/models/.incoming"
        )
        host.sh("rm -rf /srv/outside /var/lib/kpro/migrations /run/kpro-migrate; rm -f /root/plain*")
        host.sh("sed -i '/kpro-migrate\\|plain$/d' /root/.ssh/authorized_keys")


def flip(path: str, offset: int) -> str:
    """Shell that turns over the byte at ``offset`` of a file, so that it differs whatever was there."""
    byte = f"$((255 - $(od -An -tu1 -j{offset} -N1 {path})))"
    return rf'printf "\\$(printf %03o {byte})" | dd of={path} bs=1 seek={offset} conv=notrunc status=none'
