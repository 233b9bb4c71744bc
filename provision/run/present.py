"""What an operator sees: the plan, the question, the outcome. All on stderr; stdout is for JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from provision.plan import Plan, Step

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


def outcome(result: Outcome) -> None:
    """The last lines of a run."""
    if result.exit_code == 0:
        count = len(result.changed)
        _line(
            f"done: {count} change(s), every service generates" if count else "in sync: 0 changed", fg="green"
        )
    else:
        _line(f"FAILED on {', '.join(result.failed) or 'the controller'}; the reasons are above", fg="red")
    _line(f"run {result.run}; its journal: provision runs {result.run}")
