"""Inventories: found, read, judged as a whole, and narrowed by ``--limit``. Nothing is connected to.

``load`` is what every command and pyinfra's ``config.py`` go through, so a wrong inventory looks the same
from everywhere and is refused before the first connection.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path

from provision.hub.controller import hide_token
from provision.inventory import groups, resolving
from provision.inventory.controller_rules import Files
from provision.inventory.file import read
from provision.inventory.judging import Judged, between, judge
from provision.inventory.reading import Reading
from provision.spec import Guest, HostGroup, Machine

_OF_SPECS = re.compile(
    r"^\s*(from provision\.spec import|import provision\.spec|from provision import [^\n]*\bspec\b)",
    re.MULTILINE,
)


class InventoryRefused(Exception):
    """An inventory, or a limit on it, that cannot be used. ``reasons``: all that is wrong, one text each."""

    def __init__(self, reasons: Sequence[str]) -> None:
        self.reasons = list(reasons)
        super().__init__("\n".join(self.reasons))


@dataclass(frozen=True)
class Selection:
    """What a limit names: machines whose own steps run, and guests. The machine of a selected guest is
    connected, and none of its own steps run unless it is in ``metal`` too."""

    metal: tuple[Machine, ...]
    guests: tuple[tuple[Machine, Guest], ...]

    @property
    def machines(self) -> tuple[Machine, ...]:
        """Every machine that is connected to, in the inventory's order."""
        found = {machine.name: machine for machine in self.metal}
        return tuple((found | {machine.name: machine for machine, _ in self.guests}).values())

    @property
    def host_names(self) -> tuple[str, ...]:
        """The pyinfra hosts that are named."""
        return tuple(machine.host_name for machine in self.metal) + tuple(
            machine.guest_host_name(guest) for machine, guest in self.guests
        )


@dataclass(frozen=True)
class Inventory:
    """An inventory without a mistake that can be seen from here."""

    path: Path
    machines: tuple[Machine, ...]
    groups: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Host groups of the file's own beside ``metal`` and ``guests``: the pyinfra hosts in each."""

    def selected(self, limit: Sequence[str] = ()) -> Selection:
        """What the patterns name: a machine (with its guests), a guest alone, or a group (``metal``,
        ``guests``, one of the file's own); wildcards count, several patterns add up, none means everything.

        Raises InventoryRefused when a pattern names nothing, with what there is.
        """
        unmatched = [pattern for pattern in limit if not any(self._names(pattern))]
        if unmatched:
            raise InventoryRefused(
                [
                    f"--limit {pattern} matches nothing: {self._there}{_several(pattern)}"
                    for pattern in unmatched
                ]
            )
        patterns = tuple(limit) or ("metal", "guests")
        found = [self._names(pattern) for pattern in patterns]
        metal = {machine.name for machines, _ in found for machine in machines}
        guests = {(machine.name, guest.name) for _, pairs in found for machine, guest in pairs}
        return Selection(
            tuple(machine for machine in self.machines if machine.name in metal),
            tuple(pair for pair in self._pairs if (pair[0].name, pair[1].name) in guests),
        )

    @property
    def _pairs(self) -> list[tuple[Machine, Guest]]:
        return [(machine, guest) for machine in self.machines for guest in machine.guests]

    def _names(self, pattern: str) -> tuple[list[Machine], list[tuple[Machine, Guest]]]:
        if pattern in ("all", self.path.stem):
            return list(self.machines), self._pairs
        if pattern == "metal":
            return list(self.machines), []
        if pattern == "guests":
            return [], self._pairs
        if pattern in self.groups:
            named = self.groups[pattern]
            return [machine for machine in self.machines if machine.host_name in named], [
                (machine, guest) for machine, guest in self._pairs if machine.guest_host_name(guest) in named
            ]
        metal = [
            machine
            for machine in self.machines
            if fnmatchcase(machine.name, pattern) or fnmatchcase(machine.host_name, pattern)
        ]
        return metal, [
            (machine, guest)
            for machine, guest in self._pairs
            if machine in metal
            or fnmatchcase(guest.name, pattern)
            or fnmatchcase(machine.guest_host_name(guest), pattern)
        ]

    @property
    def _there(self) -> str:
        machines = ", ".join(machine.name for machine in self.machines)
        guests = ", ".join(dict.fromkeys(guest.name for _, guest in self._pairs)) or "none"
        groups = ", ".join(["metal", "guests", *self.groups])
        return f"the machines are {machines}; the guests are {guests}; the groups are {groups}"


def _several(pattern: str) -> str:
    names = [name.strip() for name in pattern.split(",") if name.strip()]
    return (
        f"; give --limit once for each name: {' '.join(f'--limit {name}' for name in names)}"
        if names[1:]
        else ""
    )


def load(
    path_or_word: str,
    limit: Sequence[str] = (),
    *,
    files: Files = "all",
    names: bool = True,
) -> Inventory:
    """Reads an inventory and judges it. A bare word means ``inventories/<word>.py``, here or in the package.

    Two things hold for this controller at this moment only, and a plan against a recorded machine leaves them
    out: ``files`` (what is to be copied exists, secrets are kept), or all but those that this command needs, and
    ``names`` (the machines that ``limit`` selects can be resolved). Raises InventoryRefused with all reasons at once.
    """
    hide_token()
    path = find(path_or_word)
    reading = read(path)
    machines = groups.machines(reading)
    judged = {id(machine): judge(reading, machine, files) for _, machine in machines}
    for name, machine in machines:
        reading.reasons += [
            reading.say(machine, name, where, text) for where, text in judged[id(machine)].wrong
        ]
        for place in judged[id(machine)].apart:
            more = "is not judged as a whole, nor what depends on it, before that is right: more may follow"
            reading.reasons.append(reading.say(machine, name, place, more))
    own = {
        name: frozenset(str(entry[0]) for entry in group)
        for name, group in reading.names.items()
        if isinstance(group, HostGroup) and name not in ("metal", "guests")
    }
    for fleet in reading.hollow_fleets():
        name, found = reading.name_of(fleet), between(reading, fleet, judged)
        reading.reasons += [reading.say(fleet, name, where, text) for where, text in found]
    inventory = Inventory(path, tuple(one.whole for one in judged.values() if one.whole is not None), own)
    if machines and _are_called(reading, judged.values()):
        try:
            chosen = inventory.selected(limit).machines
        except InventoryRefused as error:
            reading.reasons += error.reasons
        else:
            written = {id(judged[id(machine)].whole): (machine, name) for name, machine in machines}
            for one, text in resolving.unresolvable(chosen) if names else ():
                reading.reasons.append(reading.say(*written[id(one)], ("ssh", "host"), text))
    if reading.reasons:
        raise InventoryRefused(list(dict.fromkeys(reading.reasons)))
    return inventory


def _are_called(reading: Reading, judged: Iterable[Judged]) -> bool:
    """Is it known what machines, guests and groups there are, and what machines are reached by? A file with a mistake
    of form ends where it makes its groups."""
    holes = [hole for one in judged for hole in one.holes]
    unknown = any({"name", "ssh"} & set(hole) or hole[-2:-1] == ("guests",) or not hole for hole in holes)
    return not holes or not (unknown or "HostGroup" in reading.source)


def find(path_or_word: str) -> Path:
    """The file that is meant. Raises InventoryRefused, with near names, when there is none."""
    if not path_or_word.strip():
        raise InventoryRefused(["an empty text names no inventory" + _near("", *folders_of_inventories())])
    if re.fullmatch(r"[\w-]+", path_or_word):
        return _of_word(path_or_word)
    path = Path(path_or_word)
    if path.is_file():
        if path.suffix not in (".py", ""):
            raise InventoryRefused(
                [
                    f"the inventory {path_or_word} is a {path.suffix} file, and an inventory is Python, a .py file: "
                    "inventories/kpro5.py is a model, and provision init HOST writes one"
                ]
            )
        return path
    if "@" in path_or_word and "/" not in path_or_word:
        why = f"{path_or_word} is a host, and an inventory is wanted here: provision init {path_or_word} writes one"
        raise InventoryRefused([f"{why}; inspect and record take hosts as they are"])
    if path.is_dir():
        what, folder = "is a folder, and an inventory is a .py file", path
    else:
        what, folder = "does not exist", path.parent
    raise InventoryRefused([f"the inventory {path_or_word} {what}" + _near(path.stem, folder)])


def _of_word(word: str) -> Path:
    folders = folders_of_inventories()
    for folder in folders:
        if (folder / f"{word}.py").is_file():
            return folder / f"{word}.py"
    looked = ", ".join(str(folder / f"{word}.py") for folder in folders)
    raise InventoryRefused([f"there is no inventory {word!r} (no {looked})" + _near(word, *folders)])


def folders_of_inventories() -> list[Path]:
    """Where a bare word is looked for: the working directory, then the checkout, then the package."""
    package = Path(__file__).resolve().parent.parent
    checkout = package.parent
    folders = [Path.cwd() / "inventories"]
    if (checkout / "pyproject.toml").is_file():
        folders.append(checkout / "inventories")
    folders.append(package / "_inventories")
    return list(dict.fromkeys(folder for folder in folders if folder.is_dir())) or folders[:1]


def _near(stem: str, *folders: Path) -> str:
    """``; did you mean kpro5?``, or the inventories that there are: in these folders, else where a bare word is looked
    for."""
    there = _inventories(folders) or _inventories(folders_of_inventories())
    near = get_close_matches(stem, there, n=3, cutoff=0.6)
    if near:
        return f"; did you mean {' or '.join(near)}?"
    return f"; there are {', '.join(there)}" if there else ""


def _inventories(folders: Sequence[Path]) -> list[str]:
    return sorted(
        {
            file.stem
            for folder in folders
            if folder.is_dir()
            for file in folder.glob("[!_]*.py")
            if _is_one(file)
        }
    )


def _is_one(file: Path) -> bool:
    """Is it made of kpro's specs? Beside an inventory there may be any other Python, such as deploy.py."""
    try:
        return _OF_SPECS.search(file.read_text("utf-8")) is not None
    except (OSError, ValueError):
        return False
