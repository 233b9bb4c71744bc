"""A request as it goes over a way to a host, and what came back of it. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Address:
    """``tls``: "" plain; "any": whatever certificate; "name": one of that name. ``path``: before every request's."""

    host: str
    port: int
    tls: Literal["", "any", "name"] = ""
    path: str = ""

    @property
    def shown(self) -> str:
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


@dataclass(frozen=True)
class Request:
    """``body`` None: a GET. ``key``: goes into the header alone."""

    path: str
    body: dict[str, Any] | None = None
    key: str = field(default="", repr=False)

    def bytes_to(self, at: Address) -> bytes:
        data = b"" if self.body is None else json.dumps(self.body).encode()
        lines = [
            f"{'GET' if self.body is None else 'POST'} {at.path}{self.path} HTTP/1.1",
            f"Host: {at.shown}",
            "Connection: close",
            *(
                []
                if self.body is None
                else ["Content-Type: application/json", f"Content-Length: {len(data)}"]
            ),
            *([f"Authorization: Bearer {self.key}"] if self.key else []),
        ]
        return "\r\n".join([*lines, "", ""]).encode() + data


@dataclass(frozen=True)
class Reply:
    """``closed``: no connection was taken. ``mute``: one was, and nothing came back. ``odd``: what came is no HTTP.
    ``why`` says which, for people."""

    kind: Literal["answered", "odd", "mute", "closed"]
    status: int = 0
    text: str = ""
    why: str = ""

    def words(self) -> str:
        """``it answers 501``, or why it does not."""
        if self.kind != "answered":
            return self.why
        first = "".join(char for char in self.text.strip()[:80].partition("\n")[0] if char.isprintable())
        return f"it answers {self.status}" + (f" ({first})" if self.status != 200 and first else "")
