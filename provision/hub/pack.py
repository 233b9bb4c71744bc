"""The one file that fetches on the machine: kpro's own part and the controller's huggingface_hub, nothing to install.

Pure Python alone travels: hf_xet and the C part of PyYAML are left out, and whatever huggingface_hub imports for other
work than fetching.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import re
from functools import cache
from pathlib import Path

import provision
from checks.caches import writable_folder
from checks.files import write_whole
from checks.pack import files_of, licences, zipped

PACKAGES = {
    "anyio": "anyio",
    "filelock": "filelock",
    "h11": "h11",
    "httpcore2": "httpcore2",
    "httpx2": "httpx2",
    "huggingface_hub": "huggingface-hub",
    "idna": "idna",
    "packaging": "packaging",
    "tqdm": "tqdm",
    "truststore": "truststore",
    "typing_extensions": "typing-extensions",
    "yaml": "pyyaml",
}
"""Import name -> distribution: what the fetch imports, as a test of the packed file shows."""

OURS = re.compile(
    r"^(__init__|hub/(__init__|ask|download|fetch|hashing|local|machine|order|problems|progress|select)"
    r"|data/(__init__|model_files))\.py$"
)
_LEFT_OUT = re.compile(
    r"(^|/)__pycache__/|\.(pyc|pyi|typed|so|md)$"
    r"|^huggingface_hub/(cli|inference|_hot_reload|templates|serialization)/|^anyio/pytest_plugin"
)


@cache
def packed() -> Path:
    """The file in the controller's cache, named by its content. Raises ModuleNotFoundError without huggingface_hub."""
    entries = _entries()
    data = zipped(entries)
    path = writable_folder() / f"kpro-hub-{hashlib.sha256(data).hexdigest()[:16]}.pyz"
    if not path.is_file() or path.read_bytes() != data:
        write_whole(path, data, mode=0o755)
    with contextlib.suppress(OSError):
        os.utime(path)
        for old in path.parent.glob("kpro-hub-*.pyz"):
            if old != path and old.stat().st_mtime < path.stat().st_mtime - 24 * 3600:
                old.unlink()
    return path


def version() -> str:
    return importlib.metadata.version("huggingface-hub")


def _entries() -> dict[str, bytes]:
    home = Path(provision.__file__).parent
    entries = {"__main__.py": (home / "hub" / "__main__.py").read_bytes()}
    for file in sorted(home.rglob("*.py")):
        if OURS.match(file.relative_to(home).as_posix()):
            entries[f"provision/{file.relative_to(home).as_posix()}"] = file.read_bytes()
    for name, distribution in PACKAGES.items():
        for path, file in files_of(name):
            if not _LEFT_OUT.search(path):
                entries[path] = file.read_bytes()
        entries.update(licences(distribution))
        entries.update(_metadata(distribution))
    return entries


def _metadata(distribution: str) -> dict[str, bytes]:
    """Some of these packages ask for their own version when they are imported."""
    found = importlib.metadata.distribution(distribution)
    name = f"{distribution.replace('-', '_')}-{found.version}.dist-info"
    head = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {found.version}\n"
    return {f"{name}/METADATA": head.encode()}
