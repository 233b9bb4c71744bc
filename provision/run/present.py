"""What an operator sees: the plan, the question, the outcome. All on stderr; stdout is for JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from provision.plan import Plan, Step
from provision.run.errors import EXIT_DONE, EXIT_PENDING

if TYPE_CHECKING:
    from provision.run.runner import Outcome


def _line(text: str = "", **style: object) -> None:
    click.echo(click.style(text, **style), err=True)  # type: ignore[arg-type]


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


def confirmed(changes: int, machines: int, inventory: str) -> bool:
    """Asks; without a terminal to ask on, says in one line what to do and is no."""
    question = f"Carry out {changes} change(s) on {machines} machine(s)?"
    if not sys.stdin.isatty():
        _line(
            f"error: {changes} change(s) are pending and there is no terminal to ask on: "
            f"run it again with --yes, or look first with: provision plan {inventory}",
            fg="red",
        )
        return False
    if click.confirm(question, default=False, err=True):
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
    if failed and {result.exit_code for result in results} <= {EXIT_DONE, EXIT_PENDING}:
        _line(f"reboot pending on {', '.join(failed)}; what comes after it was not begun", fg="yellow")
    elif any(result.exit_code for result in results):
        _line(f"FAILED on {', '.join(failed) or 'the controller'}; the reasons are above", fg="red")
    elif changed:
        _line(f"done: {changed} change(s)" + (", every service generates" if proven else ""), fg="green")
    else:
        _line("in sync: 0 changed", fg="green")
    for result in results:
        _line(f"run {result.run}; its journal: provision runs {result.run}")
