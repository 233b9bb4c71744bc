"""What ``--rollback`` would do, before it is asked for: the same steps that the runbook undoes, in its order."""

from __future__ import annotations

from provision.migrate import steps
from provision.migrate.moving import Moving


def lines(m: Moving, reached: str) -> list[str]:
    """``reached``: the last step that began."""
    name, there = m.target.service.name, m.target.name
    todo = [step for step in steps.of(m) if steps.at_or_after(reached, step.name)]
    said = [f"{name}: back from {there} to {m.peer}, migration {m.run}, which came to {reached}"]
    if any(step.window for step in todo) and not m.cold:
        said.append(f"  {m.peer:<12}  first: fence away, started, seen generating; then requests go to it")
    else:
        said.append(f"  {m.peer:<12}  nothing is done there: it was not kept from serving")
    undone = [step for step in reversed(todo) if step.undo is not steps.nothing]
    said += [f"  {there:<12}  {step.name}: {step.way_back}" for step in undone]
    return said
