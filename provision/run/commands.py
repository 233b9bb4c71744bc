"""``provision plan`` and ``provision apply``: load, look, show, ask, do, report.

Import it with gevent's patches in place (``provision.cli`` sees to that).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyinfra.api.exceptions import PyinfraError

from provision import inventory as inventories
from provision.plan import Plan, parse_phases
from provision.printable import say_on_stderr
from provision.run import ending, present, runner
from provision.run.batches import batches
from provision.run.errors import (
    EXIT_DONE,
    EXIT_ERROR,
    EXIT_PENDING,
    EXIT_REFUSED,
    EXIT_USAGE,
    RunError,
)
from provision.run.together import together
from provision.spec import Machine


@dataclass(frozen=True)
class Answer:
    """What a command ends with: the exit code and the JSON document."""

    exit_code: int
    document: dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """What ``provision apply`` was asked for."""

    inventory: str
    limit: tuple[str, ...]
    phases: str | None
    yes: bool
    as_json: bool
    batch: int | None
    max_failed: int | None
    reboot: bool = False


def plan(
    inventory: str, limit: Sequence[str], phases: str | None, sysroot: Path | None, as_json: bool
) -> int:
    """Exit code of ``provision plan``."""
    return finish(lambda: _plan(inventory, limit, phases, sysroot, as_json), "plan", as_json)


def apply(
    inventory: str,
    limit: Sequence[str],
    phases: str | None,
    yes: bool,
    as_json: bool,
    batch: int | None = None,
    max_failed: int | None = None,
    reboot: bool = False,
) -> int:
    """Exit code of ``provision apply``."""
    ask = Asked(inventory, tuple(limit), phases, yes, as_json, batch, max_failed, reboot)
    return finish(lambda: _apply(ask), "apply", as_json)


def finish(command: Callable[[], Answer], name: str, as_json: bool) -> int:
    """Turns every expected end into a clear line and an exit code, and prints the JSON document."""
    with ending.listening():
        answer = _answer(command)
    if as_json:
        document = {"schema": "provision/1", "command": name, "exit": answer.exit_code, **answer.document}
        sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")
    return answer.exit_code


def _answer(command: Callable[[], Answer]) -> Answer:
    try:
        return command()
    except inventories.InventoryRefused as error:
        present.usage(error.reasons)
        return Answer(EXIT_USAGE, {"error": "bad inventory", "reasons": error.reasons})
    except ValueError as error:
        present.usage(str(error).splitlines() or [type(error).__name__])
        return Answer(EXIT_USAGE, {"error": str(error)})
    except RunError as error:
        say_on_stderr(error.told)
        return Answer(error.exit_code, {"error": str(error)})
    except (OSError, PyinfraError) as error:
        say_on_stderr(f"error: {error}")
        return Answer(EXIT_ERROR, {"error": str(error)})
    except KeyboardInterrupt:
        last = ending.last() or ending.Ended(
            "a command that was under way was ended, or goes on to its end on its machine; "
            "run again to continue from there"
        )
        if last.words:
            say_on_stderr(f"interrupted: {last.words}")
        return Answer(ending.code(), {"error": "interrupted", **last.document})


def _plan(
    inventory: str, limit: Sequence[str], phases: str | None, sysroot: Path | None, as_json: bool
) -> Answer:
    wanted, loaded = together(
        lambda: parse_phases(phases), lambda: inventories.load(inventory, limit, names=sysroot is None)
    )
    if sysroot is not None:
        from provision.run.recorded import plan_recorded

        plans, commands = plan_recorded(loaded, limit, wanted, sysroot), 0
    else:
        with connected(loaded, limit, wanted, f"plan {inventory}") as run:
            plans, commands = run.plans(), run.remote_commands()
    machines = [plan.as_dict() for plan in plans]
    return Answer(_shown(plans, as_json), {"machines": machines, "remote_commands": commands})


def _shown(plans: Sequence[Plan], as_json: bool) -> int:
    present.plans(plans, quiet=as_json)
    if any(plan.refusals for plan in plans):
        return EXIT_REFUSED
    return EXIT_PENDING if any(plan.items for plan in plans) else EXIT_DONE


def connected(
    loaded: inventories.Inventory,
    limit: Sequence[str],
    phases: Sequence[str],
    reason: str,
    reboot: bool = False,
    machines: Mapping[str, Machine] | None = None,
) -> Any:
    """A connected run over what was selected of an inventory. ``machines``: what stands for those of the inventory."""
    return runner.connected(
        loaded.path,
        limit=loaded.selected(limit).host_names,
        phases=phases,
        reason=reason,
        say=say_on_stderr,
        reboot=reboot,
        machines=machines,
    )


def _apply(ask: Asked) -> Answer:
    wanted, loaded = together(
        lambda: parse_phases(ask.phases), lambda: inventories.load(ask.inventory, ask.limit)
    )
    reason = f"apply {ask.inventory}"
    with connected(loaded, ask.limit, wanted, reason, ask.reboot) as run:
        plans = run.plans()
        document: dict[str, Any] = {"machines": [plan.as_dict() for plan in plans]}
        if _shown(plans, ask.as_json) == EXIT_REFUSED:
            run.session.was_shown(plans)
            run.session.ended = EXIT_REFUSED
            return Answer(EXIT_REFUSED, document)
        changes = sum(len(plan.items) for plan in plans)
        if changes and not ask.yes and not present.confirmed(changes, len(plans), ask.inventory):
            return Answer(EXIT_USAGE, document)
        if len(plans) == 1:
            run.session.was_shown(plans)
            outcomes = [run.execute(runner.Progress(run.session, say_on_stderr))]
    if len(plans) > 1:
        outcomes = _in_batches(loaded, ask, wanted, reason, plans)
    present.outcomes(outcomes, proven="activate" in wanted)
    codes = [outcome.exit_code for outcome in outcomes if outcome.exit_code]
    worst = next((code for code in codes if code != EXIT_PENDING), codes[0] if codes else EXIT_DONE)
    return Answer(worst, {**document, **told(outcomes)})


def _in_batches(
    loaded: inventories.Inventory, ask: Asked, phases: Sequence[str], reason: str, plans: Sequence[Plan]
) -> list[runner.Outcome]:
    """A canary first, then batch by batch; more failed machines than allowed end it before the next batch."""
    chosen = loaded.selected(ask.limit)
    allowed = 1 if ask.max_failed is None else ask.max_failed
    outcomes: list[runner.Outcome] = []
    failed: set[str] = set()
    for machines in batches(chosen.machines, ask.batch):
        names = {machine.name for machine in machines}
        present.batch([machine.name for machine in machines])
        hosts = [
            name
            for machine in machines
            for name in (machine.host_name, *(machine.guest_host_name(guest) for guest in machine.guests))
            if name in chosen.host_names
        ]
        with runner.connected(
            loaded.path, limit=hosts, phases=phases, reason=reason, say=say_on_stderr, reboot=ask.reboot
        ) as run:
            run.session.was_shown([plan for plan in plans if plan.machine in names])
            outcome = run.execute(runner.Progress(run.session, say_on_stderr))
        outcomes.append(outcome)
        failed |= {machine.name for machine in machines if outcome.failed_on(machine)}
        if len(failed) > allowed or (len(outcomes) == 1 and failed):
            present.stopped(sorted(failed), allowed, first=len(outcomes) == 1)
            break
    return outcomes


def told(outcomes: Sequence[runner.Outcome]) -> dict[str, Any]:
    """The outcome in JSON; of several batches, all together."""
    seconds: dict[str, float] = {}
    for outcome in outcomes:
        for name, value in outcome.seconds.items():
            seconds[name] = round(seconds.get(name, 0.0) + value, 2)
    return {
        "runs": [outcome.run for outcome in outcomes],
        "changed": [item for outcome in outcomes for item in outcome.changed],
        "failed": [name for outcome in outcomes for name in outcome.failed],
        "pending": [name for outcome in outcomes for name in outcome.pending],
        "problems": [str(problem) for outcome in outcomes for problem in outcome.problems],
        "trials": [trial for outcome in outcomes for trial in outcome.trials],
        "seconds": seconds,
    }
