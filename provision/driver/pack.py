"""Packing and reading a driver's archive on the controller."""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

from provision.driver.archive import MANIFEST, Manifest, Member, member
from provision.driver.process import Failed

PROGRAMS = ("nvidia-smi", "nvidia-modprobe")


def collect(unpacked: Path, modules: Mapping[str, bytes], version: str, stage: Path) -> None:
    """Brings what a host needs out of the unpacked packages: ``modules``, ``firmware``, ``bin``, ``lib``."""
    for folder in ("modules", "firmware", "bin", "lib"):
        (stage / folder).mkdir(parents=True)
    for name, data in modules.items():
        (stage / "modules" / name).write_bytes(data)
    for path in sorted(unpacked.rglob("*")):
        if path.is_symlink():
            continue
        if f"/firmware/nvidia/{version}/" in str(path) and path.is_file():
            shutil.copyfile(path, stage / "firmware" / path.name)
        elif path.name in PROGRAMS and path.is_file() and os.access(path, os.X_OK):
            shutil.copyfile(path, stage / "bin" / path.name)
        elif path.name.endswith(f".so.{version}"):
            shutil.copyfile(path, stage / "lib" / path.name)
    for path in sorted(unpacked.rglob("*.so*")):
        if path.is_symlink() and (path.parent / path.readlink()).resolve().name.endswith(f".so.{version}"):
            link = stage / "lib" / path.name
            if not link.is_symlink():
                link.symlink_to(path.readlink().name)


def listed(stage: Path) -> tuple[tuple[Member, ...], dict[str, str]]:
    """The files and links of a stage. nvidia-modprobe is set-user-id, as in every distribution: it makes device nodes
    for users who are not root."""
    files, links = [], {}
    for path in sorted(stage.rglob("*")):
        name = str(path.relative_to(stage))
        if path.is_symlink():
            links[name] = str(path.readlink())
        elif path.is_file():
            mode = {"nvidia-modprobe": "4755", "nvidia-smi": "755"}.get(path.name, "644")
            files.append(member(name, path.read_bytes(), mode))
    return tuple(files), links


def write(stage: Path, manifest: Manifest, target: Path) -> None:
    """Writes the archive in one step. Raises Failed."""
    partial = target.with_name(f".{target.name}.partial")
    try:
        with partial.open("wb") as out:
            packer = subprocess.Popen(["zstd", "-q", "-9", "-T0", "-c"], stdin=subprocess.PIPE, stdout=out)
            assert packer.stdin is not None
            with tarfile.open(fileobj=packer.stdin, mode="w|", format=tarfile.PAX_FORMAT) as tar:
                _add(tar, MANIFEST, manifest.dump().encode(), "644")
                for entry in manifest.files:
                    _add(tar, entry.path, (stage / entry.path).read_bytes(), entry.mode)
                for name, to in sorted(manifest.links.items()):
                    link = tarfile.TarInfo(name)
                    link.type, link.linkname, link.mode = tarfile.SYMTYPE, to, 0o777
                    tar.addfile(link)
            packer.stdin.close()
            if packer.wait():
                raise Failed(f"zstd ended with {packer.returncode}: is the disk full?")
            os.fsync(out.fileno())
        partial.replace(target)
    except OSError as error:
        raise Failed(f"{target} could not be written: {error}") from error
    finally:
        partial.unlink(missing_ok=True)


def _add(tar: tarfile.TarFile, name: str, data: bytes, mode: str) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), int(mode, 8)
    tar.addfile(info, io.BytesIO(data))


def manifest_of(path: Path) -> Manifest:
    """The manifest of an archive, without unpacking the rest. Raises Failed when it is none."""
    next_step = f"Next: remove {path} and build it again"
    try:
        process = subprocess.Popen(
            ["zstd", "-q", "-dc", str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except FileNotFoundError as error:
        raise Failed("the program zstd is missing on this machine. Next: apt-get install zstd") from error
    assert process.stdout is not None
    try:
        with tarfile.open(fileobj=process.stdout, mode="r|") as tar:
            first = tar.next()
            body = tar.extractfile(first) if first is not None and first.name == MANIFEST else None
            if body is None:
                raise Failed(f"{path} is no prebuilt driver: it does not begin with {MANIFEST}. {next_step}")
            return Manifest.parse(body.read())
    except (tarfile.TarError, ValueError, EOFError) as error:
        raise Failed(f"{path} is no prebuilt driver: {error}. {next_step}") from error
    finally:
        process.stdout.close()
        process.wait()


def certificate_id(data: bytes) -> str:
    """The sha256 of a certificate in DER, in hex: what ``openssl x509 -fingerprint -sha256`` shows."""
    if b"-----BEGIN CERTIFICATE-----" in data:
        import base64

        body = re.search(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", data, re.DOTALL)
        data = base64.b64decode(body[1]) if body else data
    return hashlib.sha256(data).hexdigest()


def digest(path: Path) -> str:
    """The sha256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
