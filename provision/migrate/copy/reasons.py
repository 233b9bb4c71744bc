"""Why a copy stopped: what rsync and ssh say, what it means, and whether trying again can help. Pure.

The words are rsync's (errcode.h, receiver.c, main.c), OpenSSH's (sshconnect.c, packet.c) and strerror's, all in the
C locale.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """``pattern``: an extended regular expression of grep and of Python. ``again``: a later try may succeed."""

    pattern: str
    again: bool
    why: str
    next: str


RESUME = "then go on with --resume"
FULL = Reason(
    r"No space left on device|Disk quota exceeded",
    False,
    "the target's file system is full",
    f"free space there (what arrived is kept), {RESUME}; --rollback removes what arrived",
)
REASONS = (
    FULL,
    Reason(
        r"Read-only file system",
        False,
        "the target's file system cannot be written to",
        f"look at it with dmesg and findmnt, mount it for writing, {RESUME}",
    ),
    Reason(
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed|No .* host key is known",
        False,
        "what answers at this address is not the machine whose host keys were read over the controller's own "
        "connection",
        f"correct the address and port of the copy in the inventory, {RESUME}",
    ),
    Reason(
        r"Permission denied \([a-z]|Too many authentication failures",
        False,
        "the target's sshd does not take the run's key: it was removed or ran out, or PermitRootLogin, AllowUsers, "
        "AuthorizedKeysFile or from= speak against it",
        f"look at `journalctl -u ssh` of the target, allow root a key with a forced command (PermitRootLogin "
        f"forced-commands-only is enough), {RESUME}",
    ),
    Reason(
        r"no matching (cipher|key exchange method|host key type|MAC) found",
        False,
        "the two ssh have no common way of speaking",
        f"allow one of the ciphers in the target's sshd_config, {RESUME}",
    ),
    Reason(
        r"rrsync error|invalid rsync-command|command not found|not found$|protocol version mismatch",
        False,
        "what the key may start on the target does not do what is asked",
        f"install rsync 3.2.7 or later with rrsync on both machines, {RESUME}",
    ),
    Reason(
        r"change_dir.*failed|does not run|is no folder|is not there",
        False,
        "the folder that is copied is not there",
        f"look at the source's folder and its container, {RESUME}",
    ),
    Reason(
        r"Connection refused|No route to host|Network is unreachable|Connection timed out|Could not resolve",
        True,
        "the target's sshd cannot be reached from the source",
        f"mend the network between the two, {RESUME}",
    ),
    Reason(
        r"Connection (reset|closed)|Broken pipe|connection unexpectedly closed|timeout in data|Timeout, server",
        True,
        "the connection broke",
        f"mend the network between the two, {RESUME}",
    ),
    Reason(
        r"Input/output error",
        True,
        "a disk does not give or take the bytes",
        f"look at dmesg of both machines, {RESUME}",
    ),
)
OTHER = Reason("", True, "rsync did not copy everything", f"look at what it said, {RESUME}")


def reason(said: str) -> Reason:
    """The first row that what was said fits."""
    return next((row for row in REASONS if re.search(row.pattern, said, re.MULTILINE)), OTHER)


def final() -> str:
    """What makes another try useless, as one extended regular expression."""
    return "|".join(f"({row.pattern})" for row in REASONS if not row.again)
