"""The two ends of a migration as their inventories say them, and what a run knows beside. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from provision.adopt import words
from provision.data.engines import KEY_VARIABLES
from provision.guest.mounts import on_machine
from provision.plan import Refusal
from provision.spec import Found, Guest, Machine, Model, Service

Role = Literal["source", "target"]

STAGING = ".incoming"
"""What is copied lies below this folder of the machine's models until it is whole."""


@dataclass(frozen=True)
class End:
    """One end: ``inventory`` as it was named on the command line."""

    role: Role
    inventory: str
    machine: Machine
    guest: Guest
    service: Service

    @property
    def extra_paths(self) -> tuple[str, ...]:
        """What else moves, in the guest."""
        migration = self.service.migration
        return tuple(one.path for one in migration.extra_paths) if migration is not None else ()

    @property
    def name(self) -> str:
        return self.machine.name

    @property
    def where(self) -> str:
        """The service's field, with the machine before it: two inventories are read here."""
        guest = self.machine.guests.index(self.guest)
        return f"{self.name}: machine.guests[{guest}].services[{self.guest.services.index(self.service)}]"

    @property
    def models(self) -> tuple[tuple[str, Model], ...]:
        """The service's models by their role."""
        drafter = self.service.drafter
        return (("model", self.service.model), *((("drafter", drafter),) if drafter is not None else ()))

    def folder(self, role: str) -> str | None:
        """Where the files of a role lie in the guest; None where only the engine's own words say it."""
        found = self.service.found
        if found is None:
            return next((model.directory for name, model in self.models if name == role), None)
        if role == "model":
            return found.model
        return _drafter_of(found, self.service.drafter)

    def on_metal(self, path: str) -> str | None:
        """Where a path of the guest lies on the machine; None: in the guest's own root, or on a volume of its own."""
        return on_machine(self.machine, self.guest, path)

    @property
    def store(self) -> str:
        """The machine's folder that the guest reads its models from: what is copied is put there."""
        return self.on_metal("/srv/models") or self.machine.models

    @property
    def has_key(self) -> bool:
        """Does the service ask for a key?"""
        found = self.service.found
        if self.service.api_key_file is not None or found is None:
            return self.service.api_key_file is not None
        words = {word.partition("=")[0] for word in found.command}
        return bool(words & {"--api-key", "--admin-api-key"} or set(found.environment) & set(KEY_VARIABLES))


def one_address(one: End, two: End) -> str | None:
    """Where both machines are reached, when it is one place; None: at two."""
    return at_one(one.machine, two.machine)


def at_one(one: Machine, two: Machine) -> str | None:
    """The same of two machines."""
    here, there = one.ssh, two.ssh
    if here is None or there is None:
        return "this machine" if here is there else None
    port = here.port or 22
    return f"{here.host}, port {port}" if (here.host, port) == (there.host, there.port or 22) else None


def _drafter_of(found: Found, drafter: Model | None) -> str | None:
    """The folder of a drafter that an engine was started with: named by its path, or in the hub's cache beside the
    model (``models--ORG--NAME/snapshots/COMMIT``)."""
    started = words.started(found.command)
    if drafter is None or started is None or started.drafter is None:
        return None
    if started.drafter.startswith("/"):
        return started.drafter.rstrip("/")
    cache, mark, _ = (found.model or "").partition("/models--")
    if not mark:
        return None
    return f"{cache}/models--{started.drafter.replace('/', '--')}/snapshots/{drafter.revision}"


@dataclass(frozen=True)
class Reach:
    """How the source reaches the target's SSH server. ``route`` None: there is no way; ``why``: what was seen."""

    route: Literal["direct", "controller"] | None
    why: str = ""


@dataclass(frozen=True)
class Asked:
    """A gate that was asked about the source's files for the target's GPUs and engine, before anything is copied."""

    gate: str
    verdict: Literal["pass", "warn", "fail", "unknown", "skip"]
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pair:
    """Both ends, and what the run knows of them. ``cold``: the source is not there. ``reboot``: the target may boot.

    ``digests``: of the source's service as its inventory has it now, each with what it is (``own profile`` or
    ``candidate``); empty where kpro did not set it up. ``same_key``: are both ends' keys equal? None: not known.
    ``commands``: the words that each end's engine is started with. ``also``: what another part refuses of its own
    (the traffic before the service).
    """

    run: str
    source: End
    target: End
    cold: bool = False
    reboot: bool = False
    digests: Mapping[str, str] = field(default_factory=dict)
    same_key: bool | None = None
    reach: Reach | None = None
    port: int = 22
    asked: tuple[Asked, ...] = ()
    commands: Mapping[Role, tuple[str, ...]] = field(default_factory=dict)
    also: tuple[Refusal, ...] = ()

    @property
    def ends(self) -> tuple[End, End]:
        return self.source, self.target

    @property
    def extra_paths(self) -> tuple[str, ...]:
        """The target's inventory counts."""
        return self.target.extra_paths
