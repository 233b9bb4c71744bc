"""What a service should be, worked out on the controller before anything is looked at on a machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from provision.data.around import Around
from provision.data.launch import Launch
from provision.spec import Guest, Machine, Model, Service
from provision.spec_silence import file_of
from provision.stack.around import on_controller
from provision.stack.engine.decide import UV as UV
from provision.stack.engine.desired import DesiredEngine, desired_engine
from provision.stack.manifest import manifest
from provision.stack.unit import rendered

PYZ = "/opt/kpro/provcheck.pyz"
PYTHON = "/usr/bin/python3"
MANIFEST = "kpro-manifest.json"


@dataclass(frozen=True)
class DesiredModel:
    """Model files that are copied from ``folder``; without one ``spec`` says where they come from, and without that
    they are expected in place (a mount). ``role``: what they are to the service."""

    directory: str
    folder: Path | None
    manifest: str | None
    spec: Model | None = None
    role: Literal["model", "drafter"] = "model"

    @property
    def manifest_path(self) -> str:
        return f"{self.directory}/{MANIFEST}"


@dataclass(frozen=True)
class DesiredService:
    """Everything that one service needs in its guest. ``digest`` names the whole of it.

    ``trial``: the same profile as a unit of its own on loopback, where it is tried; ``candidate``: the service with
    its candidate in place, which has a trial too. ``staging``: the folder below /etc/kpro/staged that keeps the two
    apart.
    """

    service: Service
    engine: DesiredEngine
    models: tuple[DesiredModel, ...]
    gate: tuple[str, ...]
    unit: str
    environment: str = field(repr=False)
    key: str | None = field(repr=False)
    record: bytes | None = field(repr=False)
    digest: str
    trial: DesiredService | None = field(default=None, repr=False)
    candidate: DesiredService | None = field(default=None, repr=False)
    staging: str = ""
    around: Around = field(default_factory=Around, repr=False)
    launch: Launch = field(default_factory=Launch, repr=False, compare=False)

    @property
    def name(self) -> str:
        return self.service.name

    @property
    def unit_path(self) -> str:
        return f"/etc/systemd/system/{self.service.unit}"

    @property
    def environment_path(self) -> str:
        return f"/etc/kpro/{self.name}.env"

    @property
    def record_path(self) -> str:
        """Named by its content: what runs keeps the record that it was started with."""
        return record_path(self.record or b"")

    @property
    def silences(self) -> bytes | None:
        return file_of(self.service.silences)

    @property
    def silences_path(self) -> str:
        """Not named by its content: other words of a silence are no reason to start the service anew."""
        return silences_path(self.service)

    @property
    def key_path(self) -> str:
        return f"/etc/kpro/{self.name}.key"

    @property
    def staged_folder(self) -> str:
        return f"/etc/kpro/staged/{self.staging}".rstrip("/")

    @property
    def staged_unit(self) -> str:
        return f"{self.staged_folder}/{self.service.unit}"

    @property
    def staged_environment(self) -> str:
        return f"{self.staged_folder}/{self.name}.env"

    @property
    def good_path(self) -> str:
        """Holds the digest of the profile that was last seen generating."""
        return f"/var/lib/kpro/good/{self.name}"

    @property
    def url(self) -> str:
        host = self.service.listen
        if host in ("0.0.0.0", "::"):
            host = "127.0.0.1"
        return f"http://{f'[{host}]' if ':' in host else host}:{self.service.port}"


def sha256(data: bytes | str) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def desired_models(service: Service, known: Sequence[DesiredModel] = ()) -> tuple[DesiredModel, ...]:
    """``known``: what was read already; files are large, and read once."""
    read = {(model.directory, model.folder): model for model in known}
    found = []
    roles: tuple[tuple[Model | None, Literal["model", "drafter"]], ...]
    roles = ((service.model, "model"), (service.drafter, "drafter"))
    for model, role in roles:
        if model is None:
            continue
        text = None
        if (model.directory, model.folder) in read:
            text = read[model.directory, model.folder].manifest
        elif model.folder is not None:
            text = json.dumps(manifest(model.folder), indent=1, sort_keys=True) + "\n"
        found.append(DesiredModel(model.directory, model.folder, text, model, role))
    return tuple(found)


def silences_path(service: Service) -> str:
    return f"/etc/kpro/{service.name}.silences.json"


def record_path(record: bytes) -> str:
    return f"/etc/kpro/records/{sha256(record)[:16]}.json"


def gate_command(guest: Guest, record: bytes | None, service: Service | None = None) -> tuple[str, ...]:
    """The gate: run by the chain where the service will run, and again by the unit at every start."""
    command = [PYTHON, PYZ, "gpus", "--expect", str(len(guest.gpus)), "--gate"]
    if record is not None:
        command += ["--replay", record_path(record)]
    if service is not None and service.silences:
        command += ["--silences", silences_path(service)]
    return tuple(command)


def desired_service(guest: Guest, service: Service, machine: Machine | None = None) -> DesiredService:
    """Reads the controller's files (wheels, model folder, key, record) and renders unit and environment, of the
    service, of its candidate, and of both where they are tried: as far as is known without looking at the machine
    (``settled`` does the rest)."""
    made = _with_trial(guest, service, machine, "", ())
    promoted = service.promoted()
    if promoted is None:
        return made
    return replace(made, candidate=_with_trial(guest, promoted, machine, "candidate", made.models))


def _with_trial(
    guest: Guest, service: Service, machine: Machine | None, staging: str, known: Sequence[DesiredModel]
) -> DesiredService:
    """A profile and its trial. There is no trial where the port for it is another service's."""
    engine, models = desired_engine(service.engine), desired_models(service, known)
    made = _profile(guest, service, machine, staging, engine, models)
    beside = service.on_loopback()
    if beside is None or any(other.port == beside.port for other in guest.services):
        return made
    trial = _profile(guest, beside, machine, f"{staging}-trial".lstrip("-"), made.engine, made.models)
    return replace(made, trial=trial)


def _profile(
    guest: Guest,
    service: Service,
    machine: Machine | None,
    staging: str,
    engine: DesiredEngine,
    models: tuple[DesiredModel, ...],
) -> DesiredService:
    """One profile as it is started."""
    record = service.replay.read_bytes() if service.replay is not None else None
    gate = gate_command(guest, record, service)
    key = service.api_key_file.read_text().strip() if service.api_key_file is not None else None
    around = on_controller(guest, service, engine.digest, machine)
    also = (sha256(record or b""), *(model.manifest or "" for model in models))
    made = rendered(guest, service, engine.path, gate, around, key, also)
    return DesiredService(
        service,
        engine,
        models,
        gate,
        made.unit,
        made.environment,
        key,
        record,
        made.digest,
        staging=staging,
        around=around,
        launch=made.launch,
    )


def settled(
    guest: Guest, desired: DesiredService, look: Callable[[DesiredService], Around]
) -> DesiredService:
    """The same service, its trial and its candidate, rendered with what ``look`` saw for each."""
    trial = settled(guest, desired.trial, look) if desired.trial is not None else None
    candidate = settled(guest, desired.candidate, look) if desired.candidate is not None else None
    if trial is not desired.trial or candidate is not desired.candidate:
        desired = replace(desired, trial=trial, candidate=candidate)
    around = look(desired)
    if around == desired.around:
        return desired
    also = (sha256(desired.record or b""), *(model.manifest or "" for model in desired.models))
    made = rendered(guest, desired.service, desired.engine.path, desired.gate, around, desired.key, also)
    return replace(
        desired,
        unit=made.unit,
        environment=made.environment,
        digest=made.digest,
        around=around,
        launch=made.launch,
    )
