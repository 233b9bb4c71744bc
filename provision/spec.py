"""What an operator writes: machines, GPUs, guests, services. Typed, frozen, refused as a whole when wrong.

An inventory file builds one ``Machine`` (or a ``Fleet``) from these and ends with
``metal, guests = machine.pyinfra_groups()``.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from checks.bdf import Bdf


class Spec(BaseModel):
    """Unknown keys are refused: a typo must never become a silent default."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)


def _bdf(text: str) -> str:
    return str(Bdf.parse(text))


def _name(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", text):
        raise ValueError(f"{text!r} is no name: lower-case letters, digits and dashes, at most 63")
    return text


def _absolute(path: str) -> str:
    if not path.startswith("/") or ".." in Path(path).parts or re.search(r"[\s,]", path):
        raise ValueError(f"{path!r} must be absolute, without '..', white space or commas")
    return path


def _address(text: str) -> str:
    ipaddress.ip_address(text)
    return text


Name = Annotated[str, AfterValidator(_name)]
BdfText = Annotated[str, AfterValidator(_bdf)]
AbsolutePath = Annotated[str, AfterValidator(_absolute)]


class Gpu(Spec):
    """A GPU of the machine, by PCI address; ``model`` is compared with what is really there."""

    bdf: BdfText
    model: str


class Driver(Spec):
    """The NVIDIA driver that the machine must run: pinned version, ``open`` or ``proprietary``, and its route."""

    version: str
    flavour: Literal["open", "proprietary"] = "open"
    route: Literal["debian", "nvidia", "run", "ubuntu", "prebuilt"] = "debian"


class Ssh(Spec):
    """How the machine is reached. ``host`` may be an alias of the operator's ssh_config."""

    host: str
    port: int | None = Field(default=None, ge=1, le=65535)
    user: str | None = None
    key: str | None = None
    known_hosts: str | None = None


class Mount(Spec):
    """A folder of the machine, shown inside the guest."""

    source: AbsolutePath
    target: AbsolutePath
    read_only: bool = True


class Engine(Spec):
    """An engine environment: what is installed, from where, with which patches.

    ``index`` asks the guest's own configured Python index; ``wheel`` takes a folder of wheels on the
    controller and nothing else; ``git`` and ``tree`` are read by later steps of the same chain.
    """

    kind: str
    version: str
    source: Literal["index", "wheel"] = "index"
    wheelhouse: Path | None = None
    python: str = "3.11"

    @model_validator(mode="after")
    def _wheelhouse_goes_with_wheel(self) -> Engine:
        if (self.source == "wheel") != (self.wheelhouse is not None):
            raise ValueError("source='wheel' needs wheelhouse=<folder of wheels>, and only that source takes one")
        return self


class Model(Spec):
    """Model files, pinned to a commit.

    ``folder`` is a folder on the controller that is copied and verified; without it the files must already be
    in the guest under ``/srv/models`` (a mount of the machine), with their manifest.
    """

    repo: str = Field(pattern=r"^[\w.-]+/[\w.-]+$")
    revision: str = Field(pattern=r"^[0-9a-f]{40}$")
    folder: Path | None = None

    @property
    def directory(self) -> str:
        """Where the files lie in the guest."""
        return f"/srv/models/{self.repo.replace('/', '--')}@{self.revision}"


class Baseline(Spec):
    """What this service did when it was well: the figure that a regression is measured against."""

    decode_tok_s: float = Field(gt=0)
    concurrency: int = Field(default=1, ge=1)
    source: str


class Candidate(Spec):
    """What is to be tried instead. It never becomes the service unless it proves to be better."""

    engine: Engine
    profile: str
    drafter: Model | None = None
    flags: tuple[str, ...] = ()


class Service(Spec):
    """One LLM service of a guest; its unit is ``kpro-<name>.service``."""

    name: Name
    engine: Engine
    model: Model
    drafter: Model | None = None
    profile: str = "plain"
    flags: tuple[str, ...] = ()
    environment: dict[str, str] = Field(default_factory=dict)
    listen: Annotated[str, AfterValidator(_address)] = "127.0.0.1"
    port: int = Field(default=8000, ge=1, le=65535)
    api_key_file: Path | None = None
    ready_seconds: int = Field(default=900, ge=1)
    replay: Path | None = None
    baseline: Baseline | None = None
    candidate: Candidate | None = None

    @property
    def unit(self) -> str:
        return f"kpro-{self.name}.service"

    @property
    def loopback(self) -> bool:
        return ipaddress.ip_address(self.listen).is_loopback

    @model_validator(mode="after")
    def _a_public_service_has_a_key(self) -> Service:
        if not self.loopback and self.api_key_file is None:
            raise ValueError(f"listen={self.listen} is not loopback: api_key_file is needed")
        return self


class Guest(Spec):
    """A container of the machine. ``id`` is the Proxmox vmid (``pct``) or the container's name (``lxc``)."""

    name: Name
    backend: Literal["pct", "lxc"]
    id: str
    suite: Literal["bookworm", "trixie"] = "bookworm"
    unprivileged: bool = False
    network: Literal["host", "isolated"] | Annotated[str, Field(pattern=r"^bridge:[\w.-]{1,15}$")] = "host"
    gpus: tuple[BdfText, ...] = ()
    userspace: Literal["packages", "run", "bind"] = "bind"
    mounts: tuple[Mount, ...] = ()
    services: tuple[Service, ...] = ()

    @field_validator("id", mode="before")
    @classmethod
    def _id_as_text(cls, value: Any) -> Any:
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @model_validator(mode="after")
    def _coherent(self) -> Guest:
        if self.backend == "pct" and not re.fullmatch(r"[1-9]\d{2,8}", self.id):
            raise ValueError(f"id={self.id!r}: a Proxmox vmid is a number from 100 up")
        if self.backend == "lxc":
            _name(self.id)
        names = [service.name for service in self.services]
        if len(set(names)) != len(names):
            raise ValueError(f"two services are called {_first_twice(names)!r}")
        ports = [service.port for service in self.services]
        if len(set(ports)) != len(ports):
            raise ValueError(f"two services on port {_first_twice(ports)}")
        return self


class Machine(Spec):
    """A host and its guests.

    ``managed = False``: steps 2-5 and 7 only observe (a host whose driver somebody else looks after).
    ``ssh = None``: the machine that kpro itself runs on.
    """

    name: Name
    ssh: Ssh | None = None
    managed: bool = True
    reboot: Literal["allowed", "refused"] = "refused"
    gpus: tuple[Gpu, ...] = ()
    driver: Driver | None = None
    guests: tuple[Guest, ...] = ()

    @model_validator(mode="after")
    def _coherent(self) -> Machine:
        own = [gpu.bdf for gpu in self.gpus]
        if len(set(own)) != len(own):
            raise ValueError(f"GPU {_first_twice(own)} is listed twice")
        taken: dict[str, str] = {}
        for guest in self.guests:
            for bdf in guest.gpus:
                if bdf not in own:
                    raise ValueError(f"guest {guest.name!r} wants GPU {bdf}, which machine.gpus does not list")
                if bdf in taken:
                    raise ValueError(f"GPU {bdf} is given to {taken[bdf]!r} and to {guest.name!r}")
                taken[bdf] = guest.name
        for what, values in (
            ("guests are called", [guest.name for guest in self.guests]),
            ("guests have the id", [f"{guest.backend}:{guest.id}" for guest in self.guests]),
        ):
            if len(set(values)) != len(values):
                raise ValueError(f"two {what} {_first_twice(values)!r}")
        shared = [
            service.port for guest in self.guests if guest.network == "host" for service in guest.services
        ]
        if len(set(shared)) != len(shared):
            raise ValueError(f"two services on port {_first_twice(shared)} of the machine's own network")
        return self

    @property
    def host_name(self) -> str:
        """The name of the machine as a pyinfra host."""
        return self.name if self.ssh else "@local"

    def guest_host_name(self, guest: Guest) -> str:
        return f"@guest/{self.host_name}/{guest.name}"

    def pyinfra_groups(self) -> tuple[HostGroup, HostGroup]:
        """The two pyinfra groups of the machine: the metal and its guests."""
        return Fleet(machines=(self,)).pyinfra_groups()


class Fleet(Spec):
    """Many machines in one inventory."""

    machines: tuple[Machine, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_are_unique(self) -> Fleet:
        names = [machine.host_name for machine in self.machines]
        if len(set(names)) != len(names):
            raise ValueError(f"two machines are called {_first_twice(names)!r}")
        return self

    def pyinfra_groups(self) -> tuple[HostGroup, HostGroup]:
        metal, guests = HostGroup(), HostGroup()
        for machine in self.machines:
            metal.append((machine.host_name, {"machine": machine, **_connection(machine.ssh)}))
            for guest in machine.guests:
                guests.append(
                    (
                        machine.guest_host_name(guest),
                        {"machine": machine, "guest": guest},
                    )
                )
        return metal, guests

    def __iter__(self) -> Iterator[Machine]:  # type: ignore[override]
        return iter(self.machines)


class HostGroup(list[tuple[str, dict[str, Any]]]):
    """A pyinfra host group made from specs. A plain list of strings in an inventory is refused: pyinfra would
    take every string in it for a host (``PACKAGES = ["curl"]`` makes a host called curl)."""


def _connection(ssh: Ssh | None) -> dict[str, Any]:
    if ssh is None:
        return {}
    pairs = {
        "ssh_hostname": ssh.host,
        "ssh_port": ssh.port,
        "ssh_user": ssh.user,
        "ssh_key": ssh.key,
        "ssh_known_hosts_file": ssh.known_hosts,
        "ssh_strict_host_key_checking": "yes" if ssh.known_hosts else None,
    }
    return {key: value for key, value in pairs.items() if value is not None}


def _first_twice(values: list[Any]) -> Any:
    return next(value for value in values if values.count(value) > 1)
