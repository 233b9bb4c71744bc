"""Who has a GPU open: our own containers, services of the machine that hold it for nobody, or somebody else. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from checks.bdf import Bdf
from checks.snapshot import CouldNotLook, Snapshot
from provision.assign.handover import DAEMONS
from provision.host import view
from provision.spec import Guest

# The last line of cgroup is that of version 2; in version 1 it is one of the hierarchies, with the same name in it.
REQUEST = r"""cmd:gpu-users:
find /proc/[0-9]*/fd -maxdepth 1 -type l -lname '*/nvidia[0-9]*' -printf '%h %l\n' 2>/dev/null | sort -u |
while read -r folder target; do
  pid=${folder#/proc/} pid=${pid%/fd}
  printf '%s\t%s\t%s\t%s\n' "$pid" "$target" "$(tail -n 1 "/proc/$pid/cgroup" 2>/dev/null)" \
    "$(tr '\0\n\t' '   ' <"/proc/$pid/cmdline" 2>/dev/null)"
done"""


@dataclass(frozen=True)
class User:
    """A process that has ``node`` open; ``cgroup`` is the path of its control group."""

    pid: int
    node: str
    cgroup: str
    command: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command or 'no command line'}) has {self.node} open"

    @property
    def is_daemon(self) -> bool:
        """A service of the machine itself that lets go of every GPU when it is stopped."""
        return any(re.search(rf"(^|/){re.escape(name)}\.service(/|$)", self.cgroup) for name in DAEMONS)

    def is_in(self, guest: Guest) -> bool:
        """LXC names the groups of a container's processes lxc.payload.NAME, with -N after a name that was taken;
        Proxmox lxc/ID."""
        name = re.escape(guest.id)
        form = (
            rf"(^|/)lxc/{name}(/|$)" if guest.backend == "pct" else rf"(^|/)lxc\.payload\.{name}(-\d+)?(/|$)"
        )
        return re.search(form, self.cgroup) is not None


def of(snapshot: Snapshot, bdf: Bdf) -> tuple[User, ...]:
    """Who has the GPU's own node open. Raises CouldNotLook when it was not looked at, or cannot be read."""
    minor = view.minors(snapshot).get(bdf)
    code, output = snapshot.command("gpu-users")
    if code != 0:
        raise CouldNotLook(f"who uses the GPUs could not be listed: exit {code}")
    found = tuple(_user(line) for line in output.splitlines() if line.strip())
    return tuple(user for user in found if minor is not None and user.node.endswith(f"/nvidia{minor}"))


def _user(line: str) -> User:
    words = line.split("\t", 3)
    if len(words) != 4 or not words[0].isdecimal():
        raise CouldNotLook(f"the list of who uses the GPUs is unreadable: {line[:120]!r}")
    return User(int(words[0]), words[1], words[2].rsplit(":", 1)[-1], words[3].strip())


def foreign(users: Iterable[User], resting: Iterable[Guest]) -> tuple[User, ...]:
    """Those whom nobody may stop but who started them."""
    ours = tuple(resting)
    return tuple(
        user for user in users if not user.is_daemon and not any(user.is_in(guest) for guest in ours)
    )
