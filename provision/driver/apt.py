"""Debian's archive, asked from the controller: an apt state beside the machine's own, with the same mirror and proxy.

Every component is asked for, security included. Where the two disagree (an ``nvidia-alternative`` of the security
archive next to an older kernel package) nothing breaks here: packages are fetched by exact version and unpacked, never
installed together.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from provision.debian import COMPONENTS, TARGETS, archives
from provision.driver.process import Commands, Failed

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


@dataclass(frozen=True)
class Apt:
    """An apt state of its own in ``folder``; made by ``prepare``."""

    folder: Path
    run: Commands

    @property
    def sources(self) -> Path:
        return self.folder / "sources.list"

    @property
    def _conf(self) -> Path:
        return self.folder / "apt.conf"

    def prepare(self, suite: str) -> None:
        """Reads the suite's package lists. Raises Failed when no Debian mirror is known or it does not answer."""
        found = archives(self.run.output(["apt-get", "indextargets", "--format", TARGETS]))
        main = found.get("main")
        if main is None:
            raise Failed(
                "apt of this machine knows no Debian mirror; the driver's sources and the kernel's "
                "headers come from there. "
                "Next: look at its sources, run apt-get update, then run this again"
            )
        by = f"[signed-by={KEYRING}] " if KEYRING.exists() else ""
        lines = [f"deb {by}{main} {suite} {COMPONENTS}"]
        for what in ("updates", "security"):
            if what in found:
                lines.append(f"deb {by}{found[what]} {suite}-{what} {COMPONENTS}")
        for folder in ("state/lists/partial", "cache/archives/partial"):
            (self.folder / folder).mkdir(parents=True)
        (self.folder / "status").touch()
        self.sources.write_text("\n".join(lines) + "\n")
        self._conf.write_text(
            f'Dir::State "{self.folder}/state";\nDir::State::status "{self.folder}/status";\n'
            f'Dir::Cache "{self.folder}/cache";\nDir::Etc::sourcelist "{self.sources}";\n'
            'Dir::Etc::sourceparts "-";\nDir::Etc::preferences "-";\nDir::Etc::preferencesparts "-";\n'
            'APT::Sandbox::User "root";\nAcquire::Languages "none";\nAPT::Update::Error-Mode "any";\n'
        )
        self.run(["apt-get", "-c", str(self._conf), "-q", "update"], f"reading the package lists of {suite}")

    def versions(self, package: str) -> tuple[str, ...]:
        """All versions that the suite has of a package, newest first."""
        text = self.run.output(["apt-cache", "-c", str(self._conf), "madison", package])
        found = [fields[1].strip() for line in text.splitlines() if len(fields := line.split("|")) == 3]
        return tuple(dict.fromkeys(found))

    def names(self, prefix: str) -> tuple[str, ...]:
        text = self.run.output(["apt-cache", "-c", str(self._conf), "pkgnames", prefix])
        return tuple(sorted(text.split()))

    def fetch(self, packages: dict[str, str], into: Path) -> None:
        """Fetches exact versions and unpacks them; nothing is installed."""
        debs = self.folder / "debs"
        debs.mkdir()
        wanted = [f"{name}={version}" for name, version in packages.items()]
        self.run(
            ["apt-get", "-c", str(self._conf), "-q", "download", *wanted], "fetching the driver", cwd=debs
        )
        for deb in sorted(debs.glob("*.deb")):
            self.run(["dpkg-deb", "-x", str(deb), str(into)], f"unpacking {deb.name}")
