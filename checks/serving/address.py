"""Where a server is, which model it serves, and the key it wants."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from checks.errors import BadInput


@dataclass(frozen=True)
class Server:
    """Where and what: base without ``/v1``, served model name, key or None."""

    scheme: str
    host: str
    port: int
    path: str
    model: str
    key: str | None = field(default=None, repr=False)

    @property
    def shown(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}{self.path}"


def server(url: str, model: str, key_file: Path | None = None) -> Server:
    """Reads the address and the key. Raises BadInput when one of them cannot be used."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError as error:
        raise BadInput(f"{url[:100]!r} is no address: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise BadInput(f"{url[:100]!r} is no address of a server; give one like http://127.0.0.1:8000")
    if parts.username is not None or parts.password is not None:
        raise BadInput(
            "the address must not hold a password; put the key into a file and give --api-key-file"
        )
    path = parts.path.rstrip("/").removesuffix("/v1")
    if any(ord(letter) <= 32 or ord(letter) > 126 for letter in path + parts.hostname):
        raise BadInput("the address must be plain ASCII without blanks")
    if not model:
        raise BadInput("--model must not be empty: give the name under which the server serves")
    port = port or (443 if parts.scheme == "https" else 80)
    return Server(parts.scheme, parts.hostname, port, path, model, _key(key_file) if key_file else None)


def _key(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(8193)
    except OSError as error:
        raise BadInput(f"cannot read the key file {path}: {error.strerror}") from None
    text = raw.decode("ascii", "replace").strip()
    if not text or len(raw) > 8192 or not all(33 <= ord(letter) <= 126 for letter in text):
        raise BadInput(f"the key file {path} must hold one key: a single line of plain ASCII without blanks")
    return text
