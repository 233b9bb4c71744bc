"""The single-file provcheck: one zip that plain ``python3`` (3.10 or later) runs, with all that it needs
inside.

The same inputs give the same bytes under one version of Python: entries are sorted, times fixed. What a check of GPUs
imports travels as source and as bytecode of the Python that builds it, which saves a third of the start where the
target has that version; any other one compiles the source, once (``checks.zipped``). It is built from whatever is
running: a checkout, an installed wheel, or the single file itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import marshal
import os
import re
import stat
import time
import zipfile
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path

import checks
from checks.caches import cache_folder, writable_folder
from checks.data import integrations
from checks.files import write_whole
from checks.serving import guard

SHEBANG = b"#!/usr/bin/env python3\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)

PACKAGES = {
    "click": "click",
    "packaging": "packaging",
    "prometheus_client": "prometheus-client",
    "pynvml": "nvidia-ml-py",
}
"""Import name -> distribution. All pure Python, and none of them needs another."""

_LEFT_OUT = re.compile(r"(^|/)__pycache__/|\.(pyc|pyi|typed|so)$|^prometheus_client/(bridge|twisted|django)/")


_COMPILED = re.compile(
    r"(click|checks(/(gpus|load|nccl|cuda|data|report))?)/[a-z_0-9]+\.py$|pynvml\.py$|__main__\.py$"
)
_UNCHECKED_HASH = (1).to_bytes(4, "little")


def build(dest: Path) -> str:
    """Writes the single file to ``dest`` (mode 0755, whole or not at all) and returns its sha256 in hex.

    Raises BadInput when ``dest`` cannot be written, ModuleNotFoundError when a needed package is not
    installed.
    """
    data = contents()
    write_whole(dest, data, mode=0o755)
    return hashlib.sha256(data).hexdigest()


KEPT_FILES, KEPT_SECONDS = 3, 24 * 3600
"""Cached files that stay: the newest, and those that somebody took within a day and may be sending still."""


def cached() -> Path:
    """The single file in ``$XDG_CACHE_HOME/kpro``, named after the digest of what goes into it. Older ones that nobody
    took for a day are removed."""
    cache = cache_folder()
    path = cache / f"provcheck-{_fingerprint()}.pyz"
    if not path.is_file():
        cache = writable_folder()
        path = cache / path.name
        if not path.is_file():
            build(path)
    with contextlib.suppress(OSError):
        os.utime(path)
        _prune(cache, path)
    return path


def _prune(cache: Path, mine: Path) -> None:
    """By the time of last use, which ``cached`` renews."""
    others = [
        (file.stat().st_mtime, file)
        for file in cache.glob("provcheck-*.pyz")
        if re.fullmatch(r"provcheck-[0-9a-f]{16}\.pyz", file.name) and file != mine
    ]
    for used, file in sorted(others, reverse=True)[KEPT_FILES - 1 :]:
        if used < time.time() - KEPT_SECONDS:
            file.unlink(missing_ok=True)


def contents() -> bytes:
    """The bytes of the single file."""
    running = own_file()
    if running is not None:
        return running.read_bytes()
    return zipped(_entries())


def zipped(entries: Mapping[str, bytes]) -> bytes:
    """A file that ``python3`` runs, from the files in it: the same ones give the same bytes."""
    out = BytesIO(SHEBANG)
    out.seek(0, os.SEEK_END)
    with zipfile.ZipFile(out, "a", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in sorted(entries.items()):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(entry, data)
    return out.getvalue()


def own_file() -> Path | None:
    """The single file that is running, None when this is a checkout or an installed wheel."""
    home = Path(checks.__file__).absolute().parent.parent
    return home if home.is_file() else None


def _entries() -> dict[str, bytes]:
    entries = {"__main__.py": (Path(checks.__file__).parent / "__main__.py").read_bytes()}
    for name in ("checks", *PACKAGES):
        for path, file in files_of(name):
            if not _LEFT_OUT.search(path):
                entries[path] = file.read_bytes()
    compiled = {
        f"{path}c": _bytecode(path, source) for path, source in entries.items() if _COMPILED.match(path)
    }
    entries.update(compiled)
    entries.update({path: file.read_bytes() for path, file in _templates()})
    for distribution in PACKAGES.values():
        entries.update(licences(distribution))
    return entries


def _bytecode(path: str, source: bytes) -> bytes:
    """The form of a .pyc that is never held against its source (PEP 552). Version 2 of marshal has no references: their
    numbering depends on what else holds a constant, and the same source would give other bytes now and then."""
    code = compile(source, path, "exec", dont_inherit=True)
    head = importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH + importlib.util.source_hash(source)
    return head + marshal.dumps(code, 2)


def _templates() -> Iterator[tuple[str, Path]]:
    """The files that provcheck hands out; a wheel has them inside ``checks`` already, a checkout beside it."""
    for name in (*guard.FILES, *integrations.FILES):
        file = Path(checks.__file__).absolute().parents[1] / "templates" / name
        if file.is_file():
            yield f"checks/{guard.PACKED}/{name}", file


def files_of(name: str) -> Iterator[tuple[str, Path]]:
    """Name in the archive and file, for a package or a single module."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{name} is not installed, and the single-file provcheck needs it")
    origin = Path(spec.origin)
    if spec.submodule_search_locations is None:
        yield f"{name}.py", origin
        return
    top = origin.parent
    for file in sorted(top.rglob("*")):
        if file.is_file():
            yield f"{name}/{file.relative_to(top).as_posix()}", file


def licences(distribution: str) -> dict[str, bytes]:
    """The licence texts that the terms of these packages ask to go along."""
    files = importlib.metadata.files(distribution) or []
    wanted = [file for file in files if re.match(r"(?i)(licen[cs]e|copying|authors|notice)", file.name)]
    found = [(file, Path(str(file.locate()))) for file in wanted if ".dist-info" in str(file)]
    return {
        f"licences/{distribution}/{file.name}": path.read_bytes() for file, path in found if path.is_file()
    }


def _fingerprint() -> str:
    """Changes with any input: names, sizes and times of own files, versions of the packages."""
    running = own_file()
    if running is not None:
        return hashlib.sha256(running.read_bytes()).hexdigest()[:16]
    digest = hashlib.sha256(importlib.util.MAGIC_NUMBER)
    for path, file in (*files_of("checks"), *_templates()):
        if not _LEFT_OUT.search(path):
            digest.update(f"{path}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    for distribution in PACKAGES.values():
        digest.update(f"{distribution} {importlib.metadata.version(distribution)}\n".encode())
    return digest.hexdigest()[:16]
