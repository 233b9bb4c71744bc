"""Packs the stand-in engine as a wheel of its own, the same bytes every time.

Form: the binary distribution format 1.0 (PEP 427) and core metadata 2.1.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from pathlib import Path

from packaging.version import InvalidVersion, Version

from .files import write_whole

PACKAGE = "kpro_standin"
SOURCE = Path(__file__).parent / "standin" / PACKAGE
# The oldest time that a zip file can hold: content alone decides the bytes.
EPOCH = (1980, 1, 1, 0, 0, 0)


def build_wheel(dest_dir: Path, version: str = "1.0.0") -> Path:
    """Writes ``kpro_standin-<version>-py3-none-any.whl`` into ``dest_dir`` and returns its path.

    Equal sources and version give equal bytes (stored, not compressed: the output of zlib differs between its
    builds). Raises ``ValueError`` for a version that is not written in its normal form.
    """
    path = dest_dir / wheel_name(version)
    dest_dir.mkdir(parents=True, exist_ok=True)
    write_whole(path, wheel_bytes(version))
    return path


def wheel_name(version: str) -> str:
    """The file name of the wheel of ``version``."""
    try:
        normal = str(Version(version))
    except InvalidVersion:
        raise ValueError(f"{version!r} is no version; write it like 1.0.0") from None
    if normal != version:
        raise ValueError(f"version {version!r} is not in its normal form, which is {normal}")
    return f"{PACKAGE}-{version}-py3-none-any.whl"


def wheel_bytes(version: str) -> bytes:
    """The wheel of ``version`` as bytes."""
    wheel_name(version)
    files = {f"{PACKAGE}/{file.name}": file.read_bytes() for file in sorted(SOURCE.glob("*.py"))}
    files[f"{PACKAGE}/version.py"] = _version_module(version)
    info = f"{PACKAGE}-{version}.dist-info"
    files[f"{info}/METADATA"] = _metadata(version)
    files[f"{info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: kpro\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    files[f"{info}/entry_points.txt"] = f"[console_scripts]\nkpro-standin = {PACKAGE}.cli:main\n".encode()
    files[f"{info}/RECORD"] = _record(files, f"{info}/RECORD")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, content)
    return buffer.getvalue()


def _version_module(version: str) -> bytes:
    source = (SOURCE / "version.py").read_text(encoding="utf-8")
    doc = source.partition("VERSION = ")[0]
    return f'{doc}VERSION = "{version}"\n'.encode()


def _metadata(version: str) -> bytes:
    return (
        "Metadata-Version: 2.1\n"
        "Name: kpro-standin\n"
        f"Version: {version}\n"
        "Summary: Stand-in for an LLM engine in tests; not a language model\n"
        "License: Apache-2.0\n"
        "Requires-Python: >=3.10\n"
    ).encode()


def _record(files: dict[str, bytes], own_name: str) -> bytes:
    """RECORD names every file with hash and size, and itself with neither."""
    rows = []
    for name, content in files.items():
        value = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={value},{len(content)}")
    return ("\n".join([*rows, f"{own_name},,"]) + "\n").encode()
