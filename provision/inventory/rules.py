"""What a well-formed machine must still satisfy: known versions, profiles that fit, files that are there.

Each rule yields the field and the text. All of them are pure; ``controller_rules`` looks at files here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from packaging.specifiers import SpecifierSet

from provision.data import drivers, engines, profiles
from provision.data.flag_names import canonical
from provision.forms import Where
from provision.inventory import flag_rules, own_flags, secret_rules
from provision.spec import Engine, Guest, Machine, Model, Service

Wrong = Iterator[tuple[Where, str]]

GLIBC = {"bookworm": (2, 36), "trixie": (2, 41)}
"""glibc of the guest suites (Debian: libc6 2.36-9 and 2.41-12)."""

PYTHON = {"bookworm": "3.11", "trixie": "3.13"}
"""Python of the guest suites (Debian: python3 3.11.2 and 3.13.5)."""


def of_machine(machine: Machine) -> Wrong:
    """Everything that can be known of one machine without looking at anything."""
    yield from _driver(machine)
    for at, guest in enumerate(machine.guests):
        # What somebody else made is described as it is, and need not be what kpro could make.
        for where, text in of_guest(guest) if guest.managed else ():
            yield ("guests", at, *where), text


def of_guest(guest: Guest) -> Wrong:
    for at, service in enumerate(guest.services):
        here: Where = ("services", at)
        for where, text in of_service(service):
            yield (*here, *where), text
        for where, text in _of_trying(service):
            yield (*here, *where), text
        trial = service.trial()
        if trial is not None:
            for where, text in of_service(trial):
                yield (*here, *_of_candidate(service, where)), text
        for engine, flags, inside in tried_of(service):
            named = canonical(engine.kind, engine.version, flags)
            for where, text in _fits_guest(guest, engine, named):
                yield (*here, *inside, *where), text
        for model, where in models_of(service):
            for index, mount in enumerate(guest.mounts):
                if model.folder and mount.read_only and _covers(mount.target, model.directory):
                    yield (
                        (*here, *where, "folder"),
                        f"would be copied to {model.directory}, which mounts[{index}] shows read-only: put "
                        "the files into its source on the machine and leave folder out, or make it writable",
                    )


def _of_trying(service: Service) -> Wrong:
    """What is tried, and what it is held against."""
    promoted = service.promoted()
    if promoted is not None and promoted == service.model_copy(
        update={"candidate": None, "thresholds": promoted.thresholds}
    ):
        yield (
            ("candidate",),
            "is the service itself: nothing would be tried; change it, or take it out",
        )
    if service.baseline is not None and service.baseline.concurrency > MOST_AT_ONCE:
        yield (
            ("baseline", "concurrency"),
            f"{service.baseline.concurrency}: a measurement sends at most {MOST_AT_ONCE} requests at once, so it could "
            "never be held against this",
        )


MOST_AT_ONCE = 64
"""``provcheck serve --concurrency`` takes no more."""


def of_service(service: Service) -> Wrong:
    """Engine, profile, drafter, flags and key of one service."""
    try:
        kind = engines.kind_of(service.engine.kind)
    except engines.UnknownEngine as error:
        yield ("engine", "kind"), str(error)
        return
    try:
        release = engines.release_of(kind.kind, service.engine.version)
    except engines.UnknownEngine as error:
        yield ("engine", "version"), str(error)
    else:
        if f"{service.engine.python}.0" not in SpecifierSet(release.python):
            yield (
                ("engine", "python"),
                f"{service.engine.python}: {kind.kind} {release.version} needs Python {release.python}",
            )
    profile = profiles.find(service.profile, kind.kind)
    if profile is None:
        yield ("profile",), profiles.wrong(service.profile, kind.kind)
    else:
        if not profile.fits(service.engine.version):
            yield (
                ("profile",),
                f"{profile.name!r} needs {kind.kind} {profile.versions}, not {service.engine.version}",
            )
        if profile.drafter and service.drafter is None:
            yield ("drafter",), f"is missing: profile {profile.name!r} drafts with a second model"
        if profile.drafter and service.drafter is not None and _same(service.drafter, service.model):
            yield (
                ("drafter",),
                "is the model itself, which drafts nothing for itself: name the drafter's own repository",
            )
        if not profile.drafter and service.drafter is not None:
            yield ("drafter",), f"is never read: profile {profile.name!r} does not draft with a second model"
    yield from own_flags.of_service(service, kind)
    yield from secret_rules.reserved(service)
    yield from secret_rules.in_flags(service)
    if service.api_key_file is not None and kind.key_variable is None:
        yield ("api_key_file",), f"cannot be kept secret: {kind.key_reason}"
    yield from flag_rules.of_service(service)


def _same(one: Model, other: Model) -> bool:
    """Whether both lie in one folder of the guest."""
    return one.directory == other.directory


def _of_candidate(service: Service, where: Where) -> Where:
    """Where a field of a trial service is written: key and common variables are the service's own, the rest the
    candidate's."""
    if where[0] == "environment" and service.candidate and where[1] not in service.candidate.environment:
        return where
    return ("candidate", "engine", "kind") if where[0] == "api_key_file" else ("candidate", *where)


def tried_of(service: Service) -> Iterator[tuple[Engine, tuple[str, ...], Where]]:
    """The engines that a service is started with, their flags, and the path of what names them."""
    yield service.engine, service.flags, ()
    if service.candidate:
        yield service.candidate.engine, service.candidate.flags, ("candidate",)


def models_of(service: Service) -> Iterator[tuple[Model, Where]]:
    """Its models and drafters, with the path of each."""
    yield service.model, ("model",)
    if service.drafter:
        yield service.drafter, ("drafter",)
    if service.candidate and service.candidate.drafter:
        yield service.candidate.drafter, ("candidate", "drafter")


def _covers(folder: str, path: str) -> bool:
    return Path(path).is_relative_to(folder)


def _fits_guest(guest: Guest, engine: Engine, flags: tuple[str, ...]) -> Wrong:
    """Whether the engine can run in this guest: its C library and its GPUs."""
    try:
        kind, release = engines.kind_of(engine.kind), engines.release_of(engine.kind, engine.version)
    except engines.UnknownEngine:
        return
    if release.glibc and release.glibc > GLIBC[guest.suite]:
        need, has = ".".join(map(str, release.glibc)), ".".join(map(str, GLIBC[guest.suite]))
        yield (
            ("engine", "version"),
            f"{engine.kind} {engine.version} needs glibc {need}, and suite={guest.suite!r} has {has}",
        )
    if engine.source != "tree" and engine.python != PYTHON[guest.suite]:
        yield (
            ("engine", "python"),
            f"{engine.python!r}: the environment is built with the guest's own Python, and "
            f"suite={guest.suite!r} has {PYTHON[guest.suite]}",
        )
    if release.cuda and not guest.gpus:
        yield (
            ("engine", "kind"),
            f"{engine.kind} needs a GPU, and the guest has none: list one in the guest's gpus",
        )
    for index, ranks in _ranks(flags, kind.parallel_flags):
        if ranks is None or ranks < 1:
            yield ("flags", index), "needs a whole number of GPUs"
        elif guest.gpus and ranks > len(guest.gpus):
            yield (
                ("flags", index),
                f"{ranks} GPUs are asked for, and the guest has {len(guest.gpus)}",
            )


def _ranks(flags: tuple[str, ...], names: tuple[str, ...]) -> Iterator[tuple[int, int | None]]:
    """The values of the tensor-parallel flags, with the place where each stands."""
    for index, flag in enumerate(flags):
        name, equals, value = flag.partition("=")
        if name in names:
            at = index if equals else index + 1
            text = value if equals else (flags[at] if at < len(flags) else "")
            yield min(at, len(flags) - 1), int(text) if text.isdecimal() else None


def _driver(machine: Machine) -> Wrong:
    if machine.driver is None:
        return
    version, route = machine.driver.version, machine.driver.route
    why = drivers.wrong(version)
    if why:
        yield ("driver", "version"), why
        return
    carried = {row.version: row.suite for row in drivers.DEBIAN}
    if route == "debian" and version not in carried:
        there = " and ".join(f"{number} ({suite})" for number, suite in carried.items())
        yield (
            ("driver", "version"),
            f"Debian's archive does not carry {version}: it has {there}; another route brings it",
        )
    for at, guest in enumerate(machine.guests):
        for index, service in enumerate(guest.services):
            for engine, _, inside in tried_of(service):
                floor = _floor(engine)
                if floor and drivers.number(version) < drivers.number(floor.driver):
                    place = "".join(f".{part}" for part in inside)
                    yield (
                        ("driver", "version"),
                        f"{version} is older than {floor.driver}, which CUDA {floor.major} of {engine.kind} "
                        f"{engine.version} needs (guests[{at}].services[{index}]{place}.engine)",
                    )


def _floor(engine: Engine) -> drivers.CudaFloor | None:
    try:
        cuda = engines.release_of(engine.kind, engine.version).cuda
    except engines.UnknownEngine:
        return None
    return drivers.floor_for(cuda) if cuda else None
