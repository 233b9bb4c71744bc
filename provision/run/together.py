"""The words of a command and its inventory, judged together: whoever mistyped one is not kept from what is wrong in the
other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from provision.inventory import Inventory, InventoryRefused

T = TypeVar("T")


def together(words: Callable[[], T], load: Callable[[], Inventory]) -> tuple[T, Inventory]:
    """What the words mean, and the inventory. Raises ValueError where the words alone are wrong, InventoryRefused with
    every reason where the inventory is."""
    try:
        meant, wrong = words(), None
    except ValueError as error:
        wrong = error
    try:
        loaded = load()
    except InventoryRefused as refused:
        if wrong is None:
            raise
        raise InventoryRefused([str(wrong), *refused.reasons]) from None
    if wrong is not None:
        raise wrong
    return meant, loaded
