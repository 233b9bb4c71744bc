"""What an operator sees: the plan, the question, the outcome. All on stderr; stdout is for JSON."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from provision.plan import Plan, Step
from provision.printable import printable
from provision.run import asking
from provision.run.errors import EXIT_PENDING

if TYPE_CHECKING:
    from provision.run.runner import Outcome


def _line(text: str = "", **style: object) -> None:
    click.echo(click.style(printable(text), **style), err=True)  # type: ignore[arg-type]


def usage(reasons: Sequence[str]) -> None:
    """Every reason why the command cannot begin."""
    for reason in reasons:
        _line(f"error: {reason}", fg="red")


def plans(found: Sequence[Plan], *, quiet: bool = False) -> None:
    """Machine by machine, step by step; refusals with all their reasons."""
    if quiet:
        return
    for plan in found:
        _line(plan.machine, bold=True)
        for note in plan.notes:
            _line(f"   note  {note}")
        if plan.refusals:
            _line(f"  REFUSED for {len(plan.refusals)} reason(s); nothing is touched:", fg="red")
            for refusal in plan.refusals:
                _line(f"    {refusal.where}: {refusal.seen}")
                _line(f"        why   {refusal.why}")
                _line(f"        next  {refusal.next_step}")
            continue
        if not plan.items:
            _line("  in sync: nothing to do", fg="green")
        step: Step | None = None
        for item in plan.items:
            if item.step != step:
                step = item.step
                _line(f"  {int(step):2} {step.title} ({step.phase})")
            _line(f"       {item.text}   [{item.host}]")


def confirmed(changes: int, machines: int, inventory: str | None) -> bool:
    """Asks; without a terminal to ask on, says in one line what to do and is no. ``inventory`` None: what is pending is
    no plan that could be looked at by itself."""
    question = f"Carry out {changes} change(s) on {machines} machine(s)?"
    if not sys.stdin.isatty():
        _line(
            f"error: {changes} change(s) are pending and there is no terminal to ask on: "
            "run it again with --yes"
            + (f", or look first with: provision plan {inventory}" if inventory else ""),
            fg="red",
        )
        return False
    if asking.yes(question):
        return True
    _line("nothing was changed")
    return False


def batch(names: Sequence[str]) -> None:
    _line(f"== {', '.join(names)}", bold=True)


def stopped(failed: Sequence[str], allowed: int, *, first: bool) -> None:
    """Why the machines that are left are not touched."""
    why = "the first machine is the canary" if first else f"more than {allowed} may not fail (--max-failed)"
    _line(
        f"stopped: {', '.join(failed)} failed, and {why}; the machines that are left were not touched",
        fg="red",
    )


def outcomes(results: Sequence[Outcome], *, proven: bool) -> None:
    """The last lines of a run; ``proven``: its phases include the proof that every service generates."""
    failed = [name for result in results for name in result.failed]
    changed = sum(len(result.changed) for result in results)
    pending = [name for result in results for name in result.pending]
    if pending and all(result.exit_code in (0, EXIT_PENDING) for result in results):
        _line(
            f"reboot pending on {', '.join(pending)}: {changed} change(s) done, the rest comes after the reboot",
            fg="yellow",
        )
    elif all(result.only_refused for result in results if result.exit_code) and any(
        result.exit_code for result in results
    ):
        refused = sum(len(result.problems) for result in results)
        _line(
            f"{refused} candidate(s) refused, the reasons are above: what served before goes on"
            + (", every service generates" if proven else ""),
            fg="yellow",
        )
    elif any(result.exit_code for result in results):
        _line(f"FAILED on {', '.join(failed) or 'the controller'}; the reasons are above", fg="red")
    elif changed:
        _line(f"done: {changed} change(s)" + (", every service generates" if proven else ""), fg="green")
    else:
        _line("in sync: 0 changed", fg="green")
    for result in results:
        _line(f"run {result.run}; its journal: provision runs {result.run}")


def in_sync(what: str) -> None:
    _line(f"{what} already: 0 changed", fg="green")


def to_put_back(
    found: Sequence[tuple[str, Sequence[str], Sequence[str]]],
    ends: Mapping[str, Sequence[str]] = MappingProxyType({}),
    *,
    quiet: bool = False,
) -> None:
    """What a rollback would do, and what it leaves, machine by machine; before that what serves there and would
    not any more."""
    if quiet:
        return
    for machine, todo, said in found:
        _line(machine, bold=True)
        for line in ends.get(machine, ()):
            _line(f"   ENDS  {line}", fg="red", bold=True)
        for line in said:
            _line(f"   note  {line}")
        for line in todo:
            _line(f"       {line}")
        if not todo:
            _line("  nothing to put back", fg="green")


def confirmed_back(changes: int, machines: int, terminal: bool) -> bool:
    """Asks before a rollback; without a terminal it says in one line what to do and is no."""
    if not terminal:
        _line(
            f"error: {changes} change(s) would be put back and there is no terminal to ask on: run it again with --yes",
            fg="red",
        )
        return False
    if asking.yes(f"Put back {changes} change(s) on {machines} machine(s)?"):
        return True
    _line("nothing was changed")
    return False


def put_back(ends: Sequence[tuple[str, Sequence[str], bool, int]], run: str) -> None:
    """The last lines of a rollback."""
    for machine, left, reboot, code in ends:
        if not code:
            _line(f"{machine}: all is as it was, looked at again", fg="green")
            continue
        if reboot:
            _line(f"{machine}: the files are as they were; after a reboot the rest is:", fg="yellow")
        else:
            _line(f"{machine}: FAILED, the reasons are above; left:", fg="red")
        for line in left:
            _line(f"    {line}")
    _line(f"run {run}; its journal: provision runs {run}")
