"""A container as an operator writes it: what it is, what it is given, what serves in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from pydantic import Field, StrictBool, StrictInt, field_validator, model_validator

from provision.forms import (
    AbsolutePath,
    BdfText,
    Gateway,
    GuestAddress,
    Name,
    Network,
    StorageName,
    Template,
    Where,
    later,
    refuse,
)
from provision.spec_base import Spec
from provision.spec_service import Service


class Mount(Spec):
    """A folder of the machine, shown inside the guest."""

    source: AbsolutePath
    target: AbsolutePath
    read_only: StrictBool = True


class Proxmox(Spec):
    """What ``pct create`` needs to make a container that is not there.

    ``template`` is a volume of Proxmox, ``local:vztmpl/debian-12-standard_12.7-1_amd64.tar.zst``; the root file system
    of ``size_gib`` GiB comes on ``storage``. ``memory_mib`` has to hold page cache and shared memory too: /dev/shm
    counts. ``cores`` None: all of the machine's. ``ip`` is ``dhcp`` or an IPv4 network like 192.0.2.7/24.
    """

    template: Template
    storage: StorageName
    size_gib: StrictInt = Field(ge=4)
    memory_mib: StrictInt = Field(ge=512)
    cores: StrictInt | None = Field(default=None, ge=1, le=8192)
    ip: GuestAddress = "dhcp"
    gateway: Gateway | None = None


class Guest(Spec):
    """A container of the machine. ``id`` is the Proxmox vmid (``pct``) or the container's name (``lxc``).

    ``managed = False``: somebody else made it; it is compared with what is written here, and never changed.
    ``numa``: on a machine with several NUMA nodes, processors and memory beside the guest's GPUs, or any. ``shm_mib``:
    the size of /dev/shm in MiB; None leaves it to the guest's systemd, which takes half of the machine's memory.
    ``proxmox``: how a Proxmox container is made that is not there; without it the operator makes it.
    """

    name: Name
    backend: Literal["pct", "lxc"]
    id: str
    managed: StrictBool = True
    suite: Literal["bookworm", "trixie"] = "bookworm"
    unprivileged: StrictBool = False
    network: Network = "host"
    gpus: tuple[BdfText, ...] = ()
    userspace: Literal["packages", "run", "bind"] = "bind"
    numa: Literal["local", "any"] = "local"
    shm_mib: StrictInt | None = Field(default=None, ge=64)
    proxmox: Proxmox | None = None
    mounts: tuple[Mount, ...] = ()
    services: tuple[Service, ...] = ()

    @field_validator("id", mode="before")
    @classmethod
    def _id_as_text(cls, value: Any) -> Any:
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @model_validator(mode="after")
    def _coherent(self) -> Guest:
        refuse("Guest", self._wrong())
        return self

    def _wrong(self) -> Iterator[tuple[Where, str]]:
        if self.backend == "pct" and not re.fullmatch(r"[1-9][0-9]{2,8}", self.id):
            yield ("id",), f"{self.id!r}: a Proxmox vmid is a number from 100 to 999999999"
        if self.backend == "lxc" and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", self.id):
            yield ("id",), f"{self.id!r} is no container name: letters, digits, dots and dashes"
        if self.proxmox is not None:
            yield from self._proxmox_wrong(self.proxmox)
        for index, service in enumerate(self.services):
            if (service.found is not None) == self.managed:
                yield (
                    ("services", index, "found"),
                    (
                        "is only for a guest with managed=False"
                        if self.managed
                        else "is missing: of a guest with managed=False, say the unit that runs the service"
                    ),
                )
        for index, first in later(service.name for service in self.services):
            yield (
                ("services", index, "name"),
                f"{self.services[index].name!r} is already services[{first}]: both would be one unit",
            )
        for index, first in later(self.gpus):
            yield ("gpus", index), f"{self.gpus[index]} is already gpus[{first}]"
        yield from self._mounts_wrong()
        for where, port, holder in taken_twice(claims(self)):
            yield where, f"{port} is already the port of {holder}: two services cannot listen on one"

    def _mounts_wrong(self) -> Iterator[tuple[Where, str]]:
        for index, first in later(re.sub("/+", "/", f"{mount.target}/") for mount in self.mounts):
            yield (
                ("mounts", index, "target"),
                f"{self.mounts[index].target} is already the target of mounts[{first}]",
            )
        for index, mount in enumerate(self.mounts):
            if not mount.target.strip("/"):
                yield ("mounts", index, "target"), "is '/', where the guest's own root is"
            if self.backend == "pct" and "=" in mount.source:
                # PVE::JSONSchema, print_property_string and parse_property_string.
                yield (
                    ("mounts", index, "source"),
                    f"{mount.source!r} holds '=': Proxmox writes it without the name of the key, and reads that "
                    "as another key",
                )
            if self.backend == "pct" and re.match("/+dev(/|$)", mount.source):
                # PVE::LXC::Config, classify_mountpoint.
                yield (
                    ("mounts", index, "source"),
                    f"{mount.source!r}: Proxmox takes what is below /dev for a disk with a file system, no folder",
                )

    def _proxmox_wrong(self, proxmox: Proxmox) -> Iterator[tuple[Where, str]]:
        if self.backend != "pct":
            yield ("proxmox",), "is for backend='pct' only"
        if not self.managed:
            yield ("proxmox",), "is not for a guest with managed=False: somebody else made it"
        if self.network == "host":
            yield (
                ("network",),
                "is 'host', which Proxmox cannot make: give the guest a bridge, network='bridge:vmbr0'",
            )
        if proxmox.gateway is not None and proxmox.ip == "dhcp":
            yield ("proxmox", "gateway"), "comes with the address (ip='dhcp')"


Claim = tuple[Where, int, str]


def claims(guest: Guest) -> list[Claim]:
    """Every port that a service or candidate of the guest takes, with the field that says so."""
    return [
        claim
        for index, service in enumerate(guest.services)
        for claim in (
            (("services", index, "port"), service.port, f"services[{index}] ({service.name})"),
            *(
                [
                    (
                        ("services", index, "candidate"),
                        service.candidate_port,
                        f"services[{index}].candidate",
                    )
                ]
                if service.candidate
                else []
            ),
        )
    ]


def taken_twice(claims: Iterable[Claim]) -> Iterator[Claim]:
    """The claims on a port that an earlier one has; the text is that of the earlier one."""
    first: dict[int, str] = {}
    for where, port, holder in claims:
        if port in first:
            yield where, port, first[port]
        else:
            first[port] = holder
