"""Several questions of which each may find a mistake, and one answer with all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from checks.errors import BadInput

T = TypeVar("T")


class Asking:
    """Calls what may raise BadInput, and keeps what was said."""

    def __init__(self) -> None:
        self.wrong: list[str] = []

    def __call__(self, read: Callable[..., T], *args: Any, **named: Any) -> T | None:
        """The value; None when it cannot be had, and then ``all_of`` raises at its end."""
        try:
            return read(*args, **named)
        except BadInput as error:
            self.wrong.append(str(error))
            return None

    def refuse(self, wrong: bool, why: str) -> None:
        """``why`` is one of the reasons where it is ``wrong``."""
        self.wrong += [why] if wrong else []


@contextmanager
def all_of() -> Iterator[Asking]:
    """Raises BadInput at its end with everything that was wrong, a line each."""
    asking = Asking()
    yield asking
    if asking.wrong:
        raise BadInput("\n".join(dict.fromkeys(asking.wrong)))
