"""The baseline of a service that runs: a few requests to it, from inside its guest, by provcheck."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from provision.host import transport
from provision.host.transport import TransportError

SECONDS = 30
"""Length of the measured window; the first token and the start of the file come on top."""


def decode_tok_s(host: Any, pyz: Path, url: str, say: Callable[[str], None]) -> float | None:
    """Decode tokens/s of one request at a time; None when it could not be measured, which is told.

    Puts provcheck into /tmp of the guest and takes it away again. The service answers a handful of requests.
    """
    place = f"/tmp/kpro-init-{secrets.token_hex(8)}"
    try:
        with pyz.open("rb") as file:
            transport.put(host, file, f"{place}.pyz", mode="0600")
        try:
            done = transport.run(
                host,
                f"python3 {place}.pyz serve {url} --seconds {SECONDS} --save-baseline {place}.json --json",
                timeout=4 * SECONDS,
            )
            saved = transport.run(host, f"cat {place}.json", timeout=30)
        finally:
            transport.run(host, f"rm -f {place}.pyz {place}.json", timeout=30)
    except TransportError as error:
        say(f"no baseline of {url}: {error}")
        return None
    rate = _rate(saved.stdout) if saved.ok else None
    if rate is None:
        say(
            f"no baseline of {url}: {_why(done.stdout) or done.error_text or f'provcheck ended with {done.rc}'}"
        )
    return rate


def _rate(text: bytes) -> float | None:
    try:
        value = json.loads(text).get("tok_s")
    except (ValueError, AttributeError):
        return None
    return round(float(value), 1) if isinstance(value, int | float) and value > 0 else None


def _why(text: bytes) -> str:
    """The findings that kept it from being one."""
    try:
        findings = json.loads(text)["findings"]
        said = [f"{one['id']}: {one['message']}" for one in findings if one["status"] in ("fail", "unknown")]
    except (ValueError, KeyError, TypeError):
        return ""
    return "; ".join(said)
