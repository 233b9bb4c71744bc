"""What moving a service to another host needs to know beyond the service itself: the way of the copy, how clients are
led over, what else moves. Pure.

It is read from the inventory of the target; the source's may repeat it, and must not say otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Discriminator, Field, StrictBool, StrictInt, Tag, model_validator

from provision.forms import AbsolutePath, Port, SshHost, Where, refuse
from provision.spec_base import Spec
from provision.spec_ssh import Ssh

STATES = ("drain", "switch", "back", "check")
"""The words of a hook, in the order of the fields of ``Hooks``."""


def _words(command: tuple[str, ...]) -> tuple[str, ...]:
    """A command as a list of words. Raises ValueError for what no program can be given."""
    if not command[0] or command[0] != command[0].strip():
        raise ValueError(f"{command[0]!r} is no program: the first word is a path, or a name that PATH finds")
    if any("\0" in word for word in command):
        raise ValueError("a word holds a NUL byte: no program can be given one")
    return command


def _proxy_name(text: str) -> str:
    """Names of backends and servers (HAProxy configuration manual, 2.2: letters, digits, '-', '_', '.', ':')."""
    if not re.fullmatch(r"[A-Za-z0-9_.:-]{1,63}", text):
        raise ValueError(f"{text!r} is no name that HAProxy takes: letters, digits, '-', '_', '.' and ':'")
    return text


def _probe(text: str) -> str:
    """The beginning of an address of HTTP, as an operator would give it to a client without ``/v1``."""
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not text.isprintable() or " " in text or parts.username is not None:
        raise ValueError(
            f"{text!r} is no address of HTTP: write http://HOST:PORT, or https://HOST, without a password"
        )
    if parts.query or parts.fragment or parts.path.rstrip("/").endswith("/v1"):
        raise ValueError(
            f"{text!r}: leave out /v1 and what comes behind it: /v1/completions is asked below it"
        )
    return text


Command = Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(_words)]
ProxyName = Annotated[str, AfterValidator(_proxy_name)]
ProbeUrl = Annotated[str, AfterValidator(_probe)]


class HAProxy(Spec):
    """An HAProxy before the service, led through its runtime API.

    ``on``: where its ``socket`` lies: the controller, the machine of the source or of the target, or "ssh": a host of
    its own, reached by ``ssh``. ``source`` and ``target``: the names of the two servers in ``backend``.
    """

    backend: ProxyName
    source: ProxyName
    target: ProxyName
    on: Literal["controller", "source", "target", "ssh"] = "controller"
    ssh: Ssh | None = None
    socket: AbsolutePath = "/run/haproxy/admin.sock"
    deadline_seconds: StrictInt = Field(default=30, ge=1, le=600)

    @model_validator(mode="after")
    def _coherent(self) -> HAProxy:
        refuse("HAProxy", self._wrong())
        return self

    def _wrong(self) -> Iterator[tuple[Where, str]]:
        if self.source == self.target:
            yield ("target",), f"{self.target!r} is the source too: two servers of the backend are needed"
        if self.on == "ssh" and self.ssh is None:
            yield ("ssh",), "is missing: on='ssh' needs ssh=Ssh(host=…)"
        if self.on != "ssh" and self.ssh is not None:
            yield ("ssh",), f"is never used: the socket lies on the {self.on}; write on='ssh' or leave it out"


class Hooks(Spec):
    """Programs of the controller that lead clients, each a list of words; no shell reads them.

    ``drain``: no new request to the source. ``switch``: to the target. ``back``: to the source. ``check`` changes
    nothing and prints who gets new requests as its last line: source, target or nobody. Each is called again after a
    cut, so each must be able to be called twice. ``deadline_seconds`` holds for each call. ``probe``: the address that
    clients ask; through it the service is asked for tokens while it is led to.
    """

    drain: Command
    switch: Command
    back: Command
    check: Command
    deadline_seconds: StrictInt = Field(default=60, ge=1, le=3600)
    probe: ProbeUrl | None = None


def _kind(value: Any) -> str | None:
    """Which of the two was written. A spec that could not be built comes as the fields it was given."""
    if isinstance(value, HAProxy | Hooks):
        return type(value).__name__
    if isinstance(value, dict):
        return "Hooks" if set(value) & set(STATES) else "HAProxy"
    return None


TrafficSpec = Annotated[
    Annotated[HAProxy, Tag("HAProxy")] | Annotated[Hooks, Tag("Hooks")],
    Discriminator(
        _kind, custom_error_type="kpro", custom_error_message="must be HAProxy(…) or Hooks(…), or be left out"
    ),
]


class ExtraPath(Spec):
    """A file or folder of the guest that moves too, and why. The service is stopped before its last copy."""

    path: AbsolutePath
    why: Annotated[str, Field(min_length=1)]


class CopySettings(Spec):
    """How the source reaches the target's SSH server. ``address``: without one, what the target's ``ssh`` says.

    ``bwlimit_mib``: MiB/s of all ``streams`` together. ``through_controller``: there is no way from source to target;
    all bytes go through this controller.
    """

    address: SshHost | None = None
    port: Port = 22
    bwlimit_mib: float | None = Field(default=None, gt=0, lt=100_000)
    streams: StrictInt = Field(default=4, ge=1, le=16)
    through_controller: StrictBool = False


class Migration(Spec):
    """``watch_seconds``: how long the target is watched after requests go to it, before the source is stopped.

    ``traffic``: without one, clients are led by somebody else: the source is stopped before the target is switched to.
    """

    extra_paths: tuple[ExtraPath, ...] = ()
    traffic: TrafficSpec | None = None
    watch_seconds: StrictInt = Field(default=60, ge=5, le=86_400)
    transfer: CopySettings = Field(default_factory=CopySettings)

    @model_validator(mode="after")
    def _coherent(self) -> Migration:
        refuse("Migration", self._wrong())
        return self

    def _wrong(self) -> Iterator[tuple[Where, str]]:
        paths = [PurePosixPath(extra.path) for extra in self.extra_paths]
        for index, path in enumerate(paths):
            where: Where = ("extra_paths", index, "path")
            why = kept_apart(path)
            if why:
                yield where, f"{path} {why}"
            for other in range(index):
                if path == paths[other]:
                    yield where, f"{path} is already extra_paths[{other}]"
                elif path.is_relative_to(paths[other]) or paths[other].is_relative_to(path):
                    yield where, f"{path} and extra_paths[{other}] ({paths[other]}) lie in one another"


_NEVER = {
    "/proc": "is the kernel's",
    "/sys": "is the kernel's",
    "/dev": "is the kernel's",
    "/run": "is gone after a boot",
    "/etc/kpro": "is written anew on the target: kpro's own",
    "/opt/kpro": "is built anew on the target: kpro's own",
    "/var/lib/kpro": "tells of one host alone: kpro's own",
    "/srv/models": "moves as a model: leave it out",
    "/etc/systemd/system": "holds units, which are written anew on the target",
}
"""What never moves as an extra path, and why."""


def kept_apart(path: PurePosixPath) -> str | None:
    """Why a path is none that may be moved: it is, holds or lies in what belongs to one host alone."""
    if path == PurePosixPath("/"):
        return "is the whole guest: name what the service needs"
    for name, why in _NEVER.items():
        if path.is_relative_to(name):
            return why
        if PurePosixPath(name).is_relative_to(path):
            return f"holds {name}, which {why}"
    return None


def disagreement(target: Migration, source: Migration | None) -> Iterator[tuple[Where, str]]:
    """What the source's inventory says otherwise than the target's, whose word holds; by field of ``Migration``."""
    if source is None:
        return
    for name in sorted(source.model_fields_set):
        theirs, ours = getattr(source, name), getattr(target, name)
        for where, one, two in _differing(("migration", name), theirs, ours):
            yield (
                where,
                f"says otherwise in the source's inventory ({_told(one)}) than in the target's ({_told(two)}): the "
                "target's is what counts; leave it out of the source's, or write the same",
            )


def _differing(where: Where, one: object, two: object) -> Iterator[tuple[Where, object, object]]:
    """Fields that differ, down to where two of one kind do."""
    if one == two:
        return
    if isinstance(one, Spec) and type(one) is type(two):
        for name in type(one).model_fields:
            yield from _differing((*where, name), getattr(one, name), getattr(two, name))
        return
    yield where, one, two


def _told(value: object) -> str:
    """As it is written in an inventory, in short."""
    if isinstance(value, Spec):
        given = (
            (name, getattr(value, name))
            for name in type(value).model_fields
            if name in value.model_fields_set
        )
        return f"{type(value).__name__}({', '.join(f'{name}={_told(one)}' for name, one in given)})"
    if isinstance(value, tuple):
        return f"[{', '.join(_told(one) for one in value)}]"
    return "left out" if value is None else repr(value)
