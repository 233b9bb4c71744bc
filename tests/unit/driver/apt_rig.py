"""This machine's own apt, asked in a namespace where its lists, its sources and what is installed are a test's."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.doubles.apt.archive import Deb
from tests.unit.driver.rooted import SYSTEM_PATH, Place

_OVER = {
    "apt": "/etc/apt",
    "lists": "/var/lib/apt",
    "cache": "/var/cache/apt",
    "dpkg": "/var/lib/dpkg",
    "boot": "/boot",
}


class Asked(Place):
    """A machine that can be asked and to which nothing is done. ``folder`` is the test's own."""

    def __init__(self, folder: Path, system: str = 'ID=debian\nVERSION_ID="12"\n') -> None:
        super().__init__()
        self.folder = folder
        for name in _OVER:
            (folder / name).mkdir(parents=True)
        (folder / "usr/lib/modules").mkdir(parents=True)
        for name in ("apt/apt.conf.d", "apt/preferences.d", "lists/lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True)
        (folder / "apt/apt.conf").write_text('APT::Sandbox::User "root";\nAcquire::Languages "none";\n')
        (folder / "os-release").write_text(system)
        for name in ("info", "updates", "triggers"):
            (folder / "dpkg" / name).mkdir()
        (folder / "dpkg/status").touch()

    def sources(self, *archives: Path) -> Asked:
        rows = (f"deb [trusted=yes] copy:{archive} ./\n" for archive in archives)
        (self.folder / "apt/sources.list").write_text("".join(rows))
        done = self.sh("apt-get -q update 2>&1")
        assert done.returncode == 0, done.stdout.decode()
        return self

    def has(self, debs: Iterable[Deb], *, held: bool = False) -> Asked:
        """Installed, as dpkg's status file says it."""
        status = "hold ok installed" if held else "install ok installed"
        with (self.folder / "dpkg/status").open("a") as file:
            for deb in debs:
                file.write(deb.control.replace("\n", f"\nStatus: {status}\n", 1) + "\n")
        return self

    def kernels(self, *releases: str) -> Asked:
        for release in releases:
            (self.folder / f"boot/vmlinuz-{release}").touch()
            (self.folder / "usr/lib/modules" / release).mkdir()
        return self

    def sh(self, script: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        binds = "".join(
            f"mount --bind {self.folder}/{name} {path} || exit 98\n" for name, path in _OVER.items()
        )
        binds += f"mount --bind {self.folder}/os-release /etc/os-release || exit 98\n"
        binds += f"mount -t overlay -o userxattr,lowerdir={self.folder}/usr:/usr overlay /usr || exit 98\n"
        return subprocess.run(
            [
                "unshare",
                "--user",
                "--map-root-user",
                "--mount",
                "sh",
                "-c",
                f'{binds}exec sh -c "$1"',
                "sh",
                script,
            ],
            input=stdin,
            capture_output=True,
            check=False,
            env={"PATH": SYSTEM_PATH, "HOME": "/root"},
        )
