"""The one loader of ``templates/``: the checkout first, then the installed package."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_PACKAGE = Path(__file__).parent


def house(name: str, packaged: str) -> Path:
    """A file or folder of the house's top level: in a checkout beside the package, in a wheel inside it.

    Raises FileNotFoundError when the installation lacks both.
    """
    for candidate in (_PACKAGE.parent / name, _PACKAGE / packaged):
        if candidate.exists():
            return candidate
    raise FileNotFoundError(f"this installation has no {name}")


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(house("templates", "_templates")),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        # Pages quote machines; what runs in a shell or stands in a unit is quoted by whoever makes the words.
        autoescape=lambda name: name is not None and name.endswith(".html.j2"),
    )


def render(name: str, /, **values: Any) -> str:
    """The text of a template; a value that is missing is an error, never an empty string."""
    return _environment().get_template(name).render(**values)
