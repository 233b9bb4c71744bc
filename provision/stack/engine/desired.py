"""What an engine environment should be, worked out on the controller before a guest is looked at."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provision.data import engine_builds, engines
from provision.spec_engine import Engine
from provision.stack.engine import locks, patches
from provision.stack.engine.patches import DesiredPatch

ENVS = "/opt/kpro/envs"


@dataclass(frozen=True)
class Shipped:
    """A file that kpro brings along: where it lies on the controller and its sha256."""

    path: str
    sha256: str


@dataclass(frozen=True)
class Wheel:
    """A wheel of an offline wheelhouse; ``size`` in bytes."""

    name: str
    sha256: str
    path: Path
    size: int = 0


@dataclass(frozen=True)
class Tree:
    """Folders that are in the guest already, the first one first on the module path, and who interprets them."""

    interpreter: str
    folders: tuple[str, ...]


@dataclass(frozen=True)
class Checkout:
    """A commit of a repository; ``subdirectory`` (``python/`` or nothing) is what is built of it."""

    repository: str
    commit: str
    subdirectory: str


@dataclass(frozen=True)
class Lock:
    """``text`` pins all that is installed. ``given`` by the inventory or the wheelhouse, and so part of the digest;
    else kept from a build before."""

    text: str = field(repr=False)
    given: bool

    @property
    def sha256(self) -> str:
        return _sha256(self.text.encode())


@dataclass(frozen=True)
class DesiredEngine:
    """An engine environment: one folder per engine, version and digest of what goes in.

    ``script`` is a program of ``bin`` that a tree lacks, and the module that it runs; ``left_out`` are dependencies
    that are not installed though the engine names them.
    """

    kind: str
    version: str
    requirement: str
    module: str
    python: str
    digest: str
    path: str
    wheels: tuple[Wheel, ...] = ()
    native: tuple[str, ...] = ()
    tree: Tree | None = None
    script: tuple[str, str] | None = None
    checkout: Checkout | None = None
    patches: tuple[DesiredPatch, ...] = ()
    lock: Lock | None = None
    left_out: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def marker(self) -> str:
        return f"{self.path}/kpro-env.json"

    @property
    def python_path(self) -> str:
        """The interpreter of the environment."""
        return f"{self.path}/bin/python"

    @property
    def site(self) -> str:
        """Where packages are installed."""
        return f"{self.path}/lib/python{self.python}/site-packages"

    @property
    def wheel_folder(self) -> str:
        return f"/var/cache/kpro/wheels/{self.digest[:12]}"

    @property
    def source_folder(self) -> str:
        """Where a checkout lies while it is built."""
        return f"/var/cache/kpro/src/{self.digest[:12]}"

    @property
    def distribution(self) -> str:
        """As the folders of installed packages write it."""
        return self.requirement.partition("==")[0].replace("-", "_")

    @property
    def modules(self) -> tuple[str, ...]:
        """What must be importable."""
        return self.module, *self.native


def desired_engine(engine: Engine) -> DesiredEngine:
    """Reads the controller's files. Raises OSError, ``diff.BadPatch`` or ValueError where the inventory's check, which
    comes first, has said so already."""
    row = engines.kind_of(engine.kind)
    wheels: tuple[Wheel, ...] = ()
    if engine.wheelhouse is not None:
        wheels = tuple(
            Wheel(path.name, _sha256(path.read_bytes()), path, path.stat().st_size)
            for path in sorted(engine.wheelhouse.glob("*.whl"))
        )
    changed = desired_patches(engine)
    lock = _given_lock(engine, wheels)
    digest = _sha256(json.dumps(_inputs(engine, wheels, changed, lock), sort_keys=True).encode())
    name = f"{engine.kind}-{engine.version}-{digest[:12]}"
    if lock is None and engine.source != "tree" and (text := locks.kept(name)) is not None:
        lock = Lock(text, given=False)
    tree = Tree(engine.interpreter, engine.folders) if engine.interpreter is not None else None
    checkout = None
    if engine.repository is not None and engine.commit is not None:
        checkout = Checkout(engine.repository, engine.commit, row.subdirectory)
    return DesiredEngine(
        kind=engine.kind,
        version=engine.version,
        requirement=f"{row.distribution}=={engine.version}",
        module=row.module,
        python=engine.python,
        digest=digest,
        path=f"{ENVS}/{name}",
        wheels=wheels,
        native=row.native,
        tree=tree,
        script=(row.program[0], row.script) if row.script else None,
        checkout=checkout,
        patches=changed,
        lock=lock,
        left_out=engine_builds.left_out(engine.kind, engine.version),
    )


def desired_patches(engine: Engine) -> tuple[DesiredPatch, ...]:
    """In their order. Raises OSError and ``diff.BadPatch``."""
    # A checkout has the repository's own paths.
    inner = "" if engine.source == "git" else engines.kind_of(engine.kind).subdirectory
    return tuple(
        patches.desired(patch.file.name, patch.why, patch.file.read_bytes(), patch.without, inner)
        for patch in engine.patches
    )


def _given_lock(engine: Engine, wheels: tuple[Wheel, ...]) -> Lock | None:
    own = engine.wheelhouse / locks.OF_WHEELHOUSE if engine.wheelhouse is not None else None
    if engine.lock is not None:
        return Lock(engine.lock.read_text("utf-8"), given=True)
    if own is None or not own.is_file():
        return None
    text = own.read_text("utf-8")
    return Lock(locks.with_hashes(text, ((wheel.name, wheel.sha256) for wheel in wheels)), given=True)


def _inputs(
    engine: Engine, wheels: tuple[Wheel, ...], changed: tuple[DesiredPatch, ...], lock: Lock | None
) -> dict[str, Any]:
    """What the digest covers. A field that a source does not have is left out, so that another source's new field
    renames no environment."""
    inputs: dict[str, Any] = {
        "kind": engine.kind,
        "version": engine.version,
        "source": engine.source,
        "python": engine.python,
        "wheels": [[wheel.name, wheel.sha256] for wheel in wheels],
    }
    if engine.interpreter is not None:
        inputs["tree"] = [engine.interpreter, *engine.folders]
    if engine.commit is not None:
        inputs["git"] = [engine.repository, engine.commit]
    if changed:
        inputs["patches"] = [
            [patch.sha256, list(spec.without)] for patch, spec in zip(changed, engine.patches, strict=True)
        ]
    if lock is not None:
        inputs["lock"] = lock.sha256
    return inputs


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
