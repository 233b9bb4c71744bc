"""Secrets in an inventory: it is kept in a repository and shown to colleagues, so none may stand in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provision.data import engines
from provision.data.flag_names import canonical
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

DIGEST = "KPRO_DIGEST"
"""In the unit (templates/service.unit.j2); an environment file's value would win over it (systemd.exec(5))."""

OF_THE_SERVICE = ("--api-key", "--admin-api-key")
"""Flags that are refused as kpro's own."""

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
        elif name == DIGEST:
            yield (
                ("environment", name),
                "is how kpro tells which profile runs: another value would hide it; leave it out",
            )
        elif name in HUB_TOKENS:
            yield (
                ("environment", name),
                "is never read: a service starts from verified files and asks no hub, and would only show the token to "
                "whoever reads its environment; a model that needs one has token_file='<a file, mode 600>'",
            )


def in_flags(service: Service) -> Iterator[tuple[Where, str]]:
    """Secrets among the flags: every word of a command line is read by every user of the machine. What stands there
    is never told."""
    words = canonical(service.engine.kind, service.engine.version, service.flags)
    known = -1
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        following = words[index + 1 : index + 2]
        apart = not equals and bool(following) and not following[0].startswith("-")
        value = following[0] if apart else value
        by_name = name.startswith("--") and _NAME.search(name.removeprefix("--").replace("-", "_"))
        if index == known or not ((by_name and value) or _VALUE.search(word) or _VALUE.search(value)):
            continue
        known = index + 1 if apart else known
        if name not in OF_THE_SERVICE:
            shown = name if name.startswith("--") and not _VALUE.search(name) else "a word"
            yield (
                ("flags", index),
                f"{shown} holds a secret: it would stand in the process's arguments, where every user of the machine "
                "reads it, and in the unit; a model's token is token_file, the service's key api_key_file, and a "
                "certificate's key needs no password in a file of mode 600",
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
