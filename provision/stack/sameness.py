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
    """Twelve hex digits of what holds for every profile of a service: environment, key, address, model."""
    service = own.service
    model = f"{service.model.repo}@{service.model.revision}"
    key = sha256(own.key) if own.key is not None else None
    return _digits([service.environment, key, service.listen, service.port, model])


def _digits(said: list[object]) -> str:
    return sha256(json.dumps(said, sort_keys=True))[:12]
