"""What an operator writes: machines, GPUs, guests, services. Typed, frozen, refused as a whole when wrong.

An inventory file builds one ``Machine`` (or a ``Fleet``) from these and ends with
``metal, guests = machine.pyinfra_groups()``. What the types cannot know (versions, files, names that must
resolve) is judged by ``provision.inventory``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt, StringConstraints, model_validator

from provision.forms import AbsolutePath, BdfText, CardName, Name, Where, later, refuse
from provision.spec_base import Spec
from provision.spec_engine import Engine, Patch
from provision.spec_guest import Guest, Mount, Proxmox, claims, taken_twice
from provision.spec_migration import CopySettings, ExtraPath, HAProxy, Hooks, Migration
from provision.spec_model import Hub, Model
from provision.spec_service import Baseline, Candidate, Found, Service
from provision.spec_silence import Silence
from provision.spec_ssh import Ssh

__all__ = [
    "Baseline",
    "Candidate",
    "CopySettings",
    "Driver",
    "Engine",
    "ExtraPath",
    "Fleet",
    "Found",
    "Gpu",
    "Guest",
    "HAProxy",
    "Hooks",
    "HostGroup",
    "Hub",
    "Machine",
    "Migration",
    "Model",
    "Mount",
    "Patch",
    "Proxmox",
    "Service",
    "Silence",
    "Spec",
    "Ssh",
]


class Gpu(Spec):
    """A GPU of the machine, by PCI address; ``model`` is compared with what is really there, in whole words: each must
    be one of the name that the driver or the bus's list gives the card. ``H20`` is no H200, ``RTX 6000`` no RTX 6000
    Ada; ``H100`` is every build of it (SXM, PCIe, NVL)."""

    bdf: BdfText
    model: CardName


class Driver(Spec):
    """The NVIDIA driver that the machine must run: a pinned version, its flavour and its route.

    ``installer`` (route ``run``, and guests with ``userspace="run"``) is the .run file on the controller, by default
    the one in its cache; ``sha256`` is what it must have, by default what the ``.sha256sum`` beside it says."""

    version: str
    flavour: Literal["open", "proprietary"] = "open"
    route: Literal["debian", "nvidia", "run", "ubuntu", "prebuilt"] = "debian"
    installer: AbsolutePath | None = None
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None


class Machine(Spec):
    """A host and its guests.

    ``managed = False``: steps 2-5 only observe (a host whose driver somebody else looks after). Step 7 copies that
    driver's user space into a folder of kpro's own, for the guests that have ``userspace="bind"``.
    ``ssh = None``: the machine that kpro itself runs on. ``gpu_count`` is how many NVIDIA GPUs the machine
    has in all, those that stay with virtual machines too; given, it must agree. ``models`` is the folder on the
    machine that model files are put in; LXC guests see it, read-only, at /srv/models where no mount of theirs holds
    their models. ``hub`` is where it fetches those that have ``source="hub"``.
    """

    name: Name
    ssh: Ssh | None = None
    managed: StrictBool = True
    reboot: Literal["allowed", "refused"] = "refused"
    gpus: tuple[Gpu, ...] = ()
    gpu_count: StrictInt | None = Field(default=None, ge=0)
    driver: Driver | None = None
    models: AbsolutePath = "/srv/models"
    hub: Hub = Field(default_factory=Hub)
    guests: tuple[Guest, ...] = ()

    @model_validator(mode="after")
    def _coherent(self) -> Machine:
        refuse("Machine", self._wrong())
        return self

    def _wrong(self) -> Iterator[tuple[Where, str]]:
        own = [gpu.bdf for gpu in self.gpus]
        for index, first in later(own):
            yield ("gpus", index, "bdf"), f"{own[index]} is already gpus[{first}]"
        if self.gpu_count is not None and self.gpu_count < len(own):
            yield ("gpu_count",), f"{self.gpu_count} is less than the {len(own)} GPUs that machine.gpus lists"
        taken: dict[str, int] = {}
        for at, guest in enumerate(self.guests):
            for index, bdf in enumerate(guest.gpus):
                where: Where = ("guests", at, "gpus", index)
                if bdf not in own:
                    listed = ", ".join(own) or "none"
                    yield where, f"{bdf} is no GPU of the machine: machine.gpus lists {listed}"
                elif taken.setdefault(bdf, at) != at:
                    yield (
                        where,
                        f"{bdf} is already given to guests[{taken[bdf]}] ({self.guests[taken[bdf]].name})",
                    )
        for index, first in later(guest.name for guest in self.guests):
            yield ("guests", index, "name"), f"{self.guests[index].name!r} is already guests[{first}]"
        for index, first in later((guest.backend, guest.id) for guest in self.guests):
            yield (
                ("guests", index, "id"),
                f"{self.guests[index].id} is already guests[{first}] ({self.guests[first].name})",
            )
        shared = [
            (("guests", at, *where), port, f"guests[{at}].{holder}")
            for at, guest in enumerate(self.guests)
            if guest.network == "host"
            for where, port, holder in claims(guest)
        ]
        for where, port, holder in taken_twice(shared):
            yield (
                where,
                (
                    f"{port} is already the port of {holder}: both guests use the machine's own network "
                    "(network='host'), where two services cannot listen on one port"
                ),
            )

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
        refuse("Fleet", self.between())
        return self

    def between(self) -> Iterator[tuple[Where, str]]:
        """What is wrong between machines that are right each for itself."""
        for index, first in later(machine.name for machine in self.machines):
            yield (
                ("machines", index, "name"),
                f"{self.machines[index].name!r} is already machines[{first}]",
            )
        for index, first in later(machine.host_name for machine in self.machines):
            if self.machines[index].name != self.machines[first].name:
                yield (
                    ("machines", index, "ssh"),
                    f"is missing, as it is for machines[{first}]: without ssh both are this machine",
                )

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
