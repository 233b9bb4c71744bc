"""Libraries of the guest's system that an engine links and no wheel brings. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from checks.snapshot import Snapshot
from provision.data.engines import Library, kind_of
from provision.plan import Refusal
from provision.stack.engine.desired import DesiredEngine


def requests(engines: Sequence[DesiredEngine]) -> list[str]:
    """What the snapshot of a guest has to look at."""
    return sorted({f"stat:{library.path}" for engine in engines for library in _of(engine)})


def missing(engine: DesiredEngine, inside: Snapshot | None, where: str) -> Iterator[Refusal]:
    """Each library that the guest lacks. A root that kpro makes has them all. Raises CouldNotLook."""
    for library in _of(engine):
        if inside is not None and inside.data("stat", library.path) is None:
            yield Refusal(
                where,
                f"the guest has no {library.path.rpartition('/')[2]}",
                f"{engine.kind} links it: without it the package can be imported and its server dies",
                f"install it in the guest: apt-get install {library.package}",
            )


def _of(engine: DesiredEngine) -> tuple[Library, ...]:
    return kind_of(engine.kind).libraries
