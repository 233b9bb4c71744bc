"""What was found on a host, as the specs of an inventory and remarks on what they cannot say. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from checks.snapshot import CouldNotLook, Snapshot
from provision.adopt import models, process, words
from provision.adopt.plan import main_process
from provision.adopt.process import Process
from provision.adopt.words import Started
from provision.host import view
from provision.init import host as hosts
from provision.init import profile, strays
from provision.init.host import Container
from provision.spec import Baseline, Engine, Found, Gpu, Guest, Machine, Model, Mount, Service, Ssh


@dataclass
class Description:
    """The machine, and remarks: those of ``at`` stand in the file above the object that they are about."""

    machine: Machine
    general: list[str] = field(default_factory=list)
    at: dict[int, list[str]] = field(default_factory=dict)

    def remark(self, spec: Any, text: str) -> None:
        self.at.setdefault(id(spec), []).append(text)


def name_of(text: str) -> str:
    """A name as inventories want it: ``KPRO6.example.org`` becomes ``kpro6``."""
    short = text if re.fullmatch(r"[\d.]+", text) else text.split(".")[0]
    return re.sub(r"[^a-z0-9]+", "-", short.lower()).strip("-")[:63] or "host"


def model_requests(inside: Snapshot) -> list[str]:
    """The second look into a guest: which files its engines were started with."""
    wanted = []
    for running in process.processes(inside):
        started = words.started(running.words)
        if started is not None:
            wanted += models.requests(running, started.model)
            wanted += models.requests(running, started.drafter) if started.drafter else []
    return list(dict.fromkeys(wanted))


def describe(
    name: str,
    ssh: Ssh | None,
    snapshot: Snapshot,
    guests: Mapping[str, tuple[Snapshot, Snapshot]],
    baselines: Mapping[tuple[str, str], Baseline],
) -> Description:
    """The inventory of a host. ``guests``: both looks into each running container by its id; ``baselines`` by container
    and unit. Raises CouldNotLook."""
    named = hosts.models(snapshot)
    general: list[str] = []
    found = [function for function in view.pci_functions(snapshot) if function.is_gpu]
    gpus = [Gpu(bdf=str(gpu.bdf), model=named.get(gpu.bdf, f"10de:{gpu.device[2:]}")) for gpu in found]
    remarks: dict[int, list[str]] = {}
    made: list[Guest] = []
    for container in hosts.containers(snapshot):
        named_so = _free(name_of(container.name), {guest.name for guest in made})
        guest = _guest(container, named_so, snapshot, guests.get(container.id), baselines, remarks, general)
        if guest is not None:
            made.append(guest)
    general += strays.of_machine(snapshot, {container.id for container in hosts.containers(snapshot)})
    machine = Machine(
        name=name,
        ssh=ssh,
        managed=False,
        gpus=tuple(gpus),
        gpu_count=len(gpus),
        driver=hosts.driver(snapshot),
        guests=tuple(made),
    )
    return Description(machine, general, remarks)


def _free(name: str, taken: set[str]) -> str:
    """Host names of containers repeat, names of an inventory do not: the second ``llm`` is ``llm-2``."""
    names = (name if number == 1 else f"{name[:59]}-{number}" for number in itertools.count(1))
    return next(one for one in names if one not in taken)


def _guest(
    container: Container,
    name: str,
    snapshot: Snapshot,
    inside: tuple[Snapshot, Snapshot] | None,
    baselines: Mapping[tuple[str, str], Baseline],
    remarks: dict[int, list[str]],
    general: list[str],
) -> Guest | None:
    """None for a container in which neither a GPU nor an engine was seen; that it is left out is said."""
    gpus, strange = hosts.gpus_of(container, snapshot)
    said: list[str] = []
    services: list[Service] = []
    where = f"{container.backend} {container.id} ({container.name})"
    unseen = f"{container.state}, not running: not looked into, so what serves in it is unknown"
    if inside is not None:
        services = _services(container, *inside, baselines, remarks, said)
    if not services and not said and not container.minors:
        why = "no GPU is passed in and no engine runs in it" if inside else unseen
        general.append(f"{where} is left out: {why}")
        return None
    if inside is None:
        said.append(f"it is {unseen}")
    for minor in strange:
        said.append(f"it passes in /dev/nvidia{minor}, which no GPU of the machine has now")
    suite = _suite(inside[0], said) if inside else "bookworm"
    mounts = []
    for bind in container.mounts:
        try:
            mounts.append(Mount(source=bind.source, target=bind.target, read_only=bind.read_only))
        except ValidationError:
            said.append(f"it shows {bind.source!r} at {bind.target!r}, which an inventory cannot name")
    guest = Guest(
        name=name,
        backend=container.backend,
        id=container.id,
        managed=False,
        suite=suite,
        unprivileged=container.unprivileged,
        network=container.network,
        gpus=tuple(gpus),
        mounts=tuple(mounts),
        services=tuple(services),
    )
    remarks[id(guest)] = said
    return guest


def _suite(inside: Snapshot, said: list[str]) -> Any:
    text = inside.text("/etc/os-release") or ""
    match = re.search(r"^VERSION_CODENAME=\"?(\w+)", text, re.MULTILINE)
    name = match[1] if match else "unknown"
    if name in ("bookworm", "trixie"):
        return name
    said.append(f"it is {name}, which kpro does not make; suite is only a stand-in here")
    return "bookworm"


def _services(
    container: Container,
    first: Snapshot,
    second: Snapshot,
    baselines: Mapping[tuple[str, str], Baseline],
    remarks: dict[int, list[str]],
    said: list[str],
) -> list[Service]:
    there = process.processes(first)
    units = process.units(first)
    found: list[Service] = []
    seen: set[str] = set()
    commands: set[tuple[str, ...]] = set()
    for running in there:
        started = words.started(running.words)
        if started is None or running.unit in seen:
            if started is not None and running.words not in commands:
                said.append(
                    f"process {running.pid} of {running.unit} serves {started.model} too: only one is described"
                )
            continue
        commands.add(running.words)
        if running.unit is None or running.unit not in units:
            said.append(f"process {running.pid} serves {started.model} and belongs to no service of systemd")
            continue
        seen.add(running.unit)
        try:
            service, notes = _service(running, started, second, baselines.get((container.id, running.unit)))
        except (CouldNotLook, ValidationError) as error:
            said.append(f"{running.unit} serves {started.model}, and cannot be described: {error}")
            continue
        if service.name in {other.name for other in found}:
            said.append(f"{running.unit} would be a second service called {service.name!r}")
            continue
        if units[running.unit].at_boot != "enabled":
            notes.append(
                f"{running.unit} is {units[running.unit].at_boot or 'static'}: it may not start at boot"
            )
        remarks[id(service)] = notes
        found.append(service)
    said += strays.without_server(there)
    return found


def _service(
    running: Process, started: Started, second: Snapshot, baseline: Baseline | None
) -> tuple[Service, list[str]]:
    """Raises CouldNotLook when the engine's version or the model's files cannot be told."""
    notes: list[str] = []
    install = running.install(words.distributions(started.kind))
    if install is None:
        raise CouldNotLook(f"no installed {started.kind} lies beside {running.words[0]}")
    version, python, folder = install
    kind = words.kind_of_distribution(started.kind, next(d.rsplit("/", 1)[1] for d in running.dists))
    model, where = _model(running, started.model, second, notes)
    drafter = _model(running, started.drafter, second, notes)[0] if started.drafter else None
    chosen, flags = profile.profile_of(kind, version, started, notes)
    if started.with_key:
        notes.append("its API key stands in its command line, where every user of the guest can read it")
    service = Service(
        name=name_of((running.unit or "").removesuffix(".service").removeprefix("kpro-")),
        engine=Engine(kind=kind, version=version, python=python),
        model=model,
        drafter=drafter,
        profile=chosen,
        flags=flags,
        environment=dict(sorted(running.values.items())),
        listen=_address(started.listen),
        port=started.port,
        baseline=baseline,
        found=Found(
            unit=running.unit or "",
            command=running.words,
            environment=running.names,
            engine=folder,
            model=where,
        ),
    )
    return service, notes


def _address(listen: str) -> str:
    return {"localhost": "127.0.0.1"}.get(listen, listen)


def _model(running: Process, named: str, second: Snapshot, notes: list[str]) -> tuple[Model, str]:
    identity = models.identity(running, named, second)
    if not identity.recorded:
        notes.append(
            f"{identity.folder} records no commit: the revision is a sha1 over names and sizes of its files, "
            "and repo is only a name"
        )
    elif identity.repo.startswith("local/"):
        notes.append(f"{identity.folder} records its commit and not its repository: repo is only a name")
    return Model(repo=identity.repo, revision=identity.revision), identity.folder


def unit_of(container: Container, inside: Snapshot) -> list[tuple[str, Started]]:
    """The services of a guest that can be measured: unit and how it was started."""
    there = process.processes(inside)
    units = dict.fromkeys(one.unit for one in there if one.unit)
    found = []
    for unit in units:
        running = main_process(unit, there)
        started = words.started(running.words) if running else None
        if started is not None:
            found.append((unit, started))
    return found
