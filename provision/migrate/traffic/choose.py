"""What leads the requests of a migration, as its target's inventory says."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Protocol

from provision.migrate.traffic.haproxy import Proxy
from provision.migrate.traffic.hooks import Programs
from provision.migrate.traffic.port import Traffic
from provision.migrate.traffic.told import url, variables
from provision.migrate.traffic.ways import OnMetal, way
from provision.spec import HAProxy, Machine, Service


class Side(OnMetal, Protocol):
    @property
    def machine(self) -> Machine: ...

    @property
    def service(self) -> Service: ...


def traffic(run: str, source: Side, target: Side) -> Traffic | None:
    """None where the inventory names nothing: clients are led by somebody else."""
    migration = target.service.migration
    spec = migration.traffic if migration is not None else None
    if spec is None:
        return None
    if isinstance(spec, HAProxy):
        there, host = way(spec, source, target)
        return Proxy(spec, there, host)
    told = variables(
        run, target.service.name, url(source.machine, source.service), url(target.machine, target.service)
    )
    return Programs(spec, told, _keys(source.service, target.service))


def _keys(*services: Service) -> tuple[str, ...]:
    """What their secret files hold: a hook may print what it reads."""
    found: list[str] = []
    for service in services:
        drafter = (service.drafter.token_file,) if service.drafter else ()
        for path in (service.api_key_file, service.model.token_file, *drafter):
            with suppress(OSError, UnicodeDecodeError):
                found.append(Path(path).read_text(encoding="utf-8") if path is not None else "")
    return tuple(found)
