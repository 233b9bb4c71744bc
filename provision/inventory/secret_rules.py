"""Secrets in an inventory: it is kept in a repository and shown to colleagues, so none may stand in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provision.data import engines
from provision.forms import Where
from provision.spec import Service

HUB_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN")
"""Where huggingface_hub looks for a token (huggingface_hub/constants.py, utils/_auth.py)."""

_NAME = re.compile(
    r"(?:^|_)(?:TOKEN|API_?KEY|ACCESS_KEY|PRIVATE_KEY|SECRET(?:_KEY)?|PASS(?:WORD|WD)?|CREDENTIALS?)$", re.I
)
_VALUE = re.compile(
    r"\bhf_[A-Za-z0-9]{20,}|\bsk-[A-Za-z0-9_-]{20,}|\bgh[pousr]_[A-Za-z0-9]{30,}|\bAKIA[A-Z0-9]{16}\b|"
    r"-----BEGIN [A-Z ]*PRIVATE KEY|://[^/\s:@]*:[^/\s@]+@"
)
"""Tokens of Hugging Face, OpenAI and GitHub, key ids of AWS, private keys, and passwords in addresses."""

SHORTEST = 6
"""Letters of a secret; a switch (``true``, ``0``) is shorter."""


def reserved(service: Service) -> Iterator[tuple[Where, str]]:
    """Variables that kpro writes from other fields, in the service's own environment. What a variable holds is never
    told."""
    try:
        key = engines.kind_of(service.engine.kind).key_variable
    except engines.UnknownEngine:
        key = None
    for name in service.environment:
        if name == key:
            yield (
                ("environment", name),
                "is the service's API key, which kpro writes from api_key_file and asks with: leave it out, put the "
                "key into a file of yours (mode 600) and write api_key_file='<that file>'",
            )
        elif name in HUB_TOKENS:
            yield (
                ("environment", name),
                "is never read: a service starts from verified files and asks no hub, and would only show the token to "
                "whoever reads its environment; a model that needs one has token_file='<a file, mode 600>'",
            )


def in_clear(service: Service, source: str) -> Iterator[tuple[Where, str]]:
    """Variables that look like secrets and whose value stands in the file itself (``source``: its text). One that the
    file reads from elsewhere is no fault."""
    yield from _clear(service.environment, ("environment",), source)
    if service.candidate is not None:
        yield from _clear(service.candidate.environment, ("candidate", "environment"), source)


def _clear(environment: dict[str, str], where: Where, source: str) -> Iterator[tuple[Where, str]]:
    for name, value in environment.items():
        by_name = _NAME.search(name) and len(value) >= SHORTEST and not value.startswith(("/", "~"))
        if (by_name or _VALUE.search(value)) and value in source:
            yield (
                (*where, name),
                "looks like a secret and stands in the inventory, which is kept and shown: put it into a file of yours "
                f"(mode 600) and write {name!r}: Path('<that file>').read_text().strip(), with "
                "from pathlib import Path",
            )
