"""Is the source of a cold migration dead? Judged by what was heard of it: whatever answers, or could not be asked,
keeps the target from being brought up beside it. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from provision.migrate.ends import End
from provision.migrate.traffic.port import Seen
from provision.plan import Refusal

State = Literal["answers", "silent", "unknown"]

OFF = "--source-is-off"
"""The operator's word that the machine is switched off; it stands for what could not be asked, and nothing else."""

_WARM = {
    "begin": "move it warm: {}",
    "resume": "take the move back, with the source serving: {} --rollback",
    "rollback": "bring it back first, and then clean the target: {} --rollback, without --cold",
    "finalize": "stop and fence it first: {} --finalize, without --cold, where it takes part",
}
"""What is done with a source that answers, by the way that was asked for."""


@dataclass(frozen=True)
class Heard:
    """``what`` was asked, ``by`` whom ("this controller", or a machine's name), and what came of it. ``unknown``: it
    could not be asked."""

    what: str
    by: str
    state: State
    said: str


@dataclass(frozen=True)
class Places:
    """``at``: the addresses at which clients may reach a service. ``unknown``: why there may be another one."""

    at: tuple[tuple[str, int], ...]
    unknown: str = ""


def places(end: End, host: str) -> Places:
    """Where the service answers by its inventory: its own address, its guest's, and its machine's (``host``), which
    may lead clients on."""
    service, guest = end.service, end.guest
    listen = ipaddress.ip_address(service.listen)
    hosts = [] if listen.is_unspecified or listen.is_loopback else [service.listen]
    unknown = ""
    if listen.is_unspecified and guest.network != "host":
        given = guest.proxmox.ip if guest.proxmox is not None else "dhcp"
        if given == "dhcp":
            unknown = f"{service.name} listens on every address of {guest.name}, and its inventory does not say them"
        else:
            hosts.append(given.partition("/")[0])
    return Places(tuple((one, service.port) for one in dict.fromkeys([*hosts, host])), unknown)


def without(source: Places, target: Places) -> Places:
    """Those of the source that are not the target's too: an address that moves with the service answers from there as
    soon as the target is warm."""
    return Places(tuple(one for one in source.at if one not in target.at), source.unknown)


def judge(heard: Sequence[Heard], source: End, target: End, *, off: bool, way: str) -> list[Refusal]:
    """Every reason not to take the source for dead. ``off``: the operator's word. ``way``: as in ``Asked``."""
    return list(_judged(heard, source, target, off, _WARM.get(way, _WARM["begin"])))


def _judged(heard: Sequence[Heard], source: End, target: End, off: bool, warm: str) -> Iterator[Refusal]:
    for one in heard:
        if one.state == "answers":
            yield Refusal(
                f"machine {source.name}",
                f"{one.what} answers {one.by}: {one.said}; it is not dead",
                "a source that is not stopped and fenced goes on to answer beside the target",
                f"{warm.format(f'provision migrate {source.inventory} {target.inventory}')}; or switch {source.name} "
                "off, so that it cannot come back by itself",
            )
        elif one.state == "unknown" and not off:
            yield Refusal(
                f"machine {source.name}",
                f"{one.what} could not be asked by {one.by}: {one.said}",
                "so it is not known whether it is dead, and one that lives goes on to answer beside the target",
                f"correct the name, or the way to it; only if the machine of {source.name} is switched off and cannot "
                f"come back by itself, give your word for that: {OFF}",
            )


def told(heard: Sequence[Heard], source: End, target: End, *, off: bool) -> tuple[str, ...]:
    """For the operator, when nothing speaks against it: what was asked, and what that does not prove."""
    silent = "; ".join(f"{one.what} by {one.by} ({one.said})" for one in heard if one.state == "silent")
    unasked = "; ".join(f"{one.what} by {one.by} ({one.said})" for one in heard if one.state == "unknown")
    found = [f"asked, and nothing answered: {silent}"] if silent else []
    if unasked and off:
        found.append(
            f"could not be asked: {unasked}; what counts is your word that {source.name} is off ({OFF})"
        )
    found.append(
        f"silence does not prove that {source.name} is off: one that is only cut off from here goes on, and answers "
        f"again later beside {target.name}, without a fence. Keep it off before you go on"
    )
    return tuple(found)


def served_by_target(seen: Seen, source: End, target: End) -> list[Refusal]:
    """Why a target is not taken away in a way back without a source: its clients would have nobody."""
    name = target.service.name
    if seen.who == "target":
        return [
            Refusal(
                f"machine {target.name}",
                f"requests of {name} go to it already: {seen.said}",
                f"{source.name} is dead, so nobody would answer once {name} is taken away from {target.name}",
                f"go on instead: provision migrate {source.inventory} {target.inventory} --cold --resume; or lead its "
                "clients elsewhere first",
            )
        ]
    if seen.who == "unknown":
        return [
            Refusal(
                f"machine {target.name}",
                f"whether requests of {name} go to it is not known: {seen.said}",
                f"{source.name} is dead, so its clients would have nobody once it is taken away",
                "bring up what leads the requests, then run again",
            )
        ]
    return []
