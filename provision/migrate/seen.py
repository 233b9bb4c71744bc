"""What was seen of the two ends: plain values. What could not be looked at is ``Unseen``, never a value. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar

from checks.snapshot import CouldNotLook
from provision.migrate.standing import Record

T = TypeVar("T")


@dataclass(frozen=True)
class Unseen:
    """It could not be looked at; ``why`` says what was in the way."""

    why: str


def value(seen: T | Unseen) -> T:
    """Raises CouldNotLook for what could not be looked at."""
    if isinstance(seen, Unseen):
        raise CouldNotLook(seen.why)
    return seen


@dataclass(frozen=True)
class Place:
    """A folder that is to be written to, or the nearest one above it that is there (``nearest``). ``free`` bytes and
    ``inodes`` for root; inodes None: the file system counts none (btrfs). ``mount``: where that file system is
    mounted."""

    path: str
    nearest: str
    device: str
    mount: str
    free: int
    inodes: int | None
    writable: bool
    folder: bool = True

    @property
    def there(self) -> bool:
        return self.nearest == self.path


@dataclass(frozen=True)
class Rsync:
    """``package``: the distribution's version of it, where there is one."""

    version: str
    package: str | None = None


@dataclass(frozen=True)
class Rrsync:
    """``python``: it is a Python program (rsync 3.2.4 and newer)."""

    path: str
    python: bool


@dataclass(frozen=True)
class Sshd:
    """The SSH server as ``sshd -T`` tells its settings. ``fingerprints`` of its host keys."""

    ports: tuple[int, ...]
    root_login: str
    keys_allowed: bool
    ciphers: tuple[str, ...]
    fingerprints: tuple[str, ...] = ()


@dataclass(frozen=True)
class Clock:
    """Seconds that a machine's clock is ahead of the controller's: between ``least`` and ``most``."""

    least: float
    most: float


@dataclass(frozen=True)
class Listener:
    """A TCP port that is listened on. ``owner``: program and pid, empty where they are not told."""

    port: int
    address: str = ""
    owner: str = ""


@dataclass(frozen=True)
class MachineLook:
    """The metal. ``namespace``: of the mounts that its commands see, which tells two containers of one kernel apart.
    ``ids``: containers and virtual machines of the machine or its cluster, each with what it is. ``lock``: the line of
    the lock file while somebody holds it. ``driver``: version and flavour of the loaded one."""

    boot: str | Unseen
    namespace: str | Unseen
    hostname: str | Unseen
    clock: Clock | Unseen
    ntp: bool | None
    systemd: bool | Unseen
    python3: bool | Unseen
    rsync: Rsync | Unseen | None
    rrsync: Rrsync | Unseen | None
    sshd: Sshd | Unseen | None
    models: Place | Unseen
    staging: Place | Unseen
    state: Place | Unseen
    ids: Mapping[str, str] | Unseen
    listening: tuple[Listener, ...] | Unseen
    lock: str | Unseen | None
    migrations: Mapping[str, Record] | Unseen
    driver: tuple[str, str] | Unseen | None
    gpus: Mapping[str, str] | Unseen
    incoming: Mapping[str, Folder | Unseen | None] = field(default_factory=dict)
    """What lies on the machine where the files of a role are to be put (target)."""
    former: Mapping[str, Record] | Unseen = field(default_factory=dict)
    """By service, the state file of a migration that had ended before this run wrote its own."""


@dataclass(frozen=True)
class Folder:
    """Model files: ``files`` with their sizes by relative path, or None where they are too many to be told one by one.
    ``outside``: links that lead out of the folder, as in the hub's cache; ``odd``: neither file nor folder.
    ``revision``: the commit, or the digest of names and sizes, as ``provision init`` tells it."""

    path: str
    count: int
    size: int
    disk: int
    files: Mapping[str, int] | None = None
    outside: int = 0
    odd: int = 0
    newest: float = 0.0
    revision: str = ""
    damaged: tuple[str, ...] = ()
    """Files that are missing, or of another size than the folder's manifest says."""


@dataclass(frozen=True)
class Extra:
    """Something that moves beside: ``kind`` file, folder, link or other; ``real``: where it really lies; ``outside``:
    links in it that lead out."""

    path: str
    kind: str
    real: str
    count: int = 0
    size: int = 0
    outside: int = 0


@dataclass(frozen=True)
class UnitLook:
    """The service's unit. ``digest``: of the profile in its file, ``running``: of the process (both empty where kpro
    did not write it); ``names`` of the process's variables."""

    name: str
    active: str
    sub: str
    at_boot: str
    pid: int
    since: str
    file: str
    drop_ins: tuple[str, ...] = ()
    restarts: int = 0
    digest: str = ""
    running: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class GuestLook:
    """The guest of the service. ``generates``: what it answered, None where it generated; ``drift``: field and what was
    seen of it, of a service that somebody else set up."""

    systemd: bool | Unseen
    python3: bool | Unseen
    unit: UnitLook | Unseen | None
    generates: str | Unseen | None
    folders: Mapping[str, Folder | Unseen | None]
    extras: Mapping[str, Extra | Unseen | None]
    listening: tuple[Listener, ...] | Unseen
    named: Mapping[str, bool] | Unseen = field(default_factory=dict)
    """Files that the service's flags and variables name: are they there?"""
    drift: tuple[tuple[str, str], ...] | Unseen = ()


@dataclass(frozen=True)
class Looks:
    """One end: its machine and, where it can be entered, its guest, whose ``state`` is running, stopped or absent."""

    machine: MachineLook
    state: str | Unseen
    guest: GuestLook | None = None

    def as_dict(self) -> dict[str, Any]:
        """For the journal and ``--json``; what could not be looked at is ``{"unseen": why}``."""
        found: dict[str, Any] = _plain(self)
        return found


def _plain(seen: Any) -> Any:
    if isinstance(seen, Unseen):
        return {"unseen": seen.why}
    if is_dataclass(seen) and not isinstance(seen, type):
        return {one.name: _plain(getattr(seen, one.name)) for one in fields(seen)}
    if isinstance(seen, Mapping):
        return {str(key): _plain(inner) for key, inner in seen.items()}
    return [_plain(one) for one in seen] if isinstance(seen, tuple | list) else seen
