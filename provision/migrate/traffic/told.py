"""What a hook is told, and what of its words may be shown. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping

from checks.serving.redact import redacted
from provision.inventory.secret_rules import SHORTEST
from provision.spec import Machine, Service

_SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASS|CREDENTIAL|COOKIE|AUTH", re.I)
_PUBLIC = re.compile(r"^(?:SSH_AUTH_SOCK|XAUTHORITY|KPRO_.*)$")
_FORMS = re.compile(
    r"\bhf_[A-Za-z0-9]{20,}|\bsk-[A-Za-z0-9_-]{20,}|\bgh[pousr]_[A-Za-z0-9]{30,}|\bAKIA[A-Z0-9]{16}\b|"
    r"(?<=://)[^/\s:@]*:[^/\s@]+(?=@)|(?i:(?<=bearer )|(?<=basic ))[A-Za-z0-9._~+/=-]{6,}"
)
"""Tokens of hubs and clouds, passwords in addresses, what an Authorization header carries."""

MASK = "***"


def variables(run: str, name: str, source: str, target: str) -> dict[str, str]:
    """The environment that a hook gets beside the operator's own."""
    return {"KPRO_RUN": run, "KPRO_SERVICE": name, "KPRO_SOURCE_URL": source, "KPRO_TARGET_URL": target}


def url(machine: Machine, service: Service) -> str:
    """Where clients reach the service: its own address, or the machine's where it listens on all or on loopback."""
    address = ipaddress.ip_address(service.listen)
    host = service.listen
    if address.is_unspecified or address.is_loopback:
        host = machine.ssh.host if machine.ssh is not None else "127.0.0.1"
    return f"http://{f'[{host}]' if ':' in host else host}:{service.port}"


def secrets(environment: Mapping[str, str], more: Iterable[str] = ()) -> tuple[str, ...]:
    """Values that must not be shown: of variables that are named like a secret, and those in ``more``; longest first,
    because one may be the beginning of another."""
    found = {
        value.strip()
        for name, value in environment.items()
        if _SECRET_NAME.search(name) and not _PUBLIC.match(name)
    }
    found |= {value.strip() for value in more}
    return tuple(sorted((value for value in found if len(value) >= SHORTEST), key=len, reverse=True))


def shown(text: str, hidden: Iterable[str]) -> str:
    """A text without secrets and without what moves a terminal's cursor."""
    for value in hidden:
        text = text.replace(value, MASK)
    text = _FORMS.sub(MASK, redacted(text))
    return "".join(char if char.isprintable() or char in "\n\t" else "?" for char in text)


def last_lines(text: str, most: int = 8) -> str:
    """The end of a text, each line indented."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return "".join(f"\n    {line[:400]}" for line in lines[-most:])
