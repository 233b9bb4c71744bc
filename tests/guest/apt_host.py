"""A container as the machine that a driver is put on: its own apt with loopback archives, kernels, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from provision import acts
from provision.acts.voice import Voice
from provision.driver.installer import Installer
from provision.host import boot
from provision.host.driver import driver_plan, requests
from provision.plan import Item, Plan
from provision.spec import Machine
from tests.doubles.apt import archive, catalogue
from tests.guest.rig import Container
from tests.unit.driver.rooted import Place


class Contained(Place):
    """Commands run inside a container by lxc-attach; it is the machine for the acts."""

    def __init__(self, container: Container) -> None:
        super().__init__()
        self.container = container

    def sh(self, script: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        words = ["lxc-attach", "-n", self.container.name, "--clear-env", "--", "sh", "-c", script]
        return subprocess.run(words, input=stdin, capture_output=True, check=False)

    def must(self, script: str) -> str:
        done = self.sh(script)
        assert done.returncode == 0, (
            script[-400:],
            done.stdout[-2000:].decode(),
            done.stderr[-2000:].decode(),
        )
        return done.stdout.decode()

    def packages(self) -> dict[str, str]:
        rows = self.must("dpkg-query -W -f '${db:Status-Abbrev}|${Package}|${Version}\\n'").splitlines()
        return {name: version for state, name, version in (row.split("|") for row in rows) if state[1] != "c"}

    def everything(self) -> dict[str, str]:
        """All of /etc, /usr, /boot and /lib/modules by content, without what apt and dpkg write for themselves."""
        script = (
            "cd / && find etc usr boot -xdev -type f ! -path etc/ld.so.cache ! -path 'usr/share/zoneinfo/*' -print0 | "
            "sort -z | xargs -0 -r sha256sum"
        )
        return {row[66:]: row[:64] for row in self.must(script).splitlines()}


class Served:
    """A folder on loopback, for a machine that shares this one's network."""

    def __init__(self, folder: Path) -> None:
        class Quiet(SimpleHTTPRequestHandler):
            def log_message(self, *words: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def prepare(container: Container, archives: Path, names: tuple[str, ...], install: str) -> Contained:
    """Gives a stopped container these archives (folders of ``archives``) as its only sources, starts it, installs."""
    root = container.rootfs
    shutil.copytree(archives, root / "srv/archives")
    for path in [*root.glob("etc/apt/sources.list.d/*"), *root.glob("etc/apt/sources.list")]:
        path.unlink()
    (root / "etc/apt/sources.list").write_text(
        "".join(f"deb [trusted=yes] file:/srv/archives/{name} ./\n" for name in names)
    )
    container.start()
    place = Contained(container)
    place.must(f"apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q -y install {install}")
    return place


def make_bare(container: Container, folder: Path) -> Contained:
    """A Debian with two kernels, Debian's own driver in its sources, and no driver installed."""
    archive.write(folder / "main", "Debian", "bookworm", [*catalogue.BASE, *catalogue.debian(catalogue.OLD)])
    newer = catalogue.debian(catalogue.OLD, security=catalogue.NEW)
    archive.write(folder / "security", "Debian", "bookworm-security", newer)
    images = f"linux-image-amd64 linux-image-{catalogue.KERNEL}"
    place = prepare(container, folder, ("main", "security"), images)
    # The kernel that runs is this machine's: the container says the one that it has.
    place.must(
        f"printf '#!/bin/sh\\necho {catalogue.KERNEL}\\n' >/usr/local/bin/uname; chmod 755 /usr/local/bin/uname"
    )
    return place


def plan(host: Contained, machine: Machine, *held: Installer) -> Plan:
    looked = [*boot.REQUESTS, "cmd:uname-r:uname -r", *requests(machine)]
    return driver_plan(machine, host.look(looked), held)


def carry_out(host: Contained, item: Item, run: str = "20261130T030000Z-aaaaaa") -> None:
    acts.carry_out(host, item, Voice(run, host.said.append))  # type: ignore[arg-type]


def undone(host: Contained) -> str:
    return host.must("KPRO_RUN=x sh /var/lib/kpro/undo.sh")
