"""What the vm tier looks at: drivers, groups and configuration of a virtual host, read with plain programs."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from provision.testhost.vm.host import VirtualHost

# Read before any test gets a home of its own: images are built once for all sessions.
CACHE = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
WAIT = 1800
"""Seconds to wait for another session's host."""

FUNCTIONS = ("0000:01:00.0", "0000:01:00.1", "0000:02:00.0", "0000:02:00.1")

_LOOK = """
for f in /sys/bus/pci/devices/*; do
  case $(cat "$f/vendor") in 0x10de) ;; *) continue ;; esac
  d=$(readlink "$f/driver"); g=$(readlink "$f/iommu_group")
  echo "${f##*/} ${d##*/} ${g##*/} $(ls "$f/iommu_group/devices" | tr '\\n' ',')"
done
"""


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}")  # noqa: T201


@dataclass(frozen=True)
class Seen:
    """One PCI function: its driver (empty: none), its IOMMU group, and everything in that group."""

    driver: str
    group: str
    members: frozenset[str]


def functions(vm: VirtualHost) -> dict[str, Seen]:
    """NVIDIA's functions by place."""
    found = {}
    for line in vm.ssh(_LOOK).stdout.splitlines():
        bdf, driver, group, members = line.split(" ")
        found[bdf] = Seen(driver, group, frozenset(members.strip(",").split(",")))
    return found


def drivers(vm: VirtualHost) -> dict[str, str]:
    return {bdf: seen.driver for bdf, seen in functions(vm).items()}


def file(vm: VirtualHost, path: str) -> str:
    return vm.ssh(f"cat {path}").stdout


def processes(word: str) -> list[int]:
    """Processes of this machine with ``word`` in their command line, this one aside."""
    found = []
    for entry in Path("/proc").iterdir():
        if re.fullmatch(r"\d+", entry.name) and int(entry.name) != os.getpid():
            try:
                if word in entry.joinpath("cmdline").read_text(errors="replace"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
