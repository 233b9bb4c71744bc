"""Model files as an operator writes them: which, pinned to what, and where they come from."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from provision.forms import AbsolutePath, Commit, LocalPath, Repository, Where, refuse
from provision.spec_base import Spec

Origin = Literal["folder", "path", "hub", "in place"]


class Hub(Spec):
    """Which hub the machine fetches models from, and whose token it shows.

    Without them HF_ENDPOINT and HF_TOKEN of the controller hold, and https://huggingface.co. ``token_file`` is a file
    of the controller, mode 600.
    """

    endpoint: str | None = None
    token_file: LocalPath | None = None

    @field_validator("endpoint")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        return None if value is None else endpoint_form(value)


def endpoint_form(text: str) -> str:
    """The address without a slash at its end. Raises ValueError when it is none that a token may be shown to."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if not host or parts.scheme not in ("http", "https") or parts.query or parts.fragment or port == 0:
        raise ValueError(f"{text!r} is no address of a hub: write it like https://huggingface.co")
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            "the address of the hub holds a name or password, which would be shown: use token_file"
        )
    if parts.scheme == "http" and not _loopback(host):
        raise ValueError(
            f"{text!r} is read by everybody on the way, the token too, and what comes can be changed: use https"
        )
    return text.rstrip("/")


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Model(Spec):
    """Model files, pinned to a commit.

    ``source`` says where they come from. ``folder``: a folder of the controller, copied and verified. ``hub``: the
    machine fetches them itself, with the token in ``token_file`` (a file of the controller) where one is needed;
    ``files`` are patterns of what is wanted, without them everything but what is there twice. ``path``: a folder of the
    machine, copied and verified there. ``in place``: they lie in the guest under ``/srv/models`` (a mount of the
    machine) already, with their manifest. ``folder=…`` and ``path=…`` say it by themselves.
    """

    repo: Repository
    revision: Commit
    source: Origin | None = None
    folder: LocalPath | None = None
    path: AbsolutePath | None = None
    files: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    token_file: LocalPath | None = None

    @property
    def directory(self) -> str:
        """Where the files lie in the guest."""
        return f"/srv/models/{self.repo.replace('/', '--')}@{self.revision}"

    @property
    def origin(self) -> Origin:
        if self.source is not None:
            return self.source
        return "folder" if self.folder else "path" if self.path else "in place"

    @model_validator(mode="after")
    def _one_source(self) -> Model:
        refuse("Model", self._wrong())
        return self

    def _wrong(self) -> Iterator[tuple[Where, str]]:
        origin = self.origin
        for name, given in (("folder", self.folder), ("path", self.path)):
            if given is not None and origin != name:
                yield (name,), f"only source={name!r} takes one, not {origin!r}"
            elif given is None and origin == name:
                yield (name,), f"is missing: source={name!r} needs {name}=<folder>"
        for name, wanted in (("files", bool(self.files)), ("token_file", self.token_file is not None)):
            if wanted and origin != "hub":
                yield (name,), f"only source='hub' takes one, not {origin!r}"
