"""What the guest tier stands on: real containers, a loopback sshd, and runs of pyinfra against them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gevent import Timeout, sleep, subprocess
from pyinfra.api.config import Config
from pyinfra.api.connect import connect_all, disconnect_all
from pyinfra.api.host import Host
from pyinfra.api.inventory import Inventory
from pyinfra.api.state import State

from provision.spec import Guest, Machine, Ssh

LXC = Path("/var/lib/lxc")
START_SECONDS = 120


def sh(*command: str, timeout: float = 60, check: bool = True) -> subprocess.CompletedProcess[str]:
    """A program of this machine, independent of the code under test."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)
    if check and done.returncode:
        raise AssertionError(f"{command[0]} fails ({done.returncode}): {done.stdout}{done.stderr}")
    return done


@dataclass(frozen=True)
class Container:
    """An LXC container of this machine, looked at with LXC's own programs."""

    name: str

    @property
    def rootfs(self) -> Path:
        return LXC / self.name / "rootfs"

    def attach(self, *command: str, check: bool = True) -> str:
        return sh("lxc-attach", "-n", self.name, "--clear-env", "--", *command, check=check).stdout

    def start(self) -> None:
        sh("lxc-start", "-n", self.name, "-d")
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            said = self.attach("systemctl", "is-system-running", check=False).strip()
            if said in ("running", "degraded"):
                return
            time.sleep(0.2)
        raise AssertionError(f"{self.name}: systemd is not up after {START_SECONDS} s, it says {said!r}")

    def stop(self) -> None:
        sh("lxc-stop", "-n", self.name, "-k")

    def destroy(self) -> None:
        sh("lxc-stop", "-n", self.name, "-k", check=False)
        shutil.rmtree(LXC / self.name)

    def spec(self, name: str = "inside") -> Guest:
        return Guest(name=name, backend="lxc", id=self.name)


def make_container(name: str, root: Path, network: str = "none", lines: tuple[str, ...] = ()) -> Container:
    """Unpack a root and write a configuration; not started.

    ``network``: ``none`` shares this machine's network, ``empty`` has no network.
    """
    container = Container(name)
    container.rootfs.mkdir(parents=True)
    try:
        sh("tar", "--numeric-owner", "--xattrs", "-xf", str(root), "-C", str(container.rootfs))
        (container.rootfs / "etc/hostname").write_text(f"{name}\n")
        (LXC / name / "config").write_text(
            textwrap.dedent(f"""\
            lxc.uts.name = {name}
            lxc.rootfs.path = dir:{container.rootfs}
            lxc.init.cmd = /sbin/init
            lxc.apparmor.profile = unconfined
            lxc.mount.auto = cgroup:rw:force proc:rw sys:rw
            lxc.net.0.type = {network}
            """)
            + "".join(f"{line}\n" for line in lines)
        )
    except BaseException:
        shutil.rmtree(LXC / name)
        raise
    return container


@dataclass(frozen=True)
class Sshd:
    """A loopback sshd that lets root in with one key; ``restart`` breaks every connection to it."""

    folder: Path
    port: int

    def ssh(self) -> Ssh:
        return Ssh(
            host="127.0.0.1",
            port=self.port,
            user="root",
            key=str(self.folder / "key"),
            known_hosts=str(self.folder / "known_hosts"),
        )

    @property
    def pid(self) -> int:
        return int((self.folder / "pid").read_text())

    def start(self) -> None:
        Path("/run/sshd").mkdir(exist_ok=True)
        sh("/usr/sbin/sshd", "-f", str(self.folder / "sshd_config"), "-E", str(self.folder / "log"))
        until = time.monotonic() + 10
        while time.monotonic() < until:
            with socket.socket() as probe:
                if not probe.connect_ex(("127.0.0.1", self.port)):
                    return
            sleep(0.05)
        raise AssertionError(f"sshd is not up: {(self.folder / 'log').read_text()}")

    def stop(self) -> None:
        """End the listener and every connection that it serves."""
        if not (self.folder / "pid").exists():
            return
        listener = self.pid
        serving = [
            int(pid) for pid in sh("ps", "-o", "pid=", "--ppid", str(listener), check=False).stdout.split()
        ]
        for pid in (listener, *serving):
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                continue
        until = time.monotonic() + 10
        while Path(f"/proc/{listener}").exists() and time.monotonic() < until:
            sleep(0.05)


def make_sshd(folder: Path) -> Sshd:
    """Keys and configuration of its own, on a free port; not started."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for key in ("key", "host_key"):
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key))
    host_key = (folder / "host_key.pub").read_text().split()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key[0]} {host_key[1]}\n")
    (folder / "sshd_config").write_text(
        textwrap.dedent(f"""\
        ListenAddress 127.0.0.1:{port}
        HostKey {folder}/host_key
        AuthorizedKeysFile {folder}/key.pub
        PidFile {folder}/pid
        StrictModes no
        UsePAM no
        PasswordAuthentication no
        PermitRootLogin yes
        Subsystem sftp internal-sftp
        """)
    )
    return Sshd(folder, port)


@contextmanager
def connected(machine: Machine, limit: list[str] | None = None) -> Iterator[State]:
    """pyinfra's API, connected, in the planning stage."""
    metal, guests = machine.pyinfra_groups()
    inventory = Inventory(([*metal, *guests], {}))
    state = State()
    hosts = None if limit is None else [inventory.get_host(name) for name in limit]
    state.init(inventory, Config(), initial_limit=hosts)
    connect_all(state)
    try:
        yield state
    finally:
        disconnect_all(state)


def host(state: State, name: str) -> Host:
    return state.inventory.get_host(name)


def controller(machine: Machine, code: str, *arguments: str) -> subprocess.Popen[str]:
    """Another controller, in a process of its own and with gevent's patches, as under pyinfra's command line.

    The code sees ``state`` (connected, executing), ``metal``, ``inside`` (the first guest), ``transport`` and
    ``arguments``; what it prints comes unbuffered.
    """
    head = """\
    import pyinfra_cli, io, resource, sys, time
    from provision.host import transport
    from tests.guest.rig import *

    machine, arguments = Machine.model_validate_json(sys.argv[1]), sys.argv[2:]
    with connected(machine) as state:
        state.is_executing = True
        metal, inside = (host(state, name) for name in (machine.host_name, machine.guest_host_name(machine.guests[0])))
    """
    return subprocess.Popen(
        [
            sys.executable,
            "-u",
            "-c",
            textwrap.dedent(head) + textwrap.indent(textwrap.dedent(code), "    "),
            machine.model_dump_json(),
            *arguments,
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


def said(running: subprocess.Popen[str], what: str, seconds: float = 60) -> str:
    """The next line of a controller that begins with ``what``; fails with its errors when it ends before."""
    with Timeout(seconds, AssertionError(f"{what!r} was not said within {seconds} s")):
        for line in running.stdout:
            if line.startswith(what):
                return line.removeprefix(what).strip()
    raise AssertionError(f"{what!r} was never said: {running.stderr.read()}")


def eventually(true: object, what: str, seconds: float = 20) -> None:
    """Wait for ``true()``; fails with ``what`` when the deadline passes."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if true():  # type: ignore[operator]
            return
        sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}")
