"""What a line of a container's configuration is about, however it is spelled: its device, its place, and the form that
Proxmox gives it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from provision.guest.proxmox.grammar import Line, properties
from provision.guest.proxmox.schema import DEVICE, MOUNT, Field


def printed(text: str, fields: Mapping[str, Field]) -> str:
    """A property string as Proxmox writes it out again (PVE::JSONSchema::print_property_string): the default key first
    and without its name, then what is required, then the rest, by name; one that it does not take, as it is."""
    found, wrong = properties(text, fields)
    if wrong is not None:
        return text
    ordered = sorted(found, key=lambda name: (not fields[name].default_key, fields[name].optional, name))
    return ",".join(found[name] if fields[name].default_key else f"{name}={found[name]}" for name in ordered)


def plain_path(text: str) -> str:
    """A path without slashes that change nothing; what does not begin with one begins at the container's root."""
    return re.sub("/+", "/", f"/{text}/")[:-1] or "/"


def device_path(line: Line) -> str:
    """The node that a devN passes in, without the slashes that change nothing."""
    return plain_path(properties(line.value, DEVICE)[0].get("path", ""))


def mount_point(line: Line) -> str:
    """Where an mpN mounts, without the slashes that change nothing."""
    return plain_path(properties(line.value, MOUNT)[0].get("mp", ""))


def as_printed(key: str, value: str) -> str:
    """A line of a mount point as Proxmox writes it, any other as it stands."""
    return f"{key}: {printed(value, MOUNT) if re.fullmatch('mp[0-9]+', key) else value}"


def raw_place(key: str, value: str) -> tuple[str, str]:
    """What a raw line sets: a container has one value of a key, but of mounts one for each place in it."""
    words = value.split()
    return key, plain_path(words[1]) if key == "lxc.mount.entry" and len(words) > 1 else ""
