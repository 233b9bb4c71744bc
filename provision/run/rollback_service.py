"""``provision rollback --service``: the profile that served before is back, by the same cut-over as any other."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyinfra.api.host import Host

from provision import inventory
from provision.acts import cutover, service, shell, stack
from provision.acts.voice import Voice
from provision.host import transport
from provision.planner import settle
from provision.run import host_journal, present
from provision.run.commands import Answer, connected, finish
from provision.run.errors import EXIT_DONE, EXIT_ERROR, EXIT_USAGE, ActFailed, RunError
from provision.run.journal import now
from provision.run.session import Session
from provision.spec import Machine
from provision.stack import candidate, held, trials
from provision.stack.cutover import Cutover
from provision.stack.desired import DesiredService
from provision.stack.held import Held

KEPT = "/var/lib/kpro/last-good"


@dataclass(frozen=True)
class Before:
    """A service before it goes back. ``back``: the profile that served before, as it was kept; None: there is none,
    ``said`` says why."""

    machine: Machine
    host: Host
    own: DesiredService
    held: Held
    back: DesiredService | None
    said: str


def rollback(name: str, limit: Sequence[str], wanted: str, yes: bool, as_json: bool) -> int:
    """Exit code of ``provision rollback INVENTORY --service NAME``."""
    return finish(lambda: _rollback(name, limit, wanted, yes, as_json), "rollback", as_json)


def _rollback(name: str, limit: Sequence[str], wanted: str, yes: bool, as_json: bool) -> Answer:
    loaded = inventory.load(name, limit, names=False)
    with connected(loaded, limit, (), f"rollback {name} --service {wanted}", False) as run:
        session: Session = run.session
        found = [before for machine in run.machines for before in _look(session, machine, wanted)]
        if not found:
            raise ValueError(f"--service {wanted}: no service of kpro's in {name} has this name")
        todo = [(before, _text(before)) for before in found if before.back is not None]
        rows = [
            (one.machine.name, [_text(one)] if one.back else [], [one.said] if one.said else [])
            for one in found
        ]
        present.to_put_back(rows, quiet=as_json)
        document: dict[str, Any] = {
            "machines": [{"machine": machine, "todo": does, "said": said} for machine, does, said in rows]
        }
        if not todo:
            return Answer(EXIT_DONE, document)
        if not yes and not present.confirmed_back(len(todo), len(found), sys.stdin.isatty()):
            session.ended = EXIT_USAGE
            return Answer(EXIT_USAGE, document)
        ends = [(before.machine.name, *_go_back(session, before)) for before, _ in todo]
        session.ended = max(code for *_, code in ends)
    present.put_back([(machine, left, False, code) for machine, left, code in ends], session.id)
    return Answer(session.ended, document | {"run": session.id})


def _look(session: Session, machine: Machine, wanted: str) -> list[Before]:
    session.take_lock(machine)
    seen, found = session.observed(machine), []
    for guest in machine.guests:
        inside = seen.guests.get(guest.name)
        for own in settle(machine, guest, session.wanted(machine).services[guest.name], seen.host, inside):
            if own.name != wanted:
                continue
            if inside is None:
                raise RunError(f"{guest.name} does not run: start it (provision apply), then go back")
            host = session.host(machine.guest_host_name(guest))
            has = held.held(own, inside)
            back, said = _kept(host, own, has)
            found.append(Before(machine, host, own, has, back, said))
    return found


def _kept(host: Host, own: DesiredService, has: Held) -> tuple[DesiredService | None, str]:
    """The profile that served before, from the files that the last cut-over kept, or why there is none."""
    parts = {}
    for part in ("unit", "env", "url"):
        done = transport.run(host, f"cat {KEPT}/{own.name}/{part}", timeout=60)
        if not done.ok:
            return None, f"{own.name}: no profile served before the one that serves now"
        parts[part] = done.text
    digest = re.search(r"^Environment=KPRO_DIGEST=([0-9a-f]{64})$", parts["unit"], re.MULTILINE)
    if digest is None:
        return None, f"{own.name}: what is kept in {KEPT}/{own.name} is no unit of kpro's; it is left alone"
    if digest[1] == has.serving:
        return None, f"{own.name}: the profile that served before serves now"
    if has.verdict is not None and has.verdict.digest == digest[1] and not has.verdict.accepted:
        return None, f"{own.name}: what served before was taken back already ({has.verdict.when})"
    if parts["url"].strip() != own.url:
        return None, (
            f"{own.name}: what served before did so at {parts['url'].strip()}, and the inventory says {own.url}: put "
            "its port and address back there, then go back"
        )
    kept = replace(own, unit=parts["unit"], environment=parts["env"], digest=digest[1])
    return replace(kept, trial=None, candidate=None, staging="back"), ""


def _text(before: Before) -> str:
    now, then = before.held.serving or "nothing that was seen well", before.back.digest if before.back else ""
    return (
        f"{before.own.name}: {now[:12]} gives way to {then[:12]}, which served before; it is down for one start, and "
        "back as it is now if that does not generate"
    )


def _go_back(session: Session, before: Before) -> tuple[tuple[str, ...], int]:
    """What is left of it, and the exit code."""
    back, host = before.back, before.host
    if back is None:
        return (), EXIT_DONE
    voice = Voice(session.id, session.say)
    try:
        session.check_lock(before.machine)
        _note(session, before, "rollback", todo=[_text(before)])
        stack.stage(host, back, voice)
        cutover.cutover(host, Cutover(back, None, "swap", drain_seconds=back.service.drain_seconds), voice)
        _taken_back(session, before)
        done = service.prove(host, before.own)
        if not done.ok:
            raise ActFailed(f"{back.service.unit} was put back and does not generate: {done.text.strip()}")
        _note(session, before, "rolled back", back=[_text(before)], left=[])
    except RunError as error:
        session.problems.append(error)
        session.say(f"{host.name}: {error}")
        return (str(error),), error.exit_code or EXIT_ERROR
    return (), EXIT_DONE


def _taken_back(session: Session, before: Before) -> None:
    """The verdict on what served until now: without this the next run would put it into service again."""
    was = before.held.serving
    name = before.own.name
    if before.own.candidate is None or before.own.candidate.digest != was:
        return
    verdict = before.held.verdict
    told = verdict if verdict is not None and verdict.digest == was else None
    asked = told.asked if told is not None else ""
    why = "it was accepted, and taken back by hand (provision rollback)"
    record = trials.Trial(
        was, "refused", asked or candidate.asked(before.own.service), why, when=now(), run=session.id
    )
    shell.run(before.host, "install -d -m 700 /var/lib/kpro/trials", "making /var/lib/kpro/trials")
    shell.put(before.host, trials.path(name), record.dump(), mode="600")


def _note(session: Session, before: Before, event: str, **facts: object) -> None:
    """In both journals. Raises RunError."""
    line = session.journal.write(event, host=before.host.name, **facts)
    host_journal.append(session.host(before.machine.host_name), session.id, line)
