"""What does not leave a machine with a record of it: secrets in files and command lines, each with a mark in its place.

The rules are those of ``provcheck bundle``; what only hosts have (virtual machines, cloud-init, password hashes) is
here. Host names and addresses stay: a plan is made against them. Pure, apart from what it has counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from checks.bundle.redact import GONE, Redactor

# kind, pattern; group 1 stays
_ROWS = tuple(
    (kind, re.compile(pattern, re.MULTILINE | re.IGNORECASE))
    for kind, pattern in (
        ("cloud-init", r"^(\s*(?:cipassword|ciuser|sshkeys|cicustom|searchdomain)\s*:\s*)\S[^\n]*"),
        (
            "ssh key",
            r"\b((?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-nistp\d+|sk-ssh-\S+?)(?:\s+|%20))AAAA[^\s\"',]+",
        ),
        ("password hash", r"()\$(?:1|2[abxy]?|5|6|7|y|gy|argon2\w*|scrypt)\$[./A-Za-z0-9$=,+-]{8,}"),
        ("password hash", r"()grub\.pbkdf2\.\S+"),
        ("wifi key", r"(\b(?:wpa-)?psk\b[\"']?\s*[=:\s]\s*)\S+"),
        ("environment value", r"(^\s*lxc\.environment(?:\.\w+)?\s*[:=]\s*\w+=)[^\n]*"),
        ("environment value", r"(^\s*env:\s*)\S[^\n]*"),
        ("identity of a machine", r"(^\s*(?:smbios1|vmgenid)\s*:\s*)\S[^\n]*"),
        ("VNC password", r"(\bpassword(?:-secret)?[=:])[^\s,]+"),
        ("secret object", r"(\bsecret,[^\s]*?data=)[^\s,]+"),
    )
)
_DESCRIPTION = re.compile(r"^(#|description:).*$", re.MULTILINE)
_PROCESS = re.compile(r"/proc/\d+/cmdline")
_GUEST_FILE = re.compile(r"/etc/pve/.*\.conf")


class Secrets:
    """Counts what it takes out, by kind."""

    def __init__(self) -> None:
        self._shared = Redactor(None)
        self._own: Counter[str] = Counter()

    @property
    def removed(self) -> dict[str, int]:
        """How often each kind was taken out."""
        return dict(sorted((self._shared.removed + self._own).items()))

    def cleaned(self, path: str, data: bytes) -> bytes:
        """The bytes of a file or output without what must stay on the machine; ``path`` decides what is expected."""
        if _PROCESS.fullmatch(path):
            return self._program(data)
        text = data.decode(errors="surrogateescape")
        if _GUEST_FILE.fullmatch(path):
            text = _DESCRIPTION.sub(self._cut("notes of a guest"), text)
        for kind, pattern in _ROWS:
            text = pattern.sub(self._cut(kind), text)
        return self._shared.text(text).encode(errors="surrogateescape")

    def _cut(self, kind: str) -> Callable[[re.Match[str]], str]:
        def cut(match: re.Match[str]) -> str:
            if match[0].endswith(GONE):
                return match[0]
            self._own[kind] += 1
            return f"{match[1]}{GONE}"

        return cut

    def _program(self, data: bytes) -> bytes:
        """Of a command line only the program: that it lives is what is asked of it."""
        program, mark, rest = data.partition(b"\0")
        if not rest.strip(b"\0"):
            return data
        self._own["command line of a process"] += 1
        return program + mark + GONE.encode() + b"\0"
