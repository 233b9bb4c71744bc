"""Two real hosts on this machine: containers with systemd, sshd and LXC of their own, in a network that the test made.

    one network namespace:   bridge 10.87.0.1 ---- veth ---- host a 10.87.0.2
    (controller, clients)            \\------ veth ---- host b 10.87.0.3

In each host kpro makes its own LXC container, as on any machine. LXC's sockets are abstract, so they belong to the
network namespace: everything about the hosts' containers is asked through ``Net``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import textwrap
import time
from dataclasses import dataclass, field
from pathlib import Path

from provision.guest.root_recipe import GIVEN, PACKAGES, root_file
from provision.spec import Ssh
from tests.controller import hear_interrupts

LXC = Path("/var/lib/lxc")
HOST_PACKAGES = (*PACKAGES, "lxc", "openssh-server", "rsync", "haproxy", "curl")
"""What a host of the pair is made of."""
BRIDGE = "10.87.0.1"
START_SECONDS = 120
DISK = "6g"
"""What fits on a host's disk. Its memory is used for what is there only."""
GUEST = "kpro-llm"
"""The container that kpro makes in each host."""


def sh(
    *command: str, timeout: float = 60, check: bool = True, stdin: bytes | None = None
) -> subprocess.CompletedProcess[str]:
    """A program of this machine, independent of the code under test."""
    done = subprocess.run(
        command,
        capture_output=True,
        timeout=timeout,
        input=stdin if stdin is not None else b"",
        check=False,
    )
    said = subprocess.CompletedProcess(
        command,
        done.returncode,
        done.stdout.decode("utf-8", "replace"),
        done.stderr.decode("utf-8", "replace"),
    )
    if check and said.returncode:
        raise AssertionError(f"{command!r} fails ({said.returncode}): {said.stdout}{said.stderr}")
    return said


@dataclass
class Net:
    """A network namespace with a bridge in it, for as long as its holder lives."""

    holder: subprocess.Popen[bytes]

    @classmethod
    def make(cls) -> Net:
        holder = subprocess.Popen(
            ["unshare", "--net", "--", "sleep", "infinity"], stdin=subprocess.DEVNULL, start_new_session=True
        )
        net = cls(holder)
        own = Path("/proc/self/ns/net").readlink()
        until = time.monotonic() + 10
        while Path(f"/proc/{holder.pid}/ns/net").readlink() == own:
            assert time.monotonic() < until, "the network namespace did not come"
            time.sleep(0.02)
        net.sh("ip", "link", "set", "lo", "up")
        net.sh("ip", "link", "add", "br0", "type", "bridge")
        net.sh("ip", "addr", "add", f"{BRIDGE}/24", "dev", "br0")
        net.sh("ip", "link", "set", "br0", "up")
        return net

    def words(self, *command: str) -> list[str]:
        """A command line that runs in this network, as whoever runs the tests."""
        return ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net", "--", *command]

    def sh(self, *command: str, timeout: float = 60, check: bool = True, stdin: bytes | None = None) -> str:
        return sh(*self.words(*command), timeout=timeout, check=check, stdin=stdin).stdout

    def close(self) -> None:
        self.holder.kill()
        self.holder.wait(10)


@dataclass
class Host:
    """One of the pair. ``sh`` runs on its metal, ``inside`` in the container that kpro made there: both past every line
    of the product."""

    name: str
    container: str
    address: str
    net: Net
    keys: Path

    @property
    def rootfs(self) -> Path:
        return LXC / self.container / "rootfs"

    @property
    def guest_rootfs(self) -> Path:
        return self.rootfs / "var/lib/lxc" / GUEST / "rootfs"

    def sh(self, script: str, *, check: bool = True, timeout: float = 60, stdin: bytes | None = None) -> str:
        words = ("lxc-attach", "-n", self.container, "--clear-env", "--", "/bin/sh", "-c", script)
        return self.net.sh(*words, check=check, timeout=timeout, stdin=stdin)

    def inside(self, script: str, *, check: bool = True, timeout: float = 60) -> str:
        words = f"lxc-attach -n {GUEST} --clear-env -- /bin/sh -s"
        return self.sh(words, check=check, timeout=timeout, stdin=script.encode())

    def ssh(self) -> Ssh:
        return Ssh(
            host=self.address,
            user="root",
            key=str(self.keys / "key"),
            known_hosts=str(self.keys / "known_hosts"),
        )

    def start(self) -> None:
        self.net.sh("lxc-start", "-n", self.container, "-d")
        # LXC looks for a bridge in /sys, which shows the network that it was mounted in.
        self.net.sh("ip", "link", "set", f"v-{self.name}", "master", "br0", "up")
        until = time.monotonic() + START_SECONDS
        said = ""
        while time.monotonic() < until:
            said = self.sh("systemctl is-system-running", check=False).strip()
            if said in ("running", "degraded"):
                return
            time.sleep(0.2)
        raise AssertionError(f"{self.container}: systemd is not up after {START_SECONDS} s, it says {said!r}")

    def kill(self) -> None:
        """The power is gone: nothing on it has a moment left."""
        self.net.sh("lxc-stop", "-n", self.container, "-k", check=False)

    def cut(self) -> None:
        """The cable is pulled."""
        self.net.sh("ip", "link", "set", f"v-{self.name}", "down")

    def mend(self) -> None:
        self.net.sh("ip", "link", "set", f"v-{self.name}", "up")

    def fill_disk(self) -> None:
        """Nothing more can be written on it; no memory is used for that."""
        used = sh("df", "--output=used", "-B1", str(LXC / self.container)).stdout.split()[-1]
        sh("mount", "-o", f"remount,size={used}", str(LXC / self.container))

    def free_disk(self) -> None:
        sh("mount", "-o", f"remount,size={DISK}", str(LXC / self.container))

    def destroy(self) -> None:
        self.kill()
        for mount in (self.rootfs, LXC / self.container):
            sh("umount", "-l", str(mount), check=False)
        shutil.rmtree(LXC / self.container, ignore_errors=True)


@dataclass
class Pair:
    """The network and its two hosts."""

    net: Net
    a: Host
    b: Host
    keys: Path
    started: dict[str, float] = field(default_factory=dict)

    def run(
        self, *words: str, timeout: float = 300, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """A program of the controller, which lives in the network of the hosts."""
        return subprocess.run(
            self.net.words(*words),
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(env or {})},
            check=False,
        )

    def start(self, log: Path, *words: str) -> subprocess.Popen[str]:
        """The same in the background; what it prints goes to ``log``. Its pid is that of the program itself."""
        with log.open("w") as sink:
            return subprocess.Popen(
                self.net.words(*words),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                text=True,
                start_new_session=True,
                preexec_fn=hear_interrupts,
            )

    def remove(self) -> None:
        for host in (self.a, self.b):
            host.destroy()
        self.net.close()


def make_pair(root: Path, guest_root: Path, folder: Path) -> Pair:
    """Both hosts, running and reachable by SSH with the key in ``folder``. ``root``: what they are made of, unpacked.
    ``guest_root``: the tarball that their own containers are made of, as an operator carries it to a machine without a
    mirror."""
    sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key"))
    net = Net.make()
    hosts = [
        Host(name, f"kprotest-{os.getpid()}-{name}", f"10.87.0.{number}", net, folder)
        for number, name in ((2, "a"), (3, "b"))
    ]
    pair = Pair(net, hosts[0], hosts[1], folder)
    try:
        known = [_make(host, root, guest_root, folder) for host in hosts]
        (folder / "known_hosts").write_text("".join(known))
        for host in hosts:
            began = time.monotonic()
            host.start()
            pair.started[host.name] = time.monotonic() - began
    except BaseException:
        pair.remove()
        raise
    return pair


def _make(host: Host, root: Path, guest_root: Path, folder: Path) -> str:
    """Unpacks and configures a host; the line of ``known_hosts`` about it."""
    rootfs, own = host.rootfs, LXC / host.container
    own.mkdir()
    # What the hosts write lies in memory, up to the size of their disk; what they are made of is unpacked once.
    sh("mount", "-t", "tmpfs", "-o", f"mode=755,size={DISK}", "kprotest", str(own))
    for name in ("upper", "work", "rootfs"):
        (own / name).mkdir()
    layers = f"lowerdir={root},upperdir={own / 'upper'},workdir={own / 'work'}"
    sh("mount", "-t", "overlay", "-o", layers, "kprotest", str(rootfs))
    (rootfs / "etc/hostname").write_text(f"{host.name}\n")
    # Its containers share its network: nothing waits half a minute for a bridge that never comes.
    (rootfs / "etc/default/lxc-net").write_text('USE_LXC_BRIDGE="false"\n')
    # All roots of one tarball have the keys that its package made.
    for key in (rootfs / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(rootfs / "etc/ssh/ssh_host_ed25519_key"))
    allowed = rootfs / "root/.ssh/authorized_keys"
    allowed.parent.mkdir(mode=0o700, exist_ok=True)
    allowed.write_text((folder / "key.pub").read_text())
    allowed.chmod(0o600)
    carried = rootfs / root_file("bookworm").lstrip("/")
    carried.parent.mkdir(parents=True, exist_ok=True)
    Path(f"{carried}.carried").write_text(f"{GIVEN}\n")
    (LXC / host.container / "config").write_text(
        textwrap.dedent(f"""\
        lxc.uts.name = {host.name}
        lxc.rootfs.path = dir:{rootfs}
        lxc.init.cmd = /sbin/init
        lxc.apparmor.profile = unconfined
        lxc.mount.auto = cgroup:rw:force proc:rw sys:rw
        lxc.mount.entry = {guest_root} {carried.relative_to(rootfs)!s} none bind,ro,create=file 0 0
        lxc.net.0.type = veth
        lxc.net.0.flags = up
        lxc.net.0.veth.pair = v-{host.name}
        lxc.net.0.hwaddr = 02:16:3e:57:00:0{host.address[-1]}
        lxc.net.0.ipv4.address = {host.address}/24
        """)
    )
    public = (rootfs / "etc/ssh/ssh_host_ed25519_key.pub").read_text().split()
    return f"{host.address} {public[0]} {public[1]}\n"
