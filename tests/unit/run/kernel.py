"""A small stand-in for the kernel's PCI bus in a folder, and for programs that would change this machine.

A write to ``unbind`` or ``drivers_probe`` is made by a program here, which does what the kernel does as far as the
scripts look: a probe follows the override, else a driver's ids; an unbind takes the link away first, then ends, or
waits for a user and keeps the device locked, so that not even its override can be read.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

_KERNEL = """#!/bin/sh
value=$1 device={bus}/devices/$1
case $2 in
*/unbind)
  driver=$(readlink "$device/driver") || exit 1
  rm "$device/driver"
  if [ -e "$device/held" ]; then
    rm "$device/driver_override" && mkfifo "$device/driver_override"
    sleep 20
    exit 0
  fi
  rm "$driver/$value" ;;
*/drivers_probe)
  wanted=$(cat "$device/driver_override")
  [ -n "$wanted" ] && [ "$wanted" != "(null)" ] || wanted=$(cat "$device/id_driver" 2>/dev/null)
  [ -n "$wanted" ] && [ -d "{bus}/drivers/$wanted" ] && [ ! -e "$device/refuses.$wanted" ] || exit 0
  ln -s "{bus}/drivers/$wanted" "$device/driver"
  ln -s "$device" "{bus}/drivers/$wanted/$value" ;;
esac
"""

WRITE = """sh -c 'printf %s "$1" >"$2"' sh"""


class Bus:
    """PCI functions and drivers under ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("devices", "drivers", "groups"):
            (folder / name).mkdir(parents=True)
        for driver in ("vfio-pci", "nvidia", "snd_hda_intel", "nouveau"):
            (folder / "drivers" / driver).mkdir()

    def function(self, bdf: str, driver: str | None, override: str = "", group: int = 987654) -> None:
        place = self.folder / "devices" / bdf
        place.mkdir()
        (place / "driver_override").write_text(f"{override or '(null)'}\n")
        (self.folder / "groups" / str(group)).mkdir(exist_ok=True)
        (place / "iommu_group").symlink_to(self.folder / "groups" / str(group))
        if driver:
            (place / "driver").symlink_to(self.folder / "drivers" / driver)
            (self.folder / "drivers" / driver / bdf).symlink_to(place)

    def held(self, bdf: str) -> None:
        """An unbind of it will wait for its user."""
        (self.folder / "devices" / bdf / "held").touch()

    def let_go(self) -> None:
        """Who still waits for a held function reads an end, and goes."""
        for waiting in self.folder.glob("devices/*/driver_override"):
            if waiting.is_fifo():
                with contextlib.suppress(OSError):  # nobody reads it
                    os.close(os.open(waiting, os.O_WRONLY | os.O_NONBLOCK))

    def refuses(self, bdf: str, driver: str) -> None:
        (self.folder / "devices" / bdf / f"refuses.{driver}").touch()

    def now(self, bdf: str) -> str | None:
        link = self.folder / "devices" / bdf / "driver"
        return link.resolve().name if link.is_symlink() else None

    def override(self, bdf: str) -> str:
        text = (self.folder / "devices" / bdf / "driver_override").read_text().strip()
        return "" if text == "(null)" else text


class Machine:
    """Runs a script of kpro with this bus, its own state folder, and stand-ins for programs, whose calls it notes."""

    def __init__(self, folder: Path) -> None:
        self.bus = Bus(folder / "pci")
        self.state = folder / "state"
        (self.state / "originals").mkdir(parents=True)
        self.programs = folder / "programs"
        self.programs.mkdir()
        self.root = folder / "root"
        (self.root / "boot").mkdir(parents=True)
        for name in (
            "udevadm",
            "systemctl",
            "modprobe",
            "rmmod",
            "depmod",
            "ldconfig",
            "lxc-stop",
            "apt-get",
            "dmesg",
        ):
            self.program(name)
        for name in ("update-initramfs", "update-grub", "dpkg-query", "lxc-info", "lsinitramfs"):
            self.program(name)
        (self.programs / "kernel").write_text(_KERNEL.format(bus=self.bus.folder))
        (self.programs / "kernel").chmod(0o755)

    def program(self, name: str, body: str = "") -> None:
        path = self.programs / name
        path.write_text(f'#!/bin/sh\nprintf "%s\\n" "{name} $*" >>{self.programs}/log\n{body}\n')
        path.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        log = self.programs / "log"
        return log.read_text().splitlines() if log.exists() else []

    def run(self, script: str, *words: str, holder: str = "held") -> subprocess.CompletedProcess[str]:
        """The lock of the machine that the tests run on is not taken: the script is told that a run holds it."""
        for real, here in (
            ("state=/var/lib/kpro", f"state={self.state}"),
            ("pci=/sys/bus/pci", f"pci={self.bus.folder}"),
            ("/var/lib/kpro", str(self.state)),
            (" /proc/driver/nvidia/version", f" {self.root}/version"),
            ("/sys/module/", f"{self.root}/module/"),
            ("resting=/run/kpro", f"resting={self.root}"),
            ("/dev/kmsg", "/dev/null"),
            ("/boot", f"{self.root}/boot"),
            ("/lib/modules/", f"{self.root}/modules/"),
            ("rm -f /dev/nvidia", f"rm -f {self.root}/nvidia"),
            (WRITE, "kernel"),
        ):
            script = script.replace(real, here)
        return subprocess.run(
            ["sh", "-s", "--", *words],
            input=script,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={**os.environ, "PATH": f"{self.programs}:/usr/sbin:/usr/bin:/sbin:/bin", "KPRO_RUN": holder},
        )
