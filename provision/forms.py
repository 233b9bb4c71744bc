"""How single fields of an inventory are written, and how what is wrong in them is told."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Hashable, Iterable, Iterator
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, StrictInt, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from checks.bdf import Bdf
from provision.card_names import names_a_card

Where = tuple[str | int, ...]


REFUSED = "kpro"
"""The type of the lines that ``refuse`` makes, in pydantic's words."""


def refuse(title: str, wrong: Iterable[tuple[Where, str]]) -> None:
    """Raises one ValidationError with every pair of field and text, or nothing when there is none."""
    lines = [
        InitErrorDetails(type=PydanticCustomError(REFUSED, "{text}", {"text": text}), loc=where, input=None)
        for where, text in wrong
    ]
    if lines:
        raise ValidationError.from_exception_data(title, lines)


def later(values: Iterable[Hashable]) -> Iterator[tuple[int, int]]:
    """Pairs (index, index of the first one equal to it) for everything that is there a second time."""
    first: dict[Hashable, int] = {}
    for index, value in enumerate(values):
        if first.setdefault(value, index) != index:
            yield index, first[value]


def _bdf(text: str) -> str:
    return str(Bdf.parse(text))


def _name(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", text):
        raise ValueError(f"{text!r} is no name: lower-case letters, digits and dashes, at most 63")
    return text


def _card(text: str) -> str:
    if not names_a_card(text):
        raise ValueError(
            f"{text!r} names no card: write what nvidia-smi -L or lspci calls it, such as 'RTX A6000' or 'H100'"
        )
    return text


def _absolute(path: str) -> str:
    steps = {".", ".."} & set(path.split("/"))
    if not path.startswith("/") or steps or re.search(r"[\s,]", path) or not path.isprintable():
        raise ValueError(
            f"{path!r} must be absolute, without '.' and '..' as a step, white space, control characters or commas"
        )
    return path


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise ValueError(f"{text!r} is no IP address: 127.0.0.1, 0.0.0.0 or one of the guest's own") from None


def _network(text: str) -> str:
    if text not in ("host", "isolated") and not re.fullmatch(r"bridge:[\w.-]{1,15}", text, re.ASCII):
        raise ValueError(f"{text!r} is none of 'host', 'isolated' or 'bridge:<name of the bridge>'")
    return text


def _storage(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]*[A-Za-z0-9]", text):
        raise ValueError(f"{text!r} is no storage of Proxmox: letters, digits, dots, dashes, two at least")
    return text


def _template(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]*[A-Za-z0-9]:vztmpl/[\w.+-]+", text, re.ASCII):
        raise ValueError(
            f"{text!r} is no template: write it as '<storage>:vztmpl/<file>' (pveam list <storage>)"
        )
    return text


def _guest_address(text: str) -> str:
    """``dhcp``, or an IPv4 address with its network; Proxmox takes networks from /8 to /32."""
    try:
        good = text == "dhcp" or ("/" in text and 8 <= ipaddress.IPv4Interface(text).network.prefixlen <= 32)
        good = good and re.fullmatch(r"dhcp|[0-9.]+/[0-9]+", text) is not None
    except ValueError:
        good = False
    if not good:
        raise ValueError(f"{text!r} is neither 'dhcp' nor an IPv4 address with its network, 192.0.2.7/24")
    return text


def _gateway(text: str) -> str:
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise ValueError(f"{text!r} is no IPv4 address") from None


def _repo(text: str) -> str:
    part = r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?"
    if not re.fullmatch(f"{part}/{part}", text) or len(text) > 96 or "--" in text or ".." in text:
        # As huggingface_hub's validate_repo_id; "--" is what takes the place of the slash in a folder's name.
        raise ValueError(
            f"{text[:100]!r} is no repository: write it as 'organisation/name', letters, digits, '.', '_' and '-', no "
            "two dots or dashes in a row, 96 at most"
        )
    return text


def _revision(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{40}", text):
        raise ValueError(
            f"{text!r} is no commit of 40 hex digits: a branch or tag can change under a running service"
        )
    return text


def _python(text: str) -> str:
    if not re.fullmatch(r"3\.[0-9]{1,2}", text):
        raise ValueError(f"{text!r} is no Python version like '3.11'")
    return text


def _home(path: Path) -> Path:
    return path.expanduser()


Name = Annotated[str, AfterValidator(_name)]
CardName = Annotated[str, AfterValidator(_card)]
BdfText = Annotated[str, AfterValidator(_bdf)]
Address = Annotated[str, AfterValidator(_address)]
Network = Annotated[str, AfterValidator(_network)]
StorageName = Annotated[str, AfterValidator(_storage)]
Template = Annotated[str, AfterValidator(_template)]
GuestAddress = Annotated[str, AfterValidator(_guest_address)]
Gateway = Annotated[str, AfterValidator(_gateway)]
Repository = Annotated[str, AfterValidator(_repo)]
Commit = Annotated[str, AfterValidator(_revision)]
PythonVersion = Annotated[str, AfterValidator(_python)]
SshHost = Annotated[str, Field(min_length=1, pattern=r"^[^\s@-][^\s@]*$")]
AbsolutePath = Annotated[str, AfterValidator(_absolute)]
Port = Annotated[StrictInt, Field(ge=1, le=65535)]
LocalPath = Annotated[Path, AfterValidator(_home)]
"""A file or folder of the controller; ``~`` is the operator's home."""
