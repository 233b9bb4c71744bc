"""Hosts that are folders: commands run there, files are put there. Stand for a pyinfra host in tests of the acts."""

from __future__ import annotations

import io
import shlex
import subprocess
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from checks import snapshot
from provision.host import transport

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Place:
    """``name`` is what the acts look at; ``said`` is what they told."""

    name = "box"

    def __init__(self) -> None:
        self.said: list[str] = []

    def __str__(self) -> str:
        return self.name

    def sh(self, script: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        raise NotImplementedError

    def use(self, patch: pytest.MonkeyPatch) -> None:
        """From now on the transport brings commands and files here."""

        def run(host: Any, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Any:
            done = self.sh(command, stdin or b"")
            return transport.Completed(done.returncode, done.stdout, done.stderr, True)

        def put(
            host: Any, source: BinaryIO, path: str, *, mode: str, owner: str, progress: Any = None
        ) -> None:
            quoted = shlex.quote(path)
            done = self.sh(
                f"umask 077; cat >{quoted}.put && chmod {mode} {quoted}.put && mv -f {quoted}.put {quoted}",
                source.read(),
            )
            if done.returncode:
                raise OSError(done.stderr.decode())

        patch.setattr(transport, "run", run)
        patch.setattr(transport, "put", put)

    def look(self, requests: list[str]) -> snapshot.Snapshot:
        """A snapshot of the place as of a live machine."""
        done = self.sh("exec sh -s -- " + shlex.join(requests), snapshot.script().encode())
        assert done.returncode == 0, done.stderr
        return snapshot.parse(done.stdout)

    def text(self, path: str) -> str | None:
        done = self.sh(f"cat {shlex.quote(path)}")
        return done.stdout.decode() if done.returncode == 0 else None

    def find(self, *folders: str) -> list[str]:
        """Files and links below the folders."""
        done = self.sh(f"find {shlex.join(folders)} ! -type d 2>/dev/null | sort")
        return done.stdout.decode().split()


class Rooted(Place):
    """A folder with a whole system in it, entered by chroot. For root only."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root

    def sh(self, script: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        inside = ["unshare", "--mount", "--pid", "--fork", "--kill-child", f"--mount-proc={self.root}/proc"]
        return subprocess.run(
            [*inside, "chroot", str(self.root), "sh", "-c", script],
            input=stdin,
            capture_output=True,
            check=False,
            env={"PATH": SYSTEM_PATH, "HOME": "/root"},
        )


_DOUBLES = {
    # As kmod's: a field of a file's .modinfo section, or the file that a module's name means for a kernel.
    "modinfo": """case $1 in
-F) tr '\\0' '\\n' <"$3" | sed -n "s/^$2=//p" | head -n 1 ;;
-k) sed -n "s|^\\(.*/$5.ko\\):.*|/lib/modules/$2/\\1|p" "/lib/modules/$2/modules.dep" | head -n 1 ;;
*) exit 99 ;;
esac""",
    "depmod": """[ ! -e {control}/depmod ] || . {control}/depmod
cd "/lib/modules/$1" && find kernel updates -name '*.ko' 2>/dev/null | sed 's/$/:/' >modules.dep""",
    "ldconfig": "exit 0",
    "sync": "exit 0",
    "systemctl": "exit 0",
    # What reaches the machine itself through the kernel or a socket, past any overlay.
    **dict.fromkeys(
        ("lxc-stop", "lxc-start", "lxc-info", "modprobe", "rmmod", "insmod", "udevadm", "reboot"), "exit 99"
    ),
    **dict.fromkeys(("update-initramfs", "update-grub", "proxmox-boot-tool", "apt-get", "dpkg"), "exit 99"),
}


_OWN = ("var/lib/kpro", "var/lib/lxc", "run/kpro", "run/systemd", "boot")


class Overlaid(Place):
    """This machine with its /usr, /etc, /opt and /var overlaid: what is written goes to a folder of the test. Works
    without root where user namespaces do. ``modinfo``, ``depmod`` and ``ldconfig`` are doubles; a shell fragment in
    ``control/depmod`` makes that one misbehave.

    What kpro keeps on this machine, its containers, modules, units and boot files are out of reach: the folders are the
    test's own, the programs doubles, the network namespace (where LXC listens) is empty."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.control = folder / "control"
        for name in ("usr", "etc", "opt", "var", "run"):
            (folder / "up" / name).mkdir(parents=True)
            (folder / "work" / name).mkdir(parents=True)
        self.control.mkdir()
        for name in _OWN:
            (folder / "own" / name).mkdir(parents=True)
        (folder / "bin").mkdir()
        for name, text in _DOUBLES.items():
            double = folder / "bin" / name
            double.write_text(f"#!/bin/sh\n{text.replace('{control}', str(self.control))}\n")
            double.chmod(0o755)

    def sh(self, script: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        mounts = "".join(
            f"mount -t overlay overlay -o userxattr,lowerdir=/{name},upperdir={self.folder}/up/{name},"
            f"workdir={self.folder}/work/{name} /{name} || exit 98\n"
            for name in ("usr", "etc", "opt", "var", "run")
        )
        for name in _OWN:
            mounts += f"mkdir -p /{name} && mount --bind {self.folder}/own/{name} /{name} || exit 98\n"
        path = f"{self.folder}/bin:{SYSTEM_PATH}"
        return subprocess.run(
            [
                "unshare",
                "--user",
                "--map-root-user",
                "--mount",
                "--net",
                "sh",
                "-c",
                f'{mounts}exec sh -c "$1"',
                "sh",
                script,
            ],
            input=stdin,
            capture_output=True,
            check=False,
            env={"PATH": path, "HOME": "/root"},
        )


def module(
    name: str, version: str, kernel: str, license: str = "Dual MIT/GPL", signed: bool = False
) -> bytes:
    """A file with the .modinfo section of a module, and nothing that a kernel could run."""
    fields = [
        f"version={version}",
        f"license={license}",
        f"name={name}",
        f"vermagic={kernel} SMP preempt mod_unload modversions ",
    ]
    data = io.BytesIO()
    data.write(b"\x7fELF not really\0")
    data.write(b"".join(field.encode() + b"\0" for field in fields))
    data.write(b"x" * 100)
    if signed:
        data.write(b"~Module signature appended~\n")
    return data.getvalue()
