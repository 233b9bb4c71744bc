"""Step 8: libraries of the guest's system that an engine links and no wheel brings. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from checks.snapshot import Snapshot
from provision.data import engines
from provision.plan import Refusal
from provision.stack.desired import DesiredService


def requests(services: Sequence[DesiredService]) -> list[str]:
    """What the snapshot of a guest has to look at."""
    return sorted({f"stat:{library.path}" for desired in services for library in _of(desired)})


def missing(desired: DesiredService, inside: Snapshot | None, where: str) -> Iterator[Refusal]:
    """Each library that the guest lacks. A root that kpro makes has them all. Raises CouldNotLook."""
    for library in _of(desired):
        if inside is not None and inside.data("stat", library.path) is None:
            kind = desired.service.engine.kind
            yield Refusal(
                f"{where}.engine",
                f"the guest has no {library.path.rpartition('/')[2]}",
                f"{kind} links it: without it the package can be imported and its server dies",
                f"install it in the guest: apt-get install {library.package}",
            )


def _of(desired: DesiredService) -> tuple[engines.Library, ...]:
    return engines.kind_of(desired.service.engine.kind).libraries
