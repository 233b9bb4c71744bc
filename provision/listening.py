"""Where a service is asked from inside its own guest. Pure."""

from __future__ import annotations

_EVERYWHERE = {
    "": "127.0.0.1",
    "*": "127.0.0.1",
    "0.0.0.0": "127.0.0.1",
    "localhost": "127.0.0.1",
    "::": "::1",
}
"""What a service listens on that is no address to ask it at."""


def url(listen: str, port: int) -> str:
    """``listen`` as its command line or its inventory has it; an IPv6 address with or without brackets."""
    host = listen.strip("[]")
    host = _EVERYWHERE.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
