"""The options that say what GPUs are meant for, which ``gpus`` has and ``all`` passes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click

from checks.errors import BadInput
from checks.gpus.rule import COMPUTE_MODES
from checks.ranges import FiniteRange

_OPTIONS = (
    click.option(
        "--needs",
        type=FiniteRange(0, 4096, min_open=True),
        metavar="GIB",
        help="Memory that a launch needs free on every GPU.",
    ),
    click.option("--mig", is_flag=True, help="MIG is meant to be on."),
    click.option(
        "--compute-mode",
        type=click.Choice(list(COMPUTE_MODES)),
        help="The compute mode that is meant to be set.",
    ),
    click.option(
        "--leave-out",
        multiple=True,
        metavar="ID[,ID...]",
        help="Checks not to be judged, reported as skip: for a gate that may not read the kernel's log, say.",
    ),
)


def plan_options(command: Callable[..., int]) -> Callable[..., int]:
    """Adds them: ``needs`` in GiB, ``mig``, ``compute_mode`` by name, ``leave_out`` as given."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def left_out(texts: Iterable[str]) -> frozenset[str]:
    """The ids of ``--leave-out``. Raises BadInput for one that no check has."""
    left = frozenset(one for text in texts for one in text.replace(" ", "").split(",") if one)
    if left:
        from checks.data.catalogue import CATALOGUE

        if unknown := left - CATALOGUE.keys():
            raise BadInput(
                f"--leave-out {', '.join(sorted(unknown))}: no such check; 'provcheck explain --list' has them"
            )
    return left


def words_of(plan: Mapping[str, Any]) -> tuple[str, ...]:
    """The same as words of a command line. Raises BadInput for an id that no check has."""
    left = sorted(left_out(plan["leave_out"]))
    return (
        *(("--needs", f"{plan['needs']:g}") if plan["needs"] is not None else ()),
        *(("--mig",) if plan["mig"] else ()),
        *(("--compute-mode", plan["compute_mode"]) if plan["compute_mode"] else ()),
        *(("--leave-out", ",".join(left)) if left else ()),
    )
