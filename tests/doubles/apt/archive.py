"""Archives of apt made on the spot: packages by dpkg-deb, lists and signatures as apt reads them. Nothing in them runs
but what a test put there."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Deb:
    """A package. ``files`` are paths and texts; those below /usr/sbin and /usr/bin can be run. ``scripts`` are
    maintainer scripts by name; ``fields`` are further fields of its control file."""

    name: str
    version: str
    depends: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)

    @property
    def control(self) -> str:
        rows = {
            "Package": self.name,
            "Version": self.version,
            "Architecture": "amd64",
            "Maintainer": "Tests <tests@localhost>",
            "Depends": self.depends,
            **self.fields,
            "Description": f"stands for {self.name}",
        }
        return "".join(f"{key}: {value}\n" for key, value in rows.items() if value)

    def build(self, into: Path) -> Path:
        work = into / f".{self.name}"
        shutil.rmtree(work, ignore_errors=True)
        (work / "DEBIAN").mkdir(parents=True)
        (work / "DEBIAN/control").write_text(self.control)
        for name, text in self.scripts.items():
            (work / "DEBIAN" / name).write_text(text)
            (work / "DEBIAN" / name).chmod(0o755)
        for path, text in self.files.items():
            place = work / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(text.encode("latin-1"))
            place.chmod(0o755 if "/bin/" in path or "/sbin/" in path else 0o644)
        deb = into / f"{self.name}_{self.version.replace(':', '%3a')}_amd64.deb"
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Znone", "-b", str(work), str(deb)],
            check=True,
            capture_output=True,
        )
        shutil.rmtree(work)
        return deb


@dataclass(frozen=True)
class Key:
    """A signing key of a test: its home for gpg, and the fingerprint that gpg says."""

    home: Path

    @classmethod
    def make(cls, home: Path, name: str = "tests") -> Key:
        home.mkdir(mode=0o700, parents=True)
        key = cls(home)
        key.gpg("--passphrase", "", "--quick-gen-key", f"{name}@localhost", "rsa2048", "sign", "never")
        return key

    def gpg(self, *words: str) -> bytes:
        command = [
            "gpg",
            "--homedir",
            str(self.home),
            "--batch",
            "--yes",
            "--quiet",
            "--pinentry-mode",
            "loopback",
        ]
        return subprocess.run([*command, *words], check=True, capture_output=True).stdout

    @property
    def public(self) -> bytes:
        return self.gpg("--export")

    @property
    def fingerprint(self) -> str:
        rows = self.gpg("--with-colons", "--list-keys").decode().splitlines()
        return next(row.split(":")[9] for row in rows if row.startswith("fpr:"))

    def stop(self) -> None:
        subprocess.run(["gpgconf", "--homedir", str(self.home), "--kill", "gpg-agent"], check=False)


def write(
    folder: Path,
    origin: str,
    suite: str,
    debs: Iterable[Deb],
    key: Key | None = None,
    label: str = "",
    *,
    build: bool = True,
) -> None:
    """A flat archive; without ``key`` it is not signed. ``build`` False: the lists alone, to be asked about."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for deb in debs:
        path = deb.build(folder) if build else folder / f"{deb.name}.deb"
        data = path.read_bytes() if build else b"nothing"
        rows.append(
            f"{deb.control.rstrip()}\nFilename: ./{path.name}\nSize: {len(data)}\n"
            f"SHA256: {hashlib.sha256(data).hexdigest()}\n"
        )
    packages = "\n".join(rows).encode()
    files = {"Packages": packages, "Packages.gz": gzip.compress(packages, mtime=0)}
    sums = ""
    for name, data in files.items():
        (folder / name).write_bytes(data)
        sums += f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}\n"
    # Debian's archives say their version; apt prints ORIGIN:VERSION/SUITE.
    (folder / "Release").write_text(
        f"Origin: {origin}\nLabel: {label or origin}\nSuite: {suite}\nCodename: {suite}\n"
        f"Date: Sun, 29 Nov 2026 10:00:00 UTC\nArchitectures: amd64\nSHA256:\n{sums}"
    )
    if key:
        key.gpg("--clearsign", "-o", str(folder / "InRelease"), str(folder / "Release"))
