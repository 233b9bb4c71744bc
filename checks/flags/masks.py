"""Values that must not be repeated: an API key on a command line is bad enough once."""

from __future__ import annotations

import re

from checks.flags.words import Command

SECRET = re.compile(
    r"--(?:[a-z0-9_-]*[-_])?(?:api[-_]?keys?|tokens?|passwords?|secrets?|watermark-key(?:-b)?)$"
)
NOT_SECRET = re.compile(r"-tokens$|--tokens")
"""Options whose value is a secret (vLLM FrontendArgs and ModelConfig, SGLang ServerArgs), also misspelt."""


def secret(name: str) -> bool:
    """Whether an option's value must not be repeated anywhere."""
    return SECRET.match(name) is not None and not NOT_SECRET.search(name)


def masked_arguments(command: Command) -> list[str]:
    """The arguments with the values of secret options replaced."""
    out: list[str] = []
    hide = False
    for word in command.arguments:
        name, separator, _ = word.partition("=")
        if hide and not word.startswith("-"):
            out.append("***")
            continue
        hide = secret(name) and not separator
        out.append(f"{name}=***" if separator and secret(name) else word)
    return out


def masked(command: Command, text: str) -> str:
    """A text about the command line without the values of secret options."""
    for word, shown in zip(command.arguments, masked_arguments(command), strict=True):
        value = word.partition("=")[2] if shown.endswith("=***") else word
        if shown != word and value:
            text = text.replace(value, "***")
    return text
