"""The files that a guest has of one service of kpro's, and nothing that another service uses. Pure."""

from __future__ import annotations

from provision.spec import Service
from provision.stack.going_back import FOLDERS


def unit_file(service: Service) -> str:
    return f"/etc/systemd/system/{service.unit}"


def staged(service: Service) -> tuple[str, ...]:
    """What waits to become the unit and its environment."""
    return (f"/etc/kpro/staged/{service.unit}", f"/etc/kpro/staged/{service.name}.env")


def of(service: Service) -> tuple[str, ...]:
    """All of it but what a migration puts beside the unit (provision.migrate.fence). The key is in several of them.
    What was measured and judged of the service stays: /var/lib/kpro/baselines and trials."""
    name = service.name
    return (
        unit_file(service),
        f"/etc/kpro/{name}.env",
        f"/etc/kpro/{name}.key",
        *staged(service),
        f"/var/lib/kpro/good/{name}",
        f"/var/lib/kpro/good/{name}.url",
        *(f"{folder}/{name}" for folder in FOLDERS),
        f"/var/lib/kpro/cutover/{name}",
        f"/run/kpro-cutover/{name}",
    )
