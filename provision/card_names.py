"""Names of graphics cards: whether a card that is there can be the one that an inventory names. Pure.

A card has up to three names: the driver's (``NVIDIA A100-SXM4-80GB``, from NVML and /proc/driver/nvidia), the bus's
list's (``GA100 [A100 SXM4 80GB]``, pci.ids by lspci) and its device id (``10de:20b2``). Parts of a word tell nothing:
``H20`` is no H200.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

OTHER_SILICON = frozenset({"ada", "pro", "ti", "super", "d", "mobile"})
"""Words that make another card of one that has the same words without them: RTX 6000 (Turing), RTX 6000 Ada, RTX PRO
6000 (Blackwell); 3080, 3080 Ti. SXM, PCIe, NVL and a memory size are builds of one chip: H100 is also an H100 NVL."""

_OF_EVERY_CARD = frozenset({"nvidia", "corporation", "gpu", "graphics", "generation", "edition"})
_OF_MANY = re.compile(
    r"geforce|rtx|gtx|quadro|tesla|ada|blackwell|pro|ti|super|d|mobile|laptop|pcie|nvl|sxm\d*|hbm\d*e?|\d+gb"
)
_MEMORY = re.compile(r"hbm\d*e?")
_DEVICE = re.compile(r"10de:[0-9a-f]{4}")


def words(name: str) -> tuple[str, ...]:
    """The words of a name in lower case, without those that every card may have; ``laptop`` is pci.ids' ``mobile``."""
    parts = [part for part in re.split(r"[\s/\[\](),-]+", name.lower()) if part]
    return tuple("mobile" if part == "laptop" else part for part in parts if part not in _OF_EVERY_CARD)


def names_a_card(name: str) -> bool:
    """Whether a name tells one card from others: ``RTX`` and ``80GB`` are of many, and an empty one is of none."""
    return any(not _OF_MANY.fullmatch(word) for word in words(name))


def fits(wanted: str, device: str | None, driver: str | None, listed: str | None) -> bool:
    """Can the card that is there be the one that is wanted?

    ``device`` is its id (``10de:2230``), ``driver`` what its driver calls it, ``listed`` what the bus's list does; None
    for what nobody told. Without any name there is nothing to compare, which is no reason against it.
    """
    if _DEVICE.fullmatch(wanted.lower()):
        return device is None or wanted.lower() == device.lower()
    asked = words(wanted)
    if driver is not None and _is(asked, words(driver)):
        return True
    if listed is None:
        return driver is None
    # pci.ids does not tell kinds of memory, and gives cards of one id side by side: the driver tells those apart.
    asked = tuple(word for word in asked if not _MEMORY.fullmatch(word))
    there, several = words(listed), "/" in listed
    if several and driver is not None:
        return set(there[1:]) <= set(asked) <= set(there)
    return set(asked) <= set(there) if several else _is(asked, there)


def _is(asked: Sequence[str], there: Sequence[str]) -> bool:
    return set(asked) <= set(there) and OTHER_SILICON & set(there) <= set(asked)
