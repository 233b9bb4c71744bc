"""All rules, of a machine as it is written: whole, or what is left of it without its mistakes of form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from provision.forms import Where
from provision.inventory import controller_rules, rules, secret_rules
from provision.inventory.controller_rules import Files, looked_at
from provision.inventory.mending import MEMBERS, Cannot, Mended, mended
from provision.inventory.reading import Reading, item
from provision.spec import Fleet, Guest, Machine, Service, Spec

Wrong = Iterator[tuple[Where, str]]


@dataclass(frozen=True)
class Judged:
    """``wrong``: every reason by field. ``apart``: the places of what could not be judged as a whole (empty: the
    machine itself). ``whole``: what is left of the machine without its mistakes of form, None where nothing is;
    ``holes``: where something is missing in it, or stands in."""

    wrong: list[tuple[Where, str]]
    apart: list[Where]
    whole: Machine | None
    holes: list[Where]


NOTHING = Judged([], [()], None, [()])
"""Of what is no machine."""


def judge(reading: Reading, machine: Machine, files: Files) -> Judged:
    """``files``: which of this controller's are looked at too."""
    try:
        whole, how = mended(reading, machine)
    except Cannot:
        return Judged(list(_apart(reading, machine, files)), [()], None, [()])
    found = [*how.between, *how.judged(_machine(reading, whole, files))]
    return Judged([*found, *_members(reading, machine, how, files)], how.apart, whole, how.holes)


def between(reading: Reading, fleet: Fleet, judged: Mapping[int, Judged]) -> Wrong:
    """What is wrong between the machines of a fleet, as far as they are known, by field of the fleet. ``judged``: by
    the machine's id()."""
    given = reading.built[id(fleet)].given["machines"]
    members = [judged.get(id(member), NOTHING) for member in given]
    holes: list[Where] = [("machines", at, *hole) for at, one in enumerate(members) for hole in one.holes]
    whole: Any = [one.whole or MEMBERS["machines"](at) for at, one in enumerate(members)]
    # Made without the fleet's own judgement: this is it.
    yield from Mended(holes).judged(Fleet.model_construct(machines=tuple(whole)).between())


def _of(
    reading: Reading, spec: Any, judged: Callable[[Any], Wrong]
) -> tuple[Mended, list[tuple[Where, str]]]:
    """Raises Cannot before anything is judged."""
    whole, how = mended(reading, spec)
    return how, [*how.between, *how.judged(judged(whole))]


def _members(reading: Reading, spec: Spec, how: Mended, files: Files) -> Wrong:
    """Those for which something stood in, each for itself: guests of a machine, services of a guest."""
    for place in how.apart:
        member: Any = spec
        for part in place:
            here = reading.built.get(id(member))
            member = here.given.get(str(part)) if here is not None else item(member, part)
        if isinstance(member, Service):
            for where, text in _service(reading, member, files):
                yield (*place, *where), text
        elif isinstance(member, Guest):
            for where, text in _guest_apart(reading, member, files):
                yield (*place, *where), text


def _machine(reading: Reading, machine: Machine, files: Files) -> Wrong:
    yield from rules.of_machine(machine)
    for at, guest in enumerate(machine.guests):
        for index, service in enumerate(guest.services):
            for where, text in secret_rules.in_clear(service, reading.source):
                yield ("guests", at, "services", index, *where), text
    yield from _read(files, controller_rules.on_this_controller(machine))


def _apart(reading: Reading, machine: Machine, files: Files) -> Wrong:
    """Each guest for itself where the machine cannot be mended, and each service where its guest cannot."""
    yield from _read(files, _parts(reading, machine, ("ssh", "hub")))
    for at, guest in reading.members(machine, "guests", Guest):
        for where, text in _guest_apart(reading, guest, files):
            yield ("guests", at, *where), text


def _guest_apart(reading: Reading, guest: Guest, files: Files) -> Wrong:
    try:
        how, found = _of(reading, guest, lambda whole: _guest(reading, whole, files))
    except Cannot:
        for index, service in reading.members(guest, "services", Service):
            for where, text in _service(reading, service, files):
                yield ("services", index, *where), text
        return
    yield from found
    yield from _members(reading, guest, how, files)


def _guest(reading: Reading, guest: Guest, files: Files) -> Wrong:
    yield from rules.of_guest(guest) if guest.managed else ()
    for index, service in enumerate(guest.services):
        found = list(secret_rules.in_clear(service, reading.source))
        found += _read(files, controller_rules.of_service(service, rules.GLIBC[guest.suite]))
        for where, text in found:
            yield ("services", index, *where), text


def _service(reading: Reading, service: Service, files: Files) -> Wrong:
    def judged(whole: Service) -> Wrong:
        yield from rules.of_service(whole)
        yield from secret_rules.in_clear(whole, reading.source)
        yield from _read(files, controller_rules.of_service(whole, None))

    try:
        yield from _of(reading, service, judged)[1]
    except Cannot:
        yield from _read(files, _parts(reading, service, ("engine", "model", "drafter")))
        key = reading.built[id(service)].given.get("api_key_file")
        yield from _read(files, controller_rules.of_key(key))


def _read(files: Files, found: Wrong) -> Wrong:
    """Of what is wrong with files of the controller, that which matters; without any, none is looked at."""
    if files != "none":
        yield from (row for row in found if looked_at(files, row[0]))


def _parts(reading: Reading, spec: Spec, fields: tuple[str, ...]) -> Wrong:
    """The files that the sound parts of a spec name which cannot be mended itself."""
    given = reading.built[id(spec)].given
    for field in fields:
        if not reading.is_hollow(given.get(field)):
            for where, text in controller_rules.of_part(given.get(field)):
                yield (field, *where), text
