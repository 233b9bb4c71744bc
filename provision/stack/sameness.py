"""In what two profiles of a service are the same: in what is started, and in what the service says beside it. Pure."""

from __future__ import annotations

import json

from provision.stack.desired import DesiredService, sha256
from provision.stack.standing import Standing


def shape(desired: DesiredService) -> str:
    """Twelve hex digits of what is started: engine environment, profile, drafter, flags. Two profiles of one shape
    differ in environment, key, address or model alone. Empty for a profile that the inventory does not have."""
    if isinstance(desired, Standing):
        return ""
    service = desired.service
    drafter = f"{service.drafter.repo}@{service.drafter.revision}" if service.drafter else None
    return _digits([desired.engine.digest, service.profile, drafter, list(service.flags)])


def beside(own: DesiredService) -> str:
    """What holds for every profile of a service: twelve hex digits of environment, key, address and model, and four of
    each of them by its name. So few tell which one is another, and are no way back to a key."""
    said = _beside(own)
    return " ".join([_whole(own), *(f"{name}={_part(name, it)}" for name, it in said.items())])


def other(known: str, own: DesiredService) -> str:
    """Which of them are others than in ``known`` (``beside``, as it was kept), in words; empty where none is. Of a
    record that does not tell them apart, all that it may be."""
    whole, *parts = known.split() or [""]
    said = _beside(own)
    if whole == _whole(own):
        return ""
    kept = dict(part.partition("=")[::2] for part in parts)
    found = [name for name, it in said.items() if name in kept and kept[name] != _part(name, it)]
    return _words(found, "and") if found else _words(list(said), "or")


def _whole(own: DesiredService) -> str:
    service, said = own.service, _beside(own)
    return _digits([said["environment"], said["key"], service.listen, service.port, said["model"]])


def _beside(own: DesiredService) -> dict[str, object]:
    service = own.service
    return {
        "environment": service.environment,
        "key": sha256(own.key) if own.key is not None else None,
        "address": [service.listen, service.port],
        "model": f"{service.model.repo}@{service.model.revision}",
    }


def _part(name: str, said: object) -> str:
    return _digits([name, said])[:4]


def _words(names: list[str], last: str) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"


def _digits(said: list[object]) -> str:
    return sha256(json.dumps(said, sort_keys=True))[:12]
