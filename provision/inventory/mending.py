"""A spec that could not be built, built again without what is wrong in it, so that everything else is judged too.

A reading tells what is wrong with the form of a file. Rules and files are asked in the same breath of what is left:
three mistakes of three kinds are one round and not three. What a wrong field decides is not judged: a rule that
saw its stand-in would complain of something that nobody wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from provision.forms import REFUSED, Where
from provision.inventory.reading import Reading
from provision.spec import Engine, Guest, Machine, Model, Service, Spec, Ssh
from provision.spec_base import watcher

S = TypeVar("S", bound=Spec)

STAND_INS: dict[str, Callable[[int], Any]] = {
    "name": "unnamed-{}".format,
    "host": "unknown-{}".format,
    "ssh": lambda count: Ssh(host=f"unknown-{count}"),
    "network": lambda _: "isolated",
    "port": lambda count: 65000 - count,
    "id": lambda count: str(900000000 + count),
    "backend": lambda _: "lxc",
    "repo": lambda _: "a/model",
    "revision": lambda _: "0" * 40,
}
"""What stands for a field that has no default, or whose default another may have: no two are equal that must not be."""

PARTS: dict[Any, Callable[[int], Spec]] = {
    Engine: lambda _: Engine(kind="standin", version="1.0.0"),
    Model: lambda _: Model(repo="a/model", revision="0" * 40),
}
"""What stands for a part without which the rest could not be judged, by its kind."""

MEMBERS: dict[str, Callable[[int], Spec]] = {
    "services": lambda count: Service(
        name=f"unnamed-{count}", engine=PARTS[Engine](count), model=PARTS[Model](count), port=65000 - count
    ),
    "guests": lambda count: Guest(name=f"unnamed-{count}", backend="lxc", id=str(900000000 + count)),
    "machines": lambda count: Machine(name=f"unnamed-{count}", ssh=Ssh(host=f"unknown-{count}")),
}
"""What stands for one of several that cannot be built at all, so that the others are judged as the whole that they
are."""

KEPT = ("machines", "guests", "services")
"""Never left out: what they hold would not be judged."""

DECIDES: dict[str, tuple[str, ...]] = {
    "engine": ("engine", "profile", "flags", "drafter", "environment"),
    "profile": ("flags", "drafter"),
    "drafter": ("flags",),
    "model": ("flags",),
    "environment": ("flags",),
    "suite": ("version", "python", "wheelhouse"),
    "gpus": ("kind", "flags", "gpus"),
    "mounts": ("folder",),
    "backend": ("id", "network", "mounts", "proxmox", "unprivileged"),
    "route": ("version", "flavour", "installer", "sha256"),
    "managed": ("services",),
    "found": ("api_key_file",),
    "source": ("lock", "patches", "wheelhouse", "folder", "path", "files", "token_file"),
    "folder": ("path", "files", "token_file"),
    "path": ("folder", "files", "token_file"),
    "ip": ("gateway",),
    "on": ("ssh",),
}
"""Which other fields, at any depth of the same spec, are judged by a field."""


class Cannot(Exception):
    """Nothing can stand for what is wrong."""


@dataclass
class Mended:
    """What could be built of a spec; ``holes``: the fields that were left out or stand in; ``apart``: those of
    them that stand in for a member, which is judged by itself, or for a part that decides about others; ``between``:
    what is wrong between fields that are right each for itself, which the reading of the file could not come to."""

    holes: list[Where] = field(default_factory=list)
    apart: list[Where] = field(default_factory=list)
    between: list[tuple[Where, str]] = field(default_factory=list)

    def judged(self, wrong: Iterable[tuple[Where, str]]) -> Iterator[tuple[Where, str]]:
        """The reasons that no hole is behind."""
        for where, text in wrong:
            if not any(_behind(hole, where) for hole in self.holes):
                yield where, text

    def saw(self, error: ValidationError, at: Where) -> None:
        """What the spec at this place says of its fields together. Before what is wrong becomes a hole."""
        own = [((*at, *line["loc"]), line["msg"]) for line in error.errors() if line["type"] == REFUSED]
        self.between += self.judged(own)


def mended(reading: Reading, spec: S) -> tuple[S, Mended]:
    """The spec itself where it is whole. Raises Cannot."""
    how = Mended()
    token = watcher.set(None)
    try:
        return _spec(reading, spec, (), how), how
    finally:
        watcher.reset(token)


def _spec(reading: Reading, spec: S, at: Where, how: Mended) -> S:
    if not reading.is_hollow(spec):
        return spec
    kind = type(spec)
    given: dict[str, Any] = {}
    for name, value in reading.built[id(spec)].given.items():
        try:
            given[name] = (
                _members(reading, value, (*at, name), how)
                if name in MEMBERS and type(value) in (list, tuple)
                else _value(reading, value, (*at, name), how)
            )
        except Cannot:
            _leave_out(kind, given, name, at, how)
    while True:
        try:
            return kind(**given)
        except ValidationError as error:
            how.saw(error, at)
            places = {line["loc"] for line in error.errors()}
            for place in places:
                _cut(kind, given, place, at, how)


def _cut(kind: type[Spec], given: dict[str, Any], place: Where, at: Where, how: Mended) -> None:
    """Leaves out what is wrong at ``place`` under a spec: as little as can be. Raises Cannot, also where it was left
    out before."""
    if not place:
        raise Cannot
    name, inner = str(place[0]), place[1:]
    value = given.get(name)
    if isinstance(value, Spec) and inner:
        given[name] = _copy(value, inner, (*at, name), how)
    elif isinstance(value, list | tuple) and inner and name in MEMBERS:
        index, members = int(inner[0]), list(value)
        try:
            if not isinstance(members[index], Spec) or len(inner) == 1:
                raise Cannot
            members[index] = _copy(members[index], inner[1:], (*at, name, index), how)
        except Cannot:
            members[index] = _stands_for(name, (*at, name, index), how)
        given[name] = members
    elif isinstance(value, list | tuple) and len(inner) > 1 and isinstance(value[int(inner[0])], Spec):
        index, members = int(inner[0]), list(value)
        try:
            members[index] = _copy(members[index], inner[1:], (*at, name, index), how)
            given[name] = members
        except Cannot:
            _cut(kind, given, (name,), at, how)
    elif (*at, name) in how.holes:
        raise Cannot
    else:
        _leave_out(kind, given, name, at, how)


def _copy(spec: Spec, place: Where, at: Where, how: Mended) -> Spec:
    kind = type(spec)
    given = {name: getattr(spec, name) for name in spec.model_fields_set}
    _cut(kind, given, place, at, how)
    try:
        return kind(**given)
    except ValidationError:
        raise Cannot from None


def _value(reading: Reading, value: Any, at: Where, how: Mended) -> Any:
    if isinstance(value, Spec):
        return _spec(reading, value, at, how)
    if type(value) in (list, tuple):
        return [_value(reading, item, (*at, index), how) for index, item in enumerate(value)]
    return value


def _members(reading: Reading, value: Sequence[Any], at: Where, how: Mended) -> list[Any]:
    found = []
    for index, member in enumerate(value):
        try:
            found.append(_value(reading, member, (*at, index), how))
        except Cannot:
            found.append(_stands_for(str(at[-1]), (*at, index), how))
    return found


def _stands_for(name: str, at: Where, how: Mended) -> Spec:
    """Raises Cannot where something stood for it already."""
    if at in how.apart:
        raise Cannot
    made = MEMBERS[name](len(how.holes))
    how.holes.append(at)
    how.apart.append(at)
    return made


def _leave_out(kind: type[Spec], given: dict[str, Any], name: str, at: Where, how: Mended) -> None:
    known = kind.model_fields.get(name)
    if name in KEPT:
        raise Cannot
    given.pop(name, None)
    if known is not None and known.annotation in PARTS:
        given[name] = PARTS[known.annotation](len(how.holes))
        how.apart.append((*at, name))
    elif known is not None and name in STAND_INS:
        given[name] = STAND_INS[name](len(how.holes))
    elif known is not None and known.is_required():
        raise Cannot
    how.holes.append((*at, name))


def _behind(hole: Where, where: Where) -> bool:
    if where[: len(hole)] == hole or hole[: len(where)] == where:
        return True
    for index, part in enumerate(hole):
        decided = DECIDES.get(str(part), ())
        if where[:index] == hole[:index] and any(str(name) in decided for name in where[index:]):
            return True
    return False
