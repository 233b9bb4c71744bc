"""A container's configuration file as it is to be: what a guest needs and lacks is added, all else stays byte for byte.

A devN is found again by its path. What a file says already in another way (another mode, ``onboot: 0``) is its owner's
word: it is noted, or refused where the service could not work with it, and never rewritten. Only lines that kpro wrote
itself (``ours``) are replaced or removed. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from provision.guest.proxmox.grammar import PENDING, Conf, Line, parse, properties
from provision.guest.proxmox.lines import as_printed, device_path, mount_point, plain_path, raw_place
from provision.guest.proxmox.schema import DEVICE, FEATURES, MOUNT
from provision.guest.proxmox.text import written

GPU_NODE = re.compile(r"/dev/nvidia[0-9]+")


@dataclass(frozen=True)
class Place:
    """A folder of the machine that the guest sees. ``shared``: it is on a storage that several nodes have. A
    replication job of the container would fail of one without ``replicate=0`` (get_replicatable_volumes)."""

    source: str
    target: str
    read_only: bool = True
    shared: bool = False

    @property
    def value(self) -> str:
        read_only = ",ro=1" if self.read_only else ""
        shared = ",shared=1" if self.shared else ""
        # In Proxmox's own order: it prints a mount point anew when it applies one, and the line is known again by it.
        return f"{self.source},mp={self.target},backup=0,replicate=0{read_only}{shared}"


@dataclass(frozen=True)
class Wanted:
    """What a guest needs of its container. ``nodes`` are device paths of the machine; ``keys`` are added where the file
    does not say them; ``raw`` are ``lxc.*`` lines that only a raw edit can add; ``user`` is the uid and gid, inside,
    that opens the nodes."""

    nodes: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()
    nesting: bool = True
    keys: tuple[tuple[str, str], ...] = ()
    raw: tuple[tuple[str, str], ...] = ()
    user: int = 8100


@dataclass(frozen=True)
class Edited:
    """``text`` is the whole file afterwards. ``options`` and ``delete`` are the part of it that ``pct set`` can do,
    ``lines`` and ``dropped`` the raw lines that it cannot. ``changed``: keys whose value was another one before: a
    running container gets that at its next start only. ``pending``: something that is needed waits for that start
    already. ``kept``: kpro's lines of before that are still there. ``wrong`` are (what was seen, why it matters, next
    step)."""

    text: str
    options: dict[str, str] = field(default_factory=dict)
    delete: tuple[str, ...] = ()
    lines: tuple[tuple[str, str], ...] = ()
    dropped: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    pending: bool = False
    kept: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    wrong: tuple[tuple[str, str, str], ...] = ()

    @property
    def ours(self) -> frozenset[str]:
        """The lines that this edit puts there."""
        return frozenset(
            [f"{key}: {value}" for key, value in self.options.items()]
            + [f"{key}: {value}" for key, value in self.lines]
        )


class _Edit:
    """Collects one file's changes."""

    def __init__(self, conf: Conf, ours: frozenset[str], id: str) -> None:
        self.conf = conf
        self.ours = frozenset(as_printed(*text.partition(": ")[::2]) for text in ours)
        self.id = id
        self.effective = conf.effective()
        self.options: dict[str, str] = {}
        self.delete: list[str] = []
        self.lines: list[tuple[str, str]] = []
        self.dropped: list[str] = []
        self.pending = False
        self.notes: list[str] = []
        self.wrong: list[tuple[str, str, str]] = []

    def is_ours(self, line: Line) -> bool:
        return as_printed(line.key, line.value) in self.ours

    def free(self, kind: str) -> str | None:
        """The lowest number that no line of the current or pending configuration has."""
        taken = {line.key for line in self.conf.of_kind("option") if line.section in ("", "pve:pending")}
        taken |= self.conf.deleted | set(self.options)
        return next((f"{kind}{number}" for number in range(256) if f"{kind}{number}" not in taken), None)

    def indexed(self, kind: str) -> dict[str, Line]:
        """The lines that Proxmox takes: of what one says that it does not, nothing is known."""
        named = {
            key: line
            for key, line in self.effective.items()
            if line.problem is None and re.fullmatch(f"{kind}[0-9]+", key)
        }
        return dict(sorted(named.items(), key=lambda pair: int(pair[0].removeprefix(kind))))

    def leaves(self, kind: str, place: str) -> bool:
        """Does a line of the current configuration have this place until the next start, which changes or removes it?
        A second line of it would be wrong until then."""
        path_of = device_path if kind == "dev" else mount_point
        for key, line in self.conf.options().items():
            named = re.fullmatch(f"{kind}[0-9]+", key) is not None and path_of(line) == place
            if named and self.effective.get(key) is not line:
                self.wrong.append(
                    (
                        f"{key}: {line.value} goes at the container's next start",
                        f"{place} is needed after it too, and cannot be there twice until then",
                        f"pct reboot {self.id} (pct start, where it is stopped), then run again",
                    )
                )
                return True
        return False

    def nodes(self, wanted: Wanted) -> None:
        there: dict[str, tuple[str, dict[str, str]]] = {}
        for key, line in self.indexed("dev").items():
            there.setdefault(device_path(line), (key, properties(line.value, DEVICE)[0]))
        stale = [
            key
            for key, line in self.indexed("dev").items()
            if self.is_ours(line) and device_path(line) not in wanted.nodes
        ]
        for path in wanted.nodes:
            if path in there:
                self.pending |= self.effective[there[path][0]].section == PENDING
                self._usable(path, *there[path], wanted.user)
                continue
            # A GPU whose minor moved keeps its line, so that the other lines keep theirs.
            reuse = next((key for key in stale if bool(GPU_NODE.fullmatch(path)) == _is_gpu(self, key)), None)
            if reuse is not None:
                stale.remove(reuse)
            elif self.leaves("dev", path):
                continue
            name = reuse or self.free("dev")
            if name is None:
                self.wrong.append(
                    ("all 256 devN lines are taken", f"{path} cannot be passed in", "remove some of them")
                )
                return
            self.options[name] = f"{path},mode=0666"
        self.delete += stale

    def _usable(self, path: str, key: str, parts: Mapping[str, str], user: int) -> None:
        """Can the service's user open it? Without a mode it is root's alone (0660)."""
        mode = int(parts.get("mode", "0660"), 8)
        owner, group = int(parts.get("uid", 0)), int(parts.get("gid", 0))
        bits = mode >> 6 if owner == user else mode >> 3 if group == user else mode
        if parts.get("deny-write") == "1" or bits & 6 != 6:
            kept = "".join(f",{name}={parts[name]}" for name in ("uid", "gid") if name in parts)
            self.wrong.append(
                (
                    f"{key} passes in {path} with mode {parts.get('mode', '0660')}"
                    + (", deny-write" if parts.get("deny-write") == "1" else ""),
                    f"a service that runs as uid {user} cannot open it, and a line of somebody else is not rewritten",
                    f"pct set {self.id} -{key} {path}{kept},mode=0666",
                )
            )

    def places(self, wanted: Wanted) -> None:
        there = {}
        for key, line in self.indexed("mp").items():
            there[mount_point(line)] = (key, line, properties(line.value, MOUNT)[0])
        for place in wanted.places:
            found = there.get(plain_path(place.target))
            if found is None and self.leaves("mp", plain_path(place.target)):
                continue
            if found is None:
                name = self.free("mp")
                if name is None:
                    self.wrong.append(
                        ("all 256 mpN lines are taken", f"{place.source} cannot be mounted", "remove some")
                    )
                    return
                self.options[name] = place.value
                continue
            key, line, parts = found
            same = parts["volume"].startswith("/") and plain_path(parts["volume"]) == plain_path(place.source)
            writable = place.read_only or parts.get("ro", "0") != "1"
            if same and writable:
                self.pending |= line.section == PENDING
                continue
            if self.is_ours(line):
                self.options[key] = place.value
            else:
                self.wrong.append(
                    (
                        f"{key} mounts {parts['volume']}{'' if writable else ' read-only'} at {place.target}",
                        f"{place.source} is wanted there, and a line of somebody else is not rewritten",
                        f"pct set {self.id} -{key} {place.value}, or correct the guest's mounts",
                    )
                )

    def keys(self, wanted: Wanted) -> None:
        for key, value in wanted.keys:
            line = self.effective.get(key)
            if line is None and key in self.conf.deleted:
                self.notes.append(f"{key} goes at the next start (it is to be deleted then)")
            elif line is None or (self.is_ours(line) and line.value != value):
                self.options[key] = value
            elif line.value != value and not _equal(line.value, value):
                self.notes.append(
                    f"{key} is {line.value}, and would be {value} (pct set {self.id} -{key} {value})"
                )
        if not wanted.nesting:
            return
        line = self.effective.get("features")
        if line is None:
            if "features" in self.conf.deleted:
                self.notes.append("features go at the next start (they are to be deleted then)")
            else:
                self.options["features"] = "nesting=1"
            return
        if line.problem is not None:
            return
        nesting = properties(line.value, FEATURES)[0].get("nesting")
        if nesting is None and line.section == PENDING:
            self.notes.append(f"features will be {line.value} at the next start, without nesting")
        elif nesting is None:
            self.options["features"] = f"{line.value.rstrip(', ')},nesting=1"
        elif nesting == "1":
            self.pending |= line.section == PENDING
        else:
            self.notes.append("features says nesting=0: systemd in the container cannot isolate its services")

    def raw(self, wanted: Wanted) -> None:
        needed = {raw_place(key, value): value for key, value in wanted.raw}
        for line in self.conf.of("raw"):
            if self.is_ours(line) and needed.get(raw_place(line.key, line.value)) != line.value:
                self.dropped.append(line.text)
        lines = [line for line in self.conf.of("raw") if line.text not in self.dropped]
        there = {raw_place(line.key, line.value): line.value for line in lines}
        for key, value in wanted.raw:
            found = there.get(raw_place(key, value))
            if found is None:
                self.lines.append((key, value))
            elif found != value:
                self.notes.append(f"{key} is {found}, and would be {value}: it is left as it is")


def _is_gpu(edit: _Edit, key: str) -> bool:
    return GPU_NODE.fullmatch(device_path(edit.effective[key])) is not None


def _equal(one: str, other: str) -> bool:
    """Two spellings of one boolean or number."""
    words = {"on": "1", "yes": "1", "true": "1", "off": "0", "no": "0", "false": "0"}
    return words.get(one.lower(), one) == words.get(other.lower(), other)


def edit(text: str, wanted: Wanted, ours: Iterable[str] = (), id: str = "<vmid>") -> Edited:
    """The file with all that the guest needs. ``ours`` are lines (``key: value``) that kpro put there before."""
    work = _Edit(parse(text), frozenset(ours), id)
    work.nodes(wanted)
    work.places(wanted)
    work.keys(wanted)
    work.raw(wanted)
    after = written(text, work.options, work.delete, work.lines, work.dropped)
    kept = [
        f"{line.key}: {line.value}"
        for line in parse(after).lines
        if line.kind in ("option", "raw") and line.section in ("", PENDING) and work.is_ours(line)
    ]
    return Edited(
        after,
        work.options,
        tuple(work.delete),
        tuple(work.lines),
        tuple(work.dropped),
        tuple(key for key in work.options if key in work.effective),
        work.pending,
        frozenset(kept),
        tuple(work.notes),
        tuple(work.wrong),
    )
