"""``provision rollback --service``: the profile that served before is back, by the same cut-over as any other."""

from __future__ import annotations

import base64
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from pyinfra.api.host import Host

from checks.snapshot import CouldNotLook
from provision import inventory
from provision.acts import cutover, service, stack
from provision.acts.voice import Voice
from provision.host import transport
from provision.host.last_run import BACK
from provision.inventory.here import as_far_as_here
from provision.migrate import standing
from provision.planner import settle
from provision.run import host_journal, present
from provision.run.commands import Answer, connected, finish
from provision.run.errors import EXIT_DONE, EXIT_ERROR, EXIT_USAGE, ActFailed, Refused, RunError
from provision.run.journal import now
from provision.run.session import Session
from provision.spec import Machine
from provision.stack import going_back, held
from provision.stack.cutover import Cutover
from provision.stack.desired import DesiredService
from provision.stack.held import Held


@dataclass(frozen=True)
class Before:
    """A service before it goes back. ``back``: the profile that served before, as it was kept; None: there is none,
    ``said`` says why. ``whole``: does this controller have all files that the profile of the inventory is made of?"""

    machine: Machine
    host: Host
    own: DesiredService
    held: Held
    back: DesiredService | None
    said: str
    whole: bool = True


_NOT_REMEMBERED = (
    "what gives way is not remembered as taken back: this controller lacks files that the inventory names, so which "
    "profile that was cannot be told, and the next apply could put it into service again. Next: change it in the "
    "inventory before that"
)


def rollback(name: str, limit: Sequence[str], wanted: str, yes: bool, as_json: bool) -> int:
    """Exit code of ``provision rollback INVENTORY --service NAME``."""
    return finish(lambda: _rollback(name, limit, wanted, yes, as_json), "rollback", as_json)


def _rollback(name: str, limit: Sequence[str], wanted: str, yes: bool, as_json: bool) -> Answer:
    loaded = inventory.load(name, limit, names=False, files="reach")
    chosen = loaded.selected(limit).machines
    if wanted not in {
        one.name for box in chosen for guest in box.guests if guest.managed for one in guest.services
    }:
        raise ValueError(f"--service {wanted}: no service of kpro's in {name} has this name")
    here = {one.name: as_far_as_here(one) for one in loaded.machines}
    with connected(loaded, limit, (), f"rollback {name} --service {wanted}", False, here) as run:
        session: Session = run.session
        whole = {one.name for one in loaded.machines if here[one.name] is one}
        found = [
            replace(before, whole=machine.name in whole)
            for machine in run.machines
            for before in _look(session, machine, wanted)
        ]
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
    # What moved away, or is on its way, must not come back here by itself.
    if moved := standing.of_service(machine, seen.host, seen.guests, session.migrating.run, wanted):
        raise Refused(moved)
    for guest in machine.guests:
        inside = seen.guests.get(guest.name)
        for own in settle(machine, guest, session.wanted(machine).services[guest.name], seen.host, inside):
            if own.name != wanted:
                continue
            if inside is None:
                raise RunError(f"{guest.name} does not run: start it (provision apply), then go back")
            host = session.host(machine.guest_host_name(guest))
            try:
                has = held.held(own, inside)
            except CouldNotLook as error:
                why = "nothing was touched. Next: repair the guest until it can be read, then go back"
                raise RunError(
                    f"what {guest.name} holds of {own.name} cannot be told ({error}): {why}"
                ) from error
            back, said = going_back.profile_before(own, has, _files(host, own.name))
            found.append(Before(machine, host, own, has, back, said))
    return found


def _files(host: Host, name: str) -> dict[str, str]:
    """What the last cut-overs kept, by path; what is not there is left out. Raises RunError."""
    paths = going_back.paths(name)
    look = "if [ -e $f ]; then printf +; base64 -w 0 $f || exit 1; fi; echo"
    done = transport.run(host, f"for f in {' '.join(paths)}; do {look}; done", timeout=60)
    lines = done.text.splitlines()
    if not done.ok or len(lines) != len(paths):
        raise RunError(
            f"what served before {name} cannot be read in its guest: {done.error_text.strip()[:200] or 'no answer'}; "
            "nothing was touched. Next: make its files below /var/lib/kpro readable, then go back"
        )
    found = {path: line[1:] for path, line in zip(paths, lines, strict=True) if line}
    return {path: base64.b64decode(line).decode(errors="replace") for path, line in found.items()}


def _text(before: Before) -> str:
    serves, then = (
        before.held.stands or "nothing that was seen well",
        before.back.digest if before.back else "",
    )
    return (
        f"{before.own.name}: {serves[:12]} gives way to {then[:12]}, which served before; it is down for one start, "
        "and back as it is now if that does not generate"
    )


def _go_back(session: Session, before: Before) -> tuple[tuple[str, ...], int]:
    """What is left of it, and the exit code."""
    back, host = before.back, before.host
    if back is None:
        return (), EXIT_DONE
    voice = Voice(session.id, session.say)
    item = {"kind": BACK, "subject": before.own.name, "text": _text(before)}
    try:
        session.check_lock(before.machine)
        _note(session, before, "rollback", **item, details={"digest": back.digest}, todo=[_text(before)])
        stack.stage(host, back, voice)
        # The guest itself remembers what was taken back: it does so also when nobody looks any more.
        was = going_back.taken_back(before.own, before.held, now(), session.id)
        drain = back.service.drain_seconds
        asked = Cutover(back, None, "swap", drain_seconds=drain, back=True, taken_back=was)
        cutover.cutover(host, asked, voice)
        done = service.prove(host, before.own)
        if not done.ok:
            raise ActFailed(f"{back.service.unit} was put back and does not generate: {done.text.strip()}")
        if was is not None:
            again = "No run puts what was taken back into service again, until it changes in the inventory"
            session.say(f"{host.name}: {again}, or in the guest: rm {was.path}")
        elif not before.whole and before.held.stands:
            session.say(f"{host.name}: {_NOT_REMEMBERED}")
        _note(session, before, "rolled back", **item, back=[_text(before)], left=[])
    except RunError as error:
        session.problems.append(error)
        session.say(f"{host.name}: {error}")
        with suppress(RunError, OSError):
            _note(session, before, "failed", **item, why=str(error))
        return (str(error),), error.exit_code or EXIT_ERROR
    return (), EXIT_DONE


def _note(session: Session, before: Before, event: str, **facts: object) -> None:
    """In both journals. Raises RunError."""
    line = session.journal.write(event, host=before.host.name, **facts)
    host_journal.append(session.host(before.machine.host_name), session.id, line)
