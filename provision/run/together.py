"""Two questions about what was given, each of which may be answered with a mistake: both mistakes are told at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from provision.inventory import InventoryRefused

A = TypeVar("A")
B = TypeVar("B")


def together(first: Callable[[], A], second: Callable[[], B]) -> tuple[A, B]:
    """Both answers. Raises what one of them raises (ValueError, InventoryRefused), and InventoryRefused for both."""
    try:
        one = first()
    except (ValueError, InventoryRefused) as error:
        wrong = _reasons(error)
        try:
            second()
        except (ValueError, InventoryRefused) as also:
            raise InventoryRefused(list(dict.fromkeys([*wrong, *_reasons(also)]))) from None
        raise
    return one, second()


def _reasons(error: Exception) -> list[str]:
    return error.reasons if isinstance(error, InventoryRefused) else str(error).splitlines()
