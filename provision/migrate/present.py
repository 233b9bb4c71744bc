"""What an operator sees of a migration beside its steps. All on stderr; stdout is for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from provision.migrate import again
from provision.migrate.moving import Moving
from provision.migrate.shown import Shown
from provision.plan import Refusal
from provision.printable import printable
from provision.run import asking

if TYPE_CHECKING:
    from provision.migrate.runbook import StepFailed


def _line(text: str = "", **style: object) -> None:
    # A terminal that is closed is no reason to leave a machine half-way.
    with suppress(OSError):
        click.echo(click.style(printable(text), **style), err=True)  # type: ignore[arg-type]


def refused(shown: Shown, more: Sequence[Refusal]) -> Shown:
    """With these refusals too."""
    return replace(shown, refusals=(*shown.refusals, *more))


def shown(found: Shown, *, quiet: bool) -> None:
    if not quiet:
        for line in found.lines():
            _line(line)


def plan(lines: Sequence[str], *, quiet: bool) -> None:
    """What would be done, before it is asked for; also where nobody can be asked."""
    if not quiet:
        for line in lines:
            _line(line)


def confirmed(service: str, source: str, target: str, terminal: bool) -> bool:
    """Asks; without a terminal to ask on, says in one line what to do and is no."""
    if not terminal:
        _line(
            "error: there is no terminal to ask on: run it again with --yes, or look first with --dry-run",
            fg="red",
        )
        return False
    if asking.yes(f"Move {service} from {source} to {target}?"):
        return True
    _line("nothing was changed")
    return False


def confirmed_back(service: str, source: str, target: str, terminal: bool) -> bool:
    if not terminal:
        _line("error: there is no terminal to ask on: run it again with --yes", fg="red")
        return False
    if asking.yes(f"Bring {service} back to {source}, and take it away from {target}?"):
        return True
    _line("nothing was changed")
    return False


def confirmed_end(service: str, source: str, target: str, terminal: bool) -> bool:
    if not terminal:
        _line("error: there is no terminal to ask on: run it again with --yes", fg="red")
        return False
    question = f"{service} serves on {target}. Give {source} up, with no way back?"
    if asking.yes(question):
        return True
    _line("nothing was changed")
    return False


def ended(m: Moving, said: Sequence[str]) -> None:
    for line in said:
        _line(f"  {line}")
    _line(f"done: {m.target.service.name} is {m.target.name}'s; migration {m.run} is closed", fg="green")
    if not m.cold:
        _line(f"next: take {m.target.service.name} out of the inventory of {m.peer}")


def _command(m: Moving, source: str, target: str) -> str:
    """As it can be typed, in whatever folder."""
    return again.command({"words": m.words or (source, target), "cold": m.cold})


def failed(error: StepFailed, m: Moving, source: str, target: str) -> None:
    command, peer, run = _command(m, source, target), m.peer, m.run
    if error.back is None:
        serves = "what was done stays" if m.cold else f"{peer} serves as before, and what was done stays"
        _line(f"FAILED at {error.step}; {serves}", fg="red")
        _line(f"next: mend it, then {command} --resume; or {command} --rollback")
    elif error.back:
        _line(
            f"FAILED at {error.step}; all was taken back: {peer} serves, nothing of this run is left",
            fg="red",
        )
    else:
        _line(f"FAILED at {error.step}, and the way back is not whole:", fg="red")
        for line in error.left:
            _line(f"    {line}")
        _unserved(m)
        _line(f"next: mend that, then {command} --rollback")
    _line(f"run {run}; its journal: provision runs {run}")


def moved(m: Moving, source: str, target: str) -> None:
    _line(f"done: {m.target.service.name} serves on {m.target.name}", fg="green")
    if not m.cold:
        command = _command(m, source, target)
        _line(f"{m.peer} is stopped and intact: {command} --rollback goes back, --finalize gives it up")
    _line(f"run {m.run}; its journal: provision runs {m.run}")


def back(m: Moving, left: Sequence[str], source: str, target: str) -> None:
    if not left:
        _line(f"done: {m.target.service.name} serves on {m.peer}; nothing of {m.run} is left", fg="green")
    else:
        _line("the way back is not whole:", fg="red")
        for line in left:
            _line(f"    {line}")
        _unserved(m)
        _line(f"next: mend that, then {_command(m, source, target)} --rollback")
    _line(f"run {m.run}; its journal: provision runs {m.run}")


def _unserved(m: Moving) -> None:
    """Loud, and the last thing before what to do: what a source that could not be brought back means for clients."""
    if m.unled:
        name, there = m.target.service.name, m.target.name
        _line(
            f"CLIENTS MAY BE LED ELSEWHERE: {name} generates on {m.peer}, and requests were not seen to go there; "
            f"what the run has left on {there} stays until they are. Lead them to {m.peer} by hand, now",
            fg="red",
            bold=True,
        )
        _line(
            "  what leads them is mended, or (where it cannot be) traffic=… is taken out of the inventory of "
            f"{there}, once you have led them by hand: then the same command cleans {there}"
        )
    elif m.unserved:
        name, there = m.target.service.name, m.target.name
        who = f"unless {there} still does" if m.led else f"{m.peer} does not serve, {there} gets no requests"
        _line(f"NOBODY ANSWERS for {name} now: {who}", fg="red", bold=True)


def interrupted(m: Moving, source: str, target: str) -> None:
    """What state a migration is in that was let go of, and what comes next."""
    command = _command(m, source, target)
    if m.unserved:
        what = "its clients were not led back" if m.unled else f"{m.peer} could not be brought back"
        _line(f"interrupted: {what}: {m.unserved}", fg="red")
        _line(f"migration {m.run} of {m.target.service.name} is open")
        _unserved(m)
        _line(f"next, at once: {command} --rollback")
        return
    _line(f"interrupted: migration {m.run} of {m.target.service.name} is open", fg="yellow")
    words = m.words or (source, target)
    _line(f"next: {again.ways_on({'words': words, 'cold': m.cold, 'back': m.back})}")


def cut_end(m: Moving, source: str, target: str) -> None:
    """An interrupted ``--finalize``."""
    _line(f"interrupted: {m.peer} is given up in part; {m.target.name} serves", fg="yellow")
    _line(f"next: {_command(m, source, target)} --finalize goes on; there may be no way back any more")
