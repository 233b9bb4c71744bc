"""Do the addresses of an HAProxy's servers fit the two ends that they are to lead to? Pure.

An address that is not known may be a forward, and is told; one that is the other end's own is refused.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from provision.migrate.ends import Role
from provision.migrate.traffic.port import WHERE, Known
from provision.migrate.traffic.runtime import Backend, Server
from provision.plan import Refusal
from provision.spec_migration import HAProxy

_ROLES: tuple[Role, Role] = ("source", "target")


def refused(spec: HAProxy, be: Backend, known: Known) -> list[Refusal]:
    """Servers that provably lead to the other end, or nowhere."""
    found = [*_unusable(spec, be)]
    wrong = {
        role: server for role in _ROLES if (server := _of(spec, be, role)) and _others(server, role, known)
    }
    if len(wrong) == 2:
        source, target = wrong["source"], wrong["target"]
        found.append(
            Refusal(
                f"{WHERE}.source",
                f"the two servers look swapped: {source.name} ({source.address}) is the service on "
                f"{known.names['target']}, the target, and {target.name} ({target.address}) "
                f"that on {known.names['source']}, the source",
                "requests would be kept off the wrong one",
                f"write source={target.name!r}, target={source.name!r} into the target's inventory",
            )
        )
        return found
    for role, server in wrong.items():
        other: Role = "target" if role == "source" else "source"
        there = _of(spec, be, other)
        found.append(
            Refusal(
                f"{WHERE}.{role}",
                f"server {server.name} ({server.address}), named as the {role}'s, is the service on "
                f"{known.names[other]}, the {other}",
                "requests would be kept off, or led to, the wrong one",
                f"are source={spec.source!r} and target={spec.target!r} swapped? else write the address of "
                f"{known.names[role]} in the line of server {server.name}"
                + (f" ({there.name} is {there.address})" if there is not None else ""),
            )
        )
    return found


def _unusable(spec: HAProxy, be: Backend) -> Iterator[Refusal]:
    for role in _ROLES:
        server = _of(spec, be, role)
        if (
            server is not None
            and (server.port == 0 or not _is_address(server.host))
            and not server.admin & 96
        ):
            yield Refusal(
                f"{WHERE}.{role}",
                f"server {server.name} has the address {server.address}, and that is none with a port",
                "whether the service answers there could not be proven before clients are led to it",
                f"write address and port in the line of server {server.name}, and reload HAProxy",
            )


def notes(spec: HAProxy, be: Backend, known: Known) -> Iterator[str]:
    for role in _ROLES:
        server = _of(spec, be, role)
        if server is None or not _is_address(server.host) or _others(server, role, known):
            continue
        name, own = known.names[role], known.ports[role]
        proven = "is proven before the drain" if role == "target" else "is proven now"
        odd = []
        if server.port != own:
            odd.append(f"the service's own port on {name} is {own}")
        if known.addresses[role] and server.host not in known.addresses[role]:
            odd.append(f"{server.host} is none of the addresses that are known of {name}")
        if odd:
            yield (
                f"server {server.name} ({server.address}) of backend {be.name}: {', and '.join(odd)}; a forward may "
                f"lead there, and that the very service answers {proven}"
            )


def owner(server: Server, role: Role, known: Known) -> Role:
    """Whose it is by its address, else by its name in the inventory."""
    other: Role = "target" if role == "source" else "source"
    return other if _others(server, role, known) else role


def _others(server: Server, role: Role, known: Known) -> bool:
    """Is it the other end's own address, with the port of the service there, and not this end's?"""
    other: Role = "target" if role == "source" else "source"
    return (
        server.host in known.addresses[other]
        and server.host not in known.addresses[role]
        and server.port == known.ports[other]
    )


def _of(spec: HAProxy, be: Backend, role: Role) -> Server | None:
    return be.server(spec.source if role == "source" else spec.target)


def _is_address(text: str) -> bool:
    try:
        return bool(ipaddress.ip_address(text))
    except ValueError:
        return False
