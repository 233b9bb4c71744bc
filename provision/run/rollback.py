"""``provision rollback``: what would be put back, the question, ``undo.sh`` on the machine, and a second look."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pyinfra.api.host import Host

from provision import inventory
from provision.acts import confirm, reboot, undo
from provision.acts.voice import Voice
from provision.host import keeping
from provision.host.changes import Change
from provision.host.moves import Reason, Reboot
from provision.inventory.here import as_far_as_here
from provision.run import ended, host_journal, present, rebooting
from provision.run.commands import Answer, connected, finish
from provision.run.errors import EXIT_DONE, EXIT_ERROR, EXIT_PENDING, EXIT_USAGE, ActFailed, RunError
from provision.run.moved import refuse_while_moving
from provision.run.session import Session
from provision.spec import Machine


@dataclass(frozen=True)
class Before:
    """A machine before its rollback. ``ends``: a line for each service that stops with its container."""

    machine: Machine
    host: Host
    changes: tuple[Change, ...]
    look: undo.Look
    ends: tuple[str, ...] = ()


@dataclass(frozen=True)
class After:
    """How it went. ``left``: what is still not as it was, ``reboot``: and will be after the next boot."""

    machine: str
    put_back: tuple[str, ...]
    left: tuple[str, ...]
    reboot: bool
    exit_code: int


def rollback(name: str, limit: Sequence[str], yes: bool, as_json: bool, may_reboot: bool) -> int:
    """Exit code of ``provision rollback``."""
    return finish(lambda: _rollback(name, limit, yes, as_json, may_reboot), "rollback", as_json)


def _rollback(name: str, limit: Sequence[str], yes: bool, as_json: bool, may_reboot: bool) -> Answer:
    loaded = inventory.load(name, limit, names=False, files="reach")
    here = {one.name: as_far_as_here(one) for one in loaded.machines}
    with connected(loaded, limit, (), f"rollback {name}", may_reboot, here) as run:
        session: Session = run.session
        machines = [_look(session, machine) for machine in run.machines]
        present.to_put_back(
            [(before.machine.name, before.look.todo, before.look.said) for before in machines],
            {before.machine.name: before.ends for before in machines},
            quiet=as_json,
        )
        todo = sum(len(before.look.todo) for before in machines)
        document: dict[str, Any] = {
            "machines": [
                {
                    "machine": before.machine.name,
                    "todo": before.look.todo,
                    "said": before.look.said,
                    "stops": before.ends,
                }
                for before in machines
            ]
        }
        if not todo:
            worst = EXIT_ERROR if any(before.look.left for before in machines) else EXIT_DONE
            return Answer(worst, document)
        if not yes and not present.confirmed_back(todo, len(machines), sys.stdin.isatty()):
            session.ended = EXIT_USAGE
            return Answer(EXIT_USAGE, document)
        ends = [_put_back(session, before) for before in machines if before.look.todo]
    present.put_back([(end.machine, end.left, end.reboot, end.exit_code) for end in ends], session.id)
    codes = [end.exit_code for end in ends if end.exit_code]
    worst = next((code for code in codes if code != EXIT_PENDING), codes[0] if codes else EXIT_DONE)
    session.ended = worst
    return Answer(worst, document | {"ends": [asdict(end) for end in ends], "run": session.id})


def _look(session: Session, machine: Machine) -> Before:
    session.take_lock(machine)
    records = refuse_while_moving(session, machine)
    host = session.host(machine.host_name)
    changes = keeping.changes_on(host)
    look = undo.look(host, changes)
    return Before(machine, host, changes, look, tuple(ended.told(machine, look.todo, records)))


def _put_back(session: Session, before: Before) -> After:
    """One machine; what goes wrong on it is its own."""
    name = before.machine.name
    try:
        session.check_lock(before.machine)
        _note(session, before, "rollback", todo=before.look.todo)
        # The manifest is what counts: an undo.sh of an older version gives way to this one's.
        keeping.write_undo(before.host, before.changes)
        session.say(f"{before.host.name}: putting back; an initramfs that is made anew takes a while")
        done = undo.undo(before.host, session.id, say=lambda line: session.say(f"{before.host.name}: {line}"))
        if done.reboot and rebooting.may(session, before.host, before.machine):
            _reboot(session, before, done)
            done = undo.undo(before.host, session.id)
        if done.ok:
            # Of a run that waits for its confirmation there is nothing left to take back.
            confirm.disarm(before.host)
        after = undo.look(before.host, before.changes)
    except RunError as error:
        session.problems.append(error)
        session.say(f"{before.host.name}: {error}")
        return After(name, (), (str(error),), False, error.exit_code)
    pending = done.reboot and done.ok
    code = (
        EXIT_ERROR if not done.ok or (after.todo and not pending) else EXIT_PENDING if pending else EXIT_DONE
    )
    back = tuple(todo for todo in before.look.todo if todo not in after.todo)
    _note(session, before, "rolled back", back=back, left=after.todo, reboot=pending, said=done.said)
    return After(name, back, after.todo, pending, code)


def _note(session: Session, before: Before, event: str, **facts: object) -> None:
    """In both journals. Raises RunError."""
    line = session.journal.write(event, host=before.host.name, **facts)
    host_journal.append(before.host, session.id, line)


def _reboot(session: Session, before: Before, done: undo.Undone) -> None:
    """The next boot finds the former configuration; what could not be switched online is switched by it."""
    reasons = tuple(
        Reason("undo.in_use", before.machine.name, line) for line in done.said if "the next reboot" in line
    )
    # What is being put back is not put back once more: nothing waits for a confirmation.
    wanted = Reboot(reasons, armed=False)
    try:
        reboot.reboot(before.host, wanted, Voice(session.id, session.say))
    except ActFailed:
        if not before.host.connected:
            session.lock_is_lost(before.machine)
        raise
    session.rebooted(before.machine)
