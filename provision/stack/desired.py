"""What a service should be, worked out on the controller before anything is looked at on a machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from provision.data import engines
from provision.spec import Guest, Model, Service
from provision.stack.engine.decide import UV as UV
from provision.stack.engine.desired import DesiredEngine, desired_engine
from provision.stack.manifest import manifest
from provision.templates import render

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
    its candidate in place, which has a trial too. ``staging``: the folder below /etc/kpro/staged that keeps these
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


def record_path(record: bytes) -> str:
    return f"/etc/kpro/records/{sha256(record)[:16]}.json"


def gate_command(guest: Guest, record: bytes | None) -> tuple[str, ...]:
    """The gate: run by the chain where the service will run, and again by the unit at every start."""
    command = [PYTHON, PYZ, "gpus", "--expect", str(len(guest.gpus)), "--gate"]
    if record is not None:
        command += ["--replay", record_path(record)]
    return tuple(command)


def desired_service(guest: Guest, service: Service) -> DesiredService:
    """Reads the controller's files (wheels, model folder, key, record) and renders unit and environment: of the
    service, of its candidate, and of both where they are tried."""
    made = _with_trial(guest, service, "", ())
    promoted = service.promoted()
    if promoted is None:
        return made
    return replace(made, candidate=_with_trial(guest, promoted, "candidate", made.models))


def _with_trial(
    guest: Guest, service: Service, staging: str, known: Sequence[DesiredModel]
) -> DesiredService:
    """A profile and its trial. There is no trial where the port for it is another service's."""
    made = _profile(guest, service, staging, desired_engine(service.engine), desired_models(service, known))
    beside = service.on_loopback()
    if beside is None or any(other.port == beside.port for other in guest.services):
        return made
    trial = _profile(guest, beside, f"{staging}-trial".lstrip("-"), made.engine, made.models)
    return replace(made, trial=trial)


def _profile(
    guest: Guest,
    service: Service,
    staging: str,
    engine: DesiredEngine,
    models: tuple[DesiredModel, ...],
) -> DesiredService:
    """One profile as it is started."""
    record = service.replay.read_bytes() if service.replay is not None else None
    gate = gate_command(guest, record)
    variables = dict(engines.environment(service))
    key: str | None = None
    if service.api_key_file is not None:
        variable = engines.kind_of(service.engine.kind).key_variable
        if variable is None:
            raise ValueError(f"{service.engine.kind} has no way to be given a key in secret")
        key = variables[variable] = service.api_key_file.read_text().strip()
    environment = "".join(f"{name}={_quoted(value)}\n" for name, value in sorted(variables.items()))
    text = render(
        "service.unit.j2",
        name=service.name,
        engine=f"{service.engine.kind} {service.engine.version}",
        gpus=len(guest.gpus),
        gate=[_unit_word(word) for word in gate],
        command=[_unit_word(word) for word in engines.command(service, engine.path)],
    )
    digest = sha256(
        "\0".join([text, environment, sha256(record or b""), *(m.manifest or "" for m in models)])
    )
    return DesiredService(
        service,
        engine,
        models,
        gate,
        text.replace("@digest@", digest),
        environment,
        key,
        record,
        digest,
        staging=staging,
    )


def _quoted(value: str) -> str:
    """A value of a systemd environment file: double quotes, with backslash escapes for the four that need them."""
    return '"' + "".join(f"\\{char}" if char in '"\\`$' else char for char in value) + '"'


def _unit_word(word: str) -> str:
    """One word of an ExecStart line: specifiers and variables off, quoted where systemd would split."""
    word = word.replace("%", "%%").replace("$", "$$")
    if word and not any(char in word for char in " \t\n\"'\\;"):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
