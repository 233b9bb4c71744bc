"""What an engine environment should be, worked out on the controller before a guest is looked at."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provision.data import engines
from provision.spec import Engine

ENVS = "/opt/kpro/envs"
LOCK = "engine.lock"
"""A file of a wheelhouse: what is installed from it, to the last package, and nothing besides."""


@dataclass(frozen=True)
class Shipped:
    """A file that kpro brings along: where it lies on the controller and its sha256."""

    path: str
    sha256: str


@dataclass(frozen=True)
class Wheel:
    """A wheel of an offline wheelhouse."""

    name: str
    sha256: str
    path: Path


@dataclass(frozen=True)
class Tree:
    """Folders that are in the guest already, the first one first on the module path, and who interprets them."""

    interpreter: str
    folders: tuple[str, ...]


@dataclass(frozen=True)
class DesiredEngine:
    """An engine environment: one folder per engine, version and digest of what goes in."""

    kind: str
    version: str
    requirement: str
    module: str
    python: str
    digest: str
    path: str
    wheels: tuple[Wheel, ...] = ()
    native: tuple[str, ...] = ()
    lock: str | None = None
    tree: Tree | None = None
    script: tuple[str, str] | None = field(default=None)
    """A program of ``bin`` that a tree lacks, and the module that it runs."""

    @property
    def marker(self) -> str:
        return f"{self.path}/kpro-env.json"

    @property
    def python_path(self) -> str:
        """The interpreter of the environment."""
        return f"{self.path}/bin/python"

    @property
    def wheel_folder(self) -> str:
        return f"/var/cache/kpro/wheels/{self.digest[:12]}"

    @property
    def distribution(self) -> str:
        """As the folders of installed packages write it."""
        return self.requirement.partition("==")[0].replace("-", "_")


def desired_engine(engine: Engine) -> DesiredEngine:
    """Raises FileNotFoundError when the wheelhouse is not there (the inventory's check said so before)."""
    row = engines.kind_of(engine.kind)
    wheels: tuple[Wheel, ...] = ()
    lock = None
    if engine.wheelhouse is not None:
        if (pins := engine.wheelhouse / LOCK).is_file():
            lock = pins.read_text()
        wheels = tuple(
            Wheel(path.name, _sha256(path.read_bytes()), path)
            for path in sorted(engine.wheelhouse.glob("*.whl"))
        )
    tree = Tree(engine.interpreter, engine.folders) if engine.interpreter is not None else None
    digest = _sha256(json.dumps(_inputs(engine, wheels, lock), sort_keys=True).encode())
    return DesiredEngine(
        kind=engine.kind,
        version=engine.version,
        requirement=f"{row.distribution}=={engine.version}",
        module=row.module,
        python=engine.python,
        digest=digest,
        path=f"{ENVS}/{engine.kind}-{engine.version}-{digest[:12]}",
        wheels=wheels,
        native=row.native,
        lock=lock,
        tree=tree,
        script=(row.program[0], row.script) if row.script else None,
    )


def _inputs(engine: Engine, wheels: tuple[Wheel, ...], lock: str | None) -> dict[str, Any]:
    """What the digest covers. A field that a source does not have is left out, so that another source's new field
    renames no environment."""
    inputs: dict[str, Any] = {
        "kind": engine.kind,
        "version": engine.version,
        "source": engine.source,
        "python": engine.python,
        "wheels": [[wheel.name, wheel.sha256] for wheel in wheels],
    }
    if lock is not None:
        inputs["lock"] = lock
    if engine.interpreter is not None:
        inputs["tree"] = [engine.interpreter, *engine.folders]
    return inputs


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
