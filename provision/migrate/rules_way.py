"""What speaks against the way of a copy: rsync on both ends, the target's SSH server, the net between them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from provision.data.migrating import BROKEN, CIPHER, LEAST_RSYNC, version_of
from provision.migrate.case import Case, Rule, sure
from provision.migrate.ends import End
from provision.migrate.seen import Rsync
from provision.plan import Refusal


def _rsync(case: Case) -> Iterator[Refusal]:
    for end, seen in case.ends:
        if case.pair.cold:
            return
        found = sure(seen.rsync)
        if found is None:
            yield Refusal(
                f"machine {end.name}",
                "has no rsync",
                "files are copied from machine to machine by it, on both ends",
                "install it there: apt-get install rsync",
            )
            continue
        yield from _old(end, found)


def _old(end: End, found: Rsync) -> Iterator[Refusal]:
    newer = "install a newer one there: apt-get install rsync (bookworm-security has 3.5.0)"
    called = found.package or found.version
    if version_of(found.version) < LEAST_RSYNC:
        least = ".".join(map(str, LEAST_RSYNC))
        yield Refusal(
            f"machine {end.name}",
            f"rsync {called} is older than {least}",
            "an interrupted file would begin again instead of going on",
            newer,
        )
    for row in BROKEN:
        if row.refuse and row.hits(found.version, found.package, receives=end.role == "target"):
            yield Refusal(
                f"machine {end.name}", f"rsync {called} is known to fail", f"{row.text} ({row.source})", newer
            )


def _rrsync(case: Case) -> Iterator[Refusal]:
    if case.pair.cold:
        return
    found = sure(case.target.machine.rrsync)
    name = case.pair.target.name
    if found is None:
        yield Refusal(
            f"machine {name}",
            "has no rrsync",
            "it holds the one-off key of the copy to one folder; without it the key could write anywhere",
            "it comes with rsync 3.2.7 and newer: apt-get install rsync",
        )
    elif found.python and not sure(case.target.machine.python3):
        yield Refusal(
            f"machine {name}",
            f"{found.path} is a Python program, and there is no python3",
            "the copy's key could not be held to one folder",
            "install it there: apt-get install python3-minimal",
        )


def _sshd(case: Case) -> Iterator[Refusal]:
    if case.pair.cold:
        return
    where, seen = f"machine {case.pair.target.name}", case.target.machine
    found = sure(seen.sshd)
    if found is None:
        yield Refusal(
            where,
            "has no SSH server",
            "the source writes to it over SSH",
            "install one there: apt-get install openssh-server",
        )
        return
    if found.root_login == "no":
        yield Refusal(
            where,
            "its sshd lets root in by nothing (PermitRootLogin no)",
            "the files of a service belong to several users, so root writes them",
            "allow it for forced commands: PermitRootLogin forced-commands-only",
        )
    if not found.keys_allowed:
        yield Refusal(
            where,
            "its sshd takes no keys (PubkeyAuthentication no)",
            "the copy comes with a key of its own",
            "allow keys there, at least for root",
        )
    if CIPHER not in found.ciphers:
        yield Refusal(
            where,
            f"its sshd does not offer the cipher {CIPHER}",
            "the copy asks for it alone, and the connection would not come up",
            f"add it to Ciphers there (it offers {', '.join(found.ciphers)[:200]})",
        )
    if not any(one.port in found.ports for one in sure(seen.listening)):
        yield Refusal(
            where,
            f"nothing listens on the port of its sshd ({', '.join(map(str, found.ports))})",
            "the source could not connect",
            "start it there: systemctl start ssh",
        )


def _reach(case: Case) -> Iterator[Refusal]:
    reach, source, target = case.pair.reach, case.pair.source, case.pair.target
    if reach is not None and reach.route is None and not case.pair.cold:
        yield Refusal(
            f"machine {source.name}",
            f"cannot reach the SSH server of {target.name}: {reach.why}",
            "model files go from machine to machine",
            f"open port {case.pair.port} from {source.name} to {target.name}, say the address that it is reached by "
            "(CopySettings(address=…)), or copy through the controller (through_controller=True)",
        )


RULES = (
    Rule(
        "rsync",
        "rsync is missing, too old, or of a version that is known to fail",
        _rsync,
        "provision/data/migrating.py",
    ),
    Rule("rrsync", "the target has no rrsync, or no Python for it", _rrsync),
    Rule("sshd", "the target's SSH server is missing or lets no such key in", _sshd, "sshd_config(5)"),
    Rule("reach", "the source cannot reach the target's SSH server by any way", _reach),
)
