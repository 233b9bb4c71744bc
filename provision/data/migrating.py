"""What two machines must have and agree on before a service moves from one to the other."""

from __future__ import annotations

import re
from dataclasses import dataclass

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True)
class Limit:
    """A figure with its unit, why it is that one, and where that is from."""

    name: str
    value: float
    unit: str
    why: str
    source: str


LIMITS = (
    Limit(
        "skew",
        5.0,
        "s",
        "keys with an expiry, certificates and the order of two journals are judged by each machine's own clock",
        "sshd(8), expiry-time in authorized_keys; X.509 notBefore (RFC 5280, 4.1.2.5)",
    ),
    Limit(
        "headroom",
        2 * GIB,
        "bytes",
        "a file system that is full to the last block fails whatever else writes to it",
        "ext4 keeps 5 % for root alone by default (mke2fs(8), -m); an engine's log and a baseline need little",
    ),
    Limit(
        "inodes",
        1000,
        "inodes",
        "folders, partial files and what else is made beside the files that are copied",
        "rsync(1), --partial-dir: one folder for each folder with a file under way",
    ),
    Limit(
        "state",
        64 * MIB,
        "bytes",
        "journals and state files of a migration are written here, and a step that cannot be written is not done",
        "provision/run/host_journal.py: a few hundred bytes for each event",
    ),
)


def limit(name: str) -> float:
    """Raises KeyError for a limit without a row."""
    return {row.name: row.value for row in LIMITS}[name]


CIPHER = "aes128-gcm@openssh.com"
"""Of what sshd takes the fastest where the processor has AES (measured: 276 MiB/s, chacha20 185, one stream)."""

LEAST_RSYNC = (3, 2, 0)
"""An interrupted file goes on in place from this version on, on both sides (rsync NEWS, 3.2.0)."""


@dataclass(frozen=True)
class BrokenRsync:
    """Versions of rsync that fail at what a copy does: ``named`` for people. ``upstream``: released ones; ``packaged``:
    expressions that match a distribution's revision with the same fault. ``receiver``: only who receives is hit."""

    named: str
    upstream: tuple[str, ...]
    packaged: tuple[str, ...]
    receiver: bool
    refuse: bool
    text: str
    source: str

    def hits(self, version: str, package: str | None, *, receives: bool = True) -> bool:
        """Has a machine with this rsync the fault, in its part of a copy?"""
        if self.receiver and not receives:
            return False
        if package is not None and any(re.search(one, package) for one in self.packaged):
            return True
        return version in self.upstream and (package is None or not _patched(package))


def _patched(package: str) -> bool:
    """A distribution's later revision of a release may have the fault mended; one of the first upload has not."""
    return re.search(r"-\d+ubuntu\d+\.\d|\+deb\d+u\d", package) is not None


BROKEN = (
    BrokenRsync(
        "3.4.0; Debian 3.2.7-1+deb12u1 and 3.2.3-4+deb11u2; Ubuntu 3.2.7-1ubuntu1.1",
        ("3.4.0",),
        (r"^3\.2\.7-1\+deb12u1$", r"^3\.2\.7-1ubuntu1\.1$", r"^3\.2\.3-4\+deb11u2$"),
        receiver=False,
        refuse=True,
        text="it ends with 'Internal hashtable error' where hard links are kept (-H)",
        source="RsyncProject/rsync#697 and #702: a fix of January 2025, mended in 3.4.1 and the next revisions",
    ),
    BrokenRsync(
        "3.4.1; Debian 3.2.7-1+deb12u2 to u6 and 3.4.1+ds1; Ubuntu 3.2.7-1ubuntu1.2 and later",
        ("3.4.1",),
        (r"^3\.2\.7-1\+deb12u[2-6]$", r"^3\.2\.7-1ubuntu1\.[2-9]$", r"^3\.4\.1\+ds1-\d"),
        receiver=True,
        refuse=False,
        text="an interrupted file in an absolute --partial-dir fails its verification; kpro writes in place",
        source="RsyncProject/rsync#715; measured with 3.2.7-1+deb12u6: with an absolute folder it ends with code 23",
    ),
)

CONFINED_RSYNC = (3, 5, 0)
"""Before it, whoever holds the key could lead rrsync out of its folder (CVE-2026-53783)."""


def version_of(text: str) -> tuple[int, ...]:
    """``3.2.7`` as numbers; what is no number ends it. Empty for what begins with none."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
