"""What commands refuse of what they are given beyond the grammar of their lines: for ``AllAtOnce(also=…)``.

What they need is imported when something is wrong, so that ``--help`` is quick.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from checks.asking import all_of
from checks.errors import BadInput

Given = Mapping[str, Any]


def refuse(*questions: Callable[[], object]) -> None:
    """Raises BadInput with all that these refuse (InventoryRefused, ValueError, BadInput)."""
    with all_of() as ask:
        for question in questions:
            ask(_bad, question)


def _bad(question: Callable[[], object]) -> None:
    from provision import inventory

    try:
        question()
    except inventory.InventoryRefused as error:
        raise BadInput("\n".join(error.reasons)) from None
    except ValueError as error:
        raise BadInput(str(error)) from None


def an_inventory(given: Given, **how: Any) -> None:
    """``how`` as ``inventory.load`` takes it. Raises InventoryRefused."""
    from provision import inventory

    if given["inventory"] is not None:
        inventory.load(given["inventory"], given["limit"], **how)


def a_plan(given: Given) -> None:
    """``plan`` and ``apply``. Raises BadInput."""
    from provision.plan import parse_phases

    names = given.get("sysroot") is None
    refuse(lambda: parse_phases(given["phases"]), lambda: an_inventory(given, names=names))


def a_look(given: Given) -> None:
    """``status``. Raises BadInput."""
    refuse(lambda: an_inventory(given, files="reach"))


def a_way_back(given: Given) -> None:
    """``rollback``. Raises BadInput."""
    refuse(lambda: an_inventory(given, names=False, files="reach"))
