"""The fingerprints of the keys in a keyring file (RFC 4880), told without gpg: a host of apt need not have it. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

_PUBLIC_KEY = 6


def fingerprints(keyring: bytes) -> tuple[str, ...]:
    """The fingerprints of the primary keys, in hexadecimal. Raises ValueError for what is no binary keyring, and for
    keys of another version than 4."""
    found = []
    for tag, body in _packets(keyring):
        if tag != _PUBLIC_KEY:
            continue
        if not body or body[0] != 4:
            raise ValueError("a key of another version than 4")
        # RFC 4880, 12.2: SHA-1 is the fingerprint's definition, and not what proves the key.
        digest = hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body, usedforsecurity=False)
        found.append(digest.hexdigest().upper())
    return tuple(found)


def _packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        head = data[at]
        if not head & 0x80:
            raise ValueError("not a binary keyring")
        if head & 0x40:
            tag, size, begin = head & 0x3F, *_new_length(data, at + 1)
        else:
            kind = head & 3
            if kind == 3:
                raise ValueError("a packet without a length")
            begin = at + 1 + (1 << kind)
            tag, size = (head >> 2) & 0xF, int.from_bytes(data[at + 1 : begin], "big")
        at = begin + size
        if at > len(data):
            raise ValueError("cut off")
        yield tag, data[begin:at]


def _new_length(data: bytes, at: int) -> tuple[int, int]:
    """Length and begin of a packet's body (RFC 4880, 4.2.2)."""
    if at >= len(data):
        raise ValueError("cut off")
    first = data[at]
    if first < 192:
        return first, at + 1
    if first < 224 and at + 1 < len(data):
        return ((first - 192) << 8) + data[at + 1] + 192, at + 2
    if first == 255:
        return int.from_bytes(data[at + 1 : at + 5], "big"), at + 5
    raise ValueError("a packet in pieces")
