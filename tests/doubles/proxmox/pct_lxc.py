"""A container of the ``pct`` double as an LXC container of this machine: what Proxmox VE makes of a configuration.

The file ``STATE/lxc`` holds LXC lines for every container, for example its network. Without it no container is real.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from frame import NOT_GIVEN, Ended

if TYPE_CHECKING:
    from conf import Conf
    from frame import State

LXC = Path("/var/lib/lxc")
BASE = 100000
"""The first host id of an unprivileged container: Proxmox VE maps 65536 ids from here (root:100000:65536)."""


def wanted(state: State) -> bool:
    return (state.folder / "lxc").exists()


def needed(state: State) -> None:
    if not wanted(state):
        raise Ended(NOT_GIVEN, "pct: the double has no container underneath")


def runs(id: str) -> bool:
    done = subprocess.run(["lxc-info", "-n", id, "-sH"], capture_output=True, text=True, check=False)
    return done.stdout.strip() == "RUNNING"


def _unprivileged(conf: Conf) -> bool:
    return conf.current.keys.get("unprivileged", "0") == "1"


def unpack(id: str, archive: Path, conf: Conf) -> None:
    """The root of an unprivileged container is unpacked by its own ids, as Proxmox VE does."""
    root = LXC / id / "rootfs"
    root.mkdir(parents=True)
    words = ["tar", "--numeric-owner", "--xattrs", "--xattrs-include=*", "-C", str(root), "-xf", "-"]
    if _unprivileged(conf):
        os.chown(root, BASE, BASE)
        words += ["--exclude=./dev/*"]
        words = ["lxc-usernsexec", *(f"-m{kind}:0:{BASE}:65536" for kind in "ug"), "--", *words]
    with archive.open("rb") as source:
        subprocess.run(words, stdin=source, check=True)
    hostname = root / "etc/hostname"
    seen = hostname.lstat()
    hostname.write_text(conf.current.keys.get("hostname", id) + "\n")
    os.chown(hostname, seen.st_uid, seen.st_gid)


def start(state: State, id: str, conf: Conf, devices: list[dict[str, str]]) -> None:
    """Nodes of devN are made anew with the wanted mode and owner, and bound into the container's /dev."""
    from conf import properties

    nodes = state.folder / "nodes" / id
    shutil.rmtree(nodes, ignore_errors=True)
    nodes.mkdir(parents=True)
    shift = BASE if _unprivileged(conf) else 0
    lines = [
        f"lxc.uts.name = {conf.current.keys.get('hostname', id)}",
        f"lxc.rootfs.path = dir:{LXC / id / 'rootfs'}",
        "lxc.include = /usr/share/lxc/config/common.conf",
        "lxc.init.cmd = /sbin/init",
        "lxc.apparmor.profile = unconfined",
        "lxc.mount.auto = cgroup:rw:force proc:mixed sys:mixed",
    ]
    if shift:
        lines.append("lxc.include = /usr/share/lxc/config/userns.conf")
        lines += [f"lxc.idmap = {kind} 0 {BASE} 65536" for kind in "ug"]
    for number, one in enumerate(devices):
        seen = Path(one["path"]).stat()
        node = nodes / str(number)
        os.mknod(node, 0o600 | (seen.st_mode & 0o170000), seen.st_rdev)
        node.chmod(int(one.get("mode", "0660"), 8))
        os.chown(node, int(one.get("uid", 0)) + shift, int(one.get("gid", 0)) + shift)
        letter = "c" if seen.st_mode & 0o170000 == 0o020000 else "b"
        lines.append(
            f"lxc.cgroup2.devices.allow = {letter} {os.major(seen.st_rdev)}:{os.minor(seen.st_rdev)} rw"
        )
        lines.append(f"lxc.mount.entry = {node} {one['path'].lstrip('/')} none bind,create=file 0 0")
    for key, value in sorted(conf.current.keys.items()):
        if key.startswith("mp"):
            parts = properties(value, "volume")
            inside = parts["mp"].lstrip("/")
            read_only = ",ro" if parts.get("ro") == "1" else ""
            lines.append(f"lxc.mount.entry = {parts['volume']} {inside} none bind,create=dir{read_only} 0 0")
    # A machine that may not raise limits, as in many sandboxes, runs the container without them.
    raises = _may_raise()
    lines += [
        f"{key} = {value}" for key, value in conf.current.raw if raises or not key.startswith("lxc.prlimit.")
    ]
    lines += state.text("lxc").splitlines()
    (LXC / id / "config").write_text("".join(f"{line}\n" for line in lines))
    log = state.folder / f"lxc-{id}.log"
    words = ["lxc-start", "-n", id, "-d", "-o", str(log), "-l", "NOTICE"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        sys.stderr.write(log.read_text()[-2000:])
        raise Ended(255, f"startup for container '{id}' failed")


def _may_raise() -> bool:
    done = subprocess.run(["prlimit", "--memlock=unlimited", "true"], capture_output=True, check=False)
    return done.returncode == 0


def add_device(state: State, id: str, one: dict[str, str]) -> None:
    """What the hotplug of a devN does: the node in the running container, and its cgroup rule."""
    if not wanted(state):
        return
    seen = Path(one["path"]).stat()
    letter = "c" if seen.st_mode & 0o170000 == 0o020000 else "b"
    rule = f"{letter} {os.major(seen.st_rdev)}:{os.minor(seen.st_rdev)} rw"
    subprocess.run(["lxc-cgroup", "-n", id, "devices.allow", rule], check=False, capture_output=True)
    script = (
        f"rm -f {one['path']}; mkdir -p $(dirname {one['path']}); "
        f"mknod -m {one.get('mode', '0660')} {one['path']} {letter} {os.major(seen.st_rdev)} {os.minor(seen.st_rdev)}"
    )
    subprocess.run(["lxc-attach", "-n", id, "--", "/bin/sh", "-c", script], check=False, capture_output=True)


def stop(id: str) -> None:
    subprocess.run(["lxc-stop", "-n", id, "-t", "60"], check=True)
    until = time.monotonic() + 10
    while runs(id) and time.monotonic() < until:
        time.sleep(0.1)
