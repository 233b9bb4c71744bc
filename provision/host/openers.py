"""Who has device files open, or waits in a driver's ``unbind``: the look, and what it says. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from checks.snapshot import CouldNotLook, Snapshot

# Links of /proc/PID/fd lead to what a process has open. A write to `unbind` that blocks is such a process too, and so
# is one that closed the group's file and kept the device.
LOOK = r"""
find /proc/[0-9]*/fd -maxdepth 1 \( -lname '/dev/vfio/*' -o -lname '/dev/nvidia*' -o -lname '*/unbind' \
  -o -lname 'anon_inode:*vfio-device*' \) -printf '%h %l\n' 2>/dev/null | sort -u | while read -r folder target; do
  pid=${folder#/proc/} pid=${pid%/fd}
  printf '%s\t%s\t%s\n' "$pid" "$target" "$(tr '\0\n\t' '   ' <"/proc/$pid/cmdline" 2>/dev/null)"
done
"""


@dataclass(frozen=True)
class Opener:
    """A process that has a file of /dev/vfio, /dev/nvidia*, a device of VFIO or a driver's ``unbind`` open."""

    pid: int
    target: str
    command: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command or 'no command line'})"


def openers(snapshot: Snapshot) -> tuple[Opener, ...]:
    """Raises CouldNotLook when the processes could not be listed."""
    code, output = snapshot.command("openers")
    found = []
    for line in filter(str.strip, output.splitlines()):
        words = line.split("\t", 2)
        if len(words) != 3 or not words[0].isdecimal():
            raise CouldNotLook(f"the list of open device files is unreadable: {line[:120]!r}")
        # A node that was taken away since is still open for whoever has it.
        found.append(Opener(int(words[0]), words[1].removesuffix(" (deleted)"), words[2].strip()))
    if code != 0:
        raise CouldNotLook(f"the open device files could not be listed: exit {code}")
    return tuple(found)
