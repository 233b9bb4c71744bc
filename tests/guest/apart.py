"""Several workers on one machine (pytest -n): each has a machine of its own, as far as kpro can see.

A worker has its own loopback and ports, its own /etc, /run/kpro, /var/lib/kpro and containers. None of that is seen
outside, and the kernel takes the mounts away with the last process that sees them.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import tempfile
from pathlib import Path

_CLONE_NEWNS, _CLONE_NEWNET = 0x00020000, 0x40000000
_SIOCSIFFLAGS, _IFF_UP, _IFF_RUNNING = 0x8914, 0x1, 0x40

OWN = ("/etc", "/run/kpro", "/var/lib/kpro", "/var/lib/lxc")

# Waits for the end of its input, which is the end of the worker, however that comes: a worker that is killed leaves
# containers, a sshd and runs. What has the worker's own network, and no other, was started by its tests.
_LAST = r"""
cat >/dev/null
cd /
for folder in /var/lib/lxc/*/; do
  [ ! -e "$folder/config" ] || lxc-stop -k -n "$(basename "$folder")" >/dev/null 2>&1
done
own=$(readlink /proc/self/ns/net | tr '[]' '??')
for link in $(find /proc/[0-9]*/ns/net -maxdepth 0 -lname "$own" 2>/dev/null); do
  pid=${link#/proc/} pid=${pid%%/*}
  [ "$pid" = $$ ] || kill -9 "$pid" 2>/dev/null
done
rm -rf --one-file-system "$1" /srv/kprotest-"$2"-*
"""

outside: list[str] = []
"""What runs a command with the machine's own network: building a root asks a mirror."""


def go() -> Path:
    """Takes this process, and what it starts from now on, apart. Gives the folder that its own machine lies in.

    Raises OSError where the kernel does not let it.
    """
    network = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    outside[:] = ["nsenter", f"--net=/proc/{os.getpid()}/fd/{network}"]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS | _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, f"no namespaces for a worker: {os.strerror(number)}")
    with socket.socket() as any_socket:
        up = struct.pack("16sh", b"lo", _IFF_UP | _IFF_RUNNING)
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, up)
    _sh("mount", "--make-rprivate", "/")
    place = Path(tempfile.mkdtemp(prefix="kprotest-", dir="/var/lib"))
    for path in map(Path, OWN):
        path.mkdir(parents=True, exist_ok=True)
        mine = place / str(path).strip("/").replace("/", "-")
        if path == Path("/etc"):
            _sh("cp", "-a", str(path), str(mine))
        else:
            mine.mkdir(mode=path.stat().st_mode & 0o777)
        _sh("mount", "--bind", str(mine), str(path))
    reading, _ = os.pipe()  # the other end is closed with this process, and by nothing else
    last = subprocess.Popen(
        ["sh", "-c", _LAST, "sh", str(place), str(os.getpid())], stdin=reading, start_new_session=True
    )
    os.close(reading)
    last.returncode = 0  # nobody waits for what outlives this process
    return place


def _sh(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{words[0]} fails ({done.returncode}): {done.stderr.strip()}")
