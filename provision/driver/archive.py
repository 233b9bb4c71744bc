"""A prebuilt driver: modules, firmware and user space of one version for one kernel, with a manifest that names all.

The archive is ``nvidia-<version>-<flavour>-<kernel>.tar.zst``; its first member is ``manifest.json``. Modules carry
NVIDIA's own names (``nvidia.ko``), so that ``modprobe nvidia`` and a blacklist of ``nvidia`` mean them without aliases.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

SCHEMA = "kpro-driver/1"
MANIFEST = "manifest.json"
SIGNATURE_MAGIC = b"~Module signature appended~\n"
"""The last bytes of a signed module (kernel: scripts/sign-file.c)."""

_NAME = re.compile(
    r"nvidia-(?P<version>\d{3}\.\d+(?:\.\d+)?)-(?P<flavour>open|proprietary)-(?P<kernel>[0-9][A-Za-z0-9.+_~-]*)\.tar\.zst"
)
_MEMBER = re.compile(r"(modules|firmware|bin|lib)/[A-Za-z0-9][A-Za-z0-9._+-]*")


@dataclass(frozen=True, order=True)
class Prebuilt:
    """Which driver for which kernel an archive holds."""

    version: str
    flavour: str
    kernel: str

    @property
    def name(self) -> str:
        return f"nvidia-{self.version}-{self.flavour}-{self.kernel}.tar.zst"

    @classmethod
    def parse(cls, name: str) -> Prebuilt | None:
        """Reads a file name; None when it is no archive's."""
        found = _NAME.fullmatch(name)
        return cls(found["version"], found["flavour"], found["kernel"]) if found else None


@dataclass(frozen=True)
class Member:
    """A file of an archive: its size in bytes and its sha256 in hex."""

    path: str
    size: int
    sha256: str
    mode: str


@dataclass(frozen=True)
class Manifest:
    """What an archive holds. ``links`` are symbolic links beside the files, name to target; ``signed`` the id of the
    key's certificate, None for modules without a signature; ``packages`` the sources with their versions."""

    version: str
    flavour: str
    kernel: str
    vermagic: str
    signed: str | None
    packages: Mapping[str, str]
    files: tuple[Member, ...]
    links: Mapping[str, str]

    @property
    def prebuilt(self) -> Prebuilt:
        return Prebuilt(self.version, self.flavour, self.kernel)

    def dump(self) -> str:
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1, sort_keys=True) + "\n"

    @classmethod
    def parse(cls, text: str | bytes) -> Manifest:
        """Raises ValueError when it is none, or names a file outside the archive's own folders."""
        try:
            document: dict[str, Any] = json.loads(text)
            if document.pop("schema", None) != SCHEMA:
                raise ValueError(f"it does not say schema {SCHEMA}")
            files = tuple(Member(**member) for member in document.pop("files"))
            manifest = cls(files=files, **document)
            pairs = dict(manifest.links)
        except (AttributeError, TypeError, KeyError) as error:
            raise ValueError(f"fields are missing or of another kind: {error}") from error
        for path in (*(member.path for member in files), *pairs):
            if not _MEMBER.fullmatch(path):
                raise ValueError(f"{path!r} is no place for a file of a driver")
        for target in pairs.values():
            if "/" in target or target in ("", ".", ".."):
                raise ValueError(f"a link to {target!r} leaves its folder")
        for member in files:
            if not re.fullmatch(r"[0-9a-f]{64}", member.sha256) or not re.fullmatch(
                r"[0-7]{3,4}", member.mode
            ):
                raise ValueError(f"{member.path}: not a sha256 and a mode")
        for field in (manifest.version, manifest.flavour, manifest.kernel):
            if not isinstance(field, str):
                raise ValueError(f"{field!r} is no text")
        if Prebuilt.parse(manifest.prebuilt.name) is None:
            raise ValueError(f"{manifest.prebuilt.name} is no name of an archive")
        if not any(member.path == "modules/nvidia.ko" for member in files):
            raise ValueError("it holds no modules/nvidia.ko")
        return manifest


def member(path: str, data: bytes, mode: str) -> Member:
    return Member(path, len(data), hashlib.sha256(data).hexdigest(), mode)


def modinfo(data: bytes, field: str) -> str | None:
    """A field of a module's .modinfo section, such as ``vermagic`` or ``version``; None when it has none.

    The section is a row of ``field=value`` texts, each ended by a zero byte (kernel: include/linux/moduleparam.h).
    """
    found = re.search(rb"\0" + re.escape(field.encode()) + rb"=([^\0]*)\0", data)
    return found[1].decode(errors="replace").strip() if found else None


def is_signed(data: bytes) -> bool:
    return data.endswith(SIGNATURE_MAGIC)


def flavour_of(license: str | None) -> str | None:
    """The flavour by the module's licence field (modinfo of both): ``Dual MIT/GPL`` is open, ``NVIDIA`` proprietary."""
    return {"Dual MIT/GPL": "open", "NVIDIA": "proprietary"}.get(license or "")
