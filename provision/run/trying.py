"""Cut-overs of services in a run: what came of each is journalled, its reading kept by rule, and a candidate that was
refused ends the run with 1 once what served before is seen generating."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pyinfra.api.host import Host
from pyinfra.api.state import State

from provision.acts import baseline
from provision.host import transport
from provision.plan import Item
from provision.run import host_journal, readings
from provision.run.carrying import carried
from provision.run.errors import CandidateRefused, RunError
from provision.run.session import Session
from provision.spec import Machine
from provision.stack import candidate, trials
from provision.stack.cutover import Cutover
from provision.stack.trials import NoVerdict, Trial


def tried(session: Session, machine: Machine, item: Item) -> Callable[[State, Host], bool]:
    """Carries out a cut-over or a measurement, and sees to what is left of it."""

    def run(state: State, host: Host) -> bool:
        told: list[RunError] = []

        def forgiven(problem: RunError) -> RunError | None:
            told.extend(refused(session, machine, host, item, problem))
            return told[0] if told else None

        if isinstance(item.payload, Cutover):
            session.tried.under_way[item.id] = item.payload
        went_well = carried(session, machine, item, forgiven)(state, host)
        # Not in a "finally": an interrupt comes past here, and the cut-over goes on.
        session.tried.under_way.pop(item.id, None)
        if isinstance(item.payload, Cutover) and not told:
            _tell(session, machine, host, item, outcome(host, item.payload, session.id))
        if went_well and not told:
            readings.keep(session, machine, host, item.payload.desired, item.payload.digest, session.id)
        return went_well

    return run


def refused(
    session: Session, machine: Machine, host: Host, item: Item, problem: RunError
) -> list[CandidateRefused]:
    """A candidate that this run refused is no failure of the service: the problem, told so. None: it is another one."""
    asked = item.payload
    if not isinstance(asked, Cutover) or not asked.candidate:
        return []
    verdict = outcome(host, asked, session.id)
    if verdict is None or verdict.accepted:
        return []
    _tell(session, machine, host, item, verdict)
    cause = verdict.why.strip() or str(problem)
    told = CandidateRefused(host.name, asked.desired.name, candidate.name_of(asked.desired), cause)
    session.tried.refused.append(told)
    return [told]


def outcome(host: Host, asked: Cutover, run: str) -> Trial | None:
    """What the guest remembers of this very cut-over; None where it remembers nothing of it."""
    with suppress(OSError, NoVerdict):
        done = transport.run(host, f"cat {asked.record}", timeout=60)
        found = trials.read(done.text) if done.ok else None
        if found is not None and found.run == run and found.digest == asked.desired.digest:
            return found
    return None


def _tell(session: Session, machine: Machine, host: Host, item: Item, seen: Trial | None) -> None:
    """In both journals: what was forecast, and what was measured."""
    asked: Cutover = item.payload
    facts: dict[str, Any] = {
        "host": host.name,
        "service": asked.desired.name,
        "profile": candidate.name_of(asked.desired),
        "candidate": asked.candidate,
        "forecast_s": (item.details or {}).get("forecast_s"),
        "forecast": asked.forecast,
    }
    if seen is not None:
        known = seen.as_dict()
        facts |= {name: known[name] for name in known if name not in ("run", "forecast", "asked")}
        facts["baseline"] = baseline.held_to(host, asked)
    session.tried.trials.append(facts)
    with suppress(RunError, OSError):
        line = session.journal.write("trial", **facts)
        host_journal.append(session.host(machine.host_name), session.id, line)
