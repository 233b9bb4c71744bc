"""Snapshots made by hand: what was looked at, in a few words."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

from checks.snapshot import Section, Snapshot
from provision.guest.root_recipe import root_file
from provision.host import assigned, boot, driver_seen, nodes, reboot, view
from provision.host.driver_checks import seen as driver_checks
from provision.migrate import standing
from provision.spec import Machine
from provision.stack import baselines, trials
from provision.stack.desired import MANIFEST, DesiredService

A6000, AUDIO = "0x2230", "0x1aef"
ARCHIVES = [f"nvidia-{version}-open-6.1.0-50-amd64.tar.zst" for version in ("535.261.03", "580.159.04")]
DPKG_L = "Desired=Unknown/Install/Remove/Purge/Hold\n||/ Name Version Architecture Description\n"
OPTIONAL = [request.split(":", 1)[1] for request in boot.REQUESTS if request.startswith("file:")]

_NOT_MOVED = [path(name) for name in ("chat", "qwen", "tiny") for path in (standing.path, standing.fence)]
"""What says that a service is being moved, or was: absent where nobody says otherwise."""


class Seen:
    """Collects sections; ``snapshot`` is what a parser would have made of them."""

    def __init__(self) -> None:
        self.sections: dict[tuple[str, str], Section] = {}

    def put(self, kind: str, path: str, data: bytes | str | None, error: str | None = None) -> Seen:
        raw = data.encode() if isinstance(data, str) else data
        self.sections[kind, path] = Section(kind, path, raw, error)
        return self

    def cmd(self, name: str, output: str, code: int = 0) -> Seen:
        return self.put("cmd", name, output).put("rc", name, f"{code}\n")

    def tools(self, *names: str, there: bool = True) -> Seen:
        for name in names:
            self.put("tool", name, f"/usr/bin/{name}\n" if there else None)
        return self

    def gpu(
        self, bdf: str, driver: str = "nvidia", group: str = "1", override: str = "(null)", **more: str
    ) -> Seen:
        """A function of the bus: an A6000 unless ``more`` says otherwise, in the words of the snapshot."""
        device = more.get("device", A6000)
        pairs = {
            "vendor": "0x10de",
            "device": device,
            "class": "0x030000",
            "driver_override": override,
            "power_state": "D0",
            "boot_vga": "0",
            "driver": driver,
            "group": group,
            "config": f"de 10 {device[4:]} {device[2:4]}",
            "bar1": "0x20000000000 0x20fffffffff 0x14220c",
            "vfio_dev": "",
            **{"class" if key == "pci_class" else key: value for key, value in more.items()},
        }
        return self.put("pci", bdf, "".join(f"{key}={value}\n" for key, value in pairs.items()))

    def audio(self, bdf: str, driver: str = "snd_hda_intel", group: str = "1", **more: str) -> Seen:
        return self.gpu(
            bdf, driver, group, **{"device": AUDIO, "pci_class": "0x040300", "bar1": "0x0 0x0 0x0", **more}
        )

    def model(self, directory: str, manifest: str | None) -> Seen:
        """The model files of this manifest lie there, whole; or nothing does."""
        self.put("file", f"{directory}/{MANIFEST}", manifest)
        sizes = "".join(f"{entry['size']} {path}\n" for path, entry in json.loads(manifest or "{}").items())
        return self.cmd(f"sizes-{directory}", sizes, 0 if manifest else 1)

    def remembers(
        self,
        desired: DesiredService,
        verdict: str | None = None,
        readings: Mapping[str, bytes] | None = None,
        **other: str | None,
    ) -> Seen:
        """What the guest keeps of a service: the last verdict on a candidate, ``accepted`` and ``service`` beside it,
        and readings by their key. Nothing of it is staged, and nothing was asked about room."""
        name = desired.name
        self.put("file", trials.path(name), verdict)
        self.put("file", trials.accepted_path(name), other.get("accepted"))
        self.put("file", trials.service_path(name), other.get("service"))
        self.put("file", trials.service_accepted_path(name), other.get("before"))
        self.put("file", trials.back_path(name), other.get("back"))
        self.put("sha", baselines.path(name, baselines.STATED), None)
        if ("cmd", f"in-place-{name}") not in self.sections:
            self.cmd(f"in-place-{name}", f"{desired.digest}\n-\n")
        lines = [f"{key} {base64.b64encode(data).decode()}\n" for key, data in (readings or {}).items()]
        self.cmd(f"baselines-{name}", "".join(lines))
        self.put("file", "/proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 33554432 kB\n")
        for file in ("max", "current", "stat"):
            self.put("file", f"/sys/fs/cgroup/memory.{file}", None)
        for one in (desired, desired.candidate):
            if one is None or one.trial is None:
                continue
            which = one.name + (f"-{one.staging}" if one.staging else "")
            self.cmd(f"gpus-{which}", "").cmd(f"fit-{which}", "")
            for path in (one.staged_unit, one.staged_environment, one.record_path):
                if ("sha", path) not in self.sections:
                    self.put("sha", path, None)
            if ("file", one.engine.marker) not in self.sections:
                self.put("file", one.engine.marker, None)
            name = f"started-{one.name}" + (f"-{one.staging}" if one.staging else "")
            self.cmd(name, "")
            self.cmd(f"unit-{one.trial.name}", "ActiveState=inactive\n").put(
                "dir", f"{one.trial.unit_path}.d", None
            )
        return self

    def no_root_yet(self) -> Seen:
        """No container's root was built on the machine."""
        for suite in ("bookworm", "trixie"):
            self.put("stat", root_file(suite), None)
        return self

    def kernels(self, *releases: str) -> Seen:
        """The kernels that are installed."""
        self.put("names", "/boot/vmlinuz-*", "".join(f"/boot/vmlinuz-{release}\n" for release in releases))
        return self.put(
            "names", "/lib/modules/*", "".join(f"/lib/modules/{release}\n" for release in releases)
        )

    def boots(self, kernel: str = "6.1.0-50-amd64") -> Seen:
        """A Debian that boots by GRUB, with nouveau blacklisted and nothing else of interest."""
        for path in OPTIONAL:
            self.put("file", path, None)
        self.kernels(kernel).cmd("uname-r", f"{kernel}\n")
        self.put("file", "/proc/cmdline", f"BOOT_IMAGE=/boot/vmlinuz-{kernel} root=/dev/vda1 ro\n")
        self.put("file", "/etc/default/grub", 'GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX_DEFAULT="quiet"\n')
        self.put("file", "/etc/modprobe.d/nouveau.conf", "blacklist nouveau\n")
        self.put("file", "/proc/modules", "ext4 900000 1 - Live 0x0\n")
        self.put("file", "/sys/module/module/parameters/sig_enforce", "N\n")
        self.put("file", "/sys/kernel/security/lockdown", None)
        self.put("file", assigned.PATH, None)
        for path in (reboot.ARM, *reboot.TAKEN_BACK, nodes.UNIT, nodes.SCRIPT):
            self.put("file", path, None)
        self.put("link", nodes.LINK, None).cmd("device-nodes", "").tools("zstd", "dkms", "update-grub")
        for path in driver_seen.RUN_MARKS:
            self.put("stat", path, None)
        self.put("vms", "/etc/pve", None)
        return self.cmd("openers", "\n").cmd("dmesg", "\n").driver(None, kernel).plain_host(kernel)

    def plain_host(self, kernel: str) -> Seen:
        """Nothing that speaks against a driver: no Secure Boot, no other module of DKMS, whole packages, headers."""
        for path in (driver_checks.EFI, *driver_checks.KEYS):
            self.put("stat", path, None)
        self.put("file", driver_checks.SECURE_BOOT, None).put("file", "/etc/dkms/framework.conf", None)
        self.put("names", "/usr/src/linux-headers-*", f"/usr/src/linux-headers-{kernel}\n")
        self.put("names", "/lib/modules/*/build", f"/lib/modules/{kernel}/build\n")
        self.cmd("mokutil-sb-state", "EFI variables are not supported on this system\n", 255)
        self.cmd("mokutil-test-key", "").cmd("dkms-status", "").cmd("dpkg-audit", "").cmd("dpkg-l", DPKG_L)
        self.cmd("pveversion", "sh: 1: pveversion: not found\n", 127).cmd("date-month", "2026-11\n")
        self.cmd("apt-term-log", "").cmd("fabric-manager-unit", "not-found\n", 1)
        return self.cmd("nvlink-sw-mng", "")

    def driver(self, version: str | None, kernel: str = "6.1.0-50-amd64") -> Seen:
        """The prebuilt driver of this version is installed, or its archive lies ready on the host (None)."""
        self.put("dir", driver_seen.PREBUILT, "".join(f"{name}\n" for name in ARCHIVES))
        module = f"/lib/modules/{kernel}/updates/nvidia.ko"
        found = (
            f"{kernel}|{module}|{version}|Dual MIT/GPL|{kernel} SMP|yes\n" if version else f"{kernel}|||||\n"
        )
        receipt = f"{kernel}|whole|# prebuilt {version} open\n" if version else ""
        return self.cmd("driver-modules", found).cmd("driver-packages", "").cmd("driver-receipts", receipt)

    def served(self, machine: Machine) -> Seen:
        """The boot unit of this machine is there, and the nodes of its GPUs, whose minors are known."""
        for item in nodes.nodes_plan(machine, self.snapshot).items:
            for edit in item.payload.files if item.kind == "nodes.unit" else ():
                self.put("file", edit.path, edit.data)
        lines = [
            f"/dev/nvidia{minor} c3 {minor:x} character special file"
            for minor in view.minors(self.snapshot).values()
        ]
        lines += ["/dev/nvidiactl c3 ff character special file"]
        lines += [f"/dev/nvidia-uvm{end} 1fc {end != '':x} character special file" for end in ("", "-tools")]
        return self.put("link", nodes.LINK, nodes.UNIT).cmd("device-nodes", "\n".join(lines))

    @property
    def snapshot(self) -> Snapshot:
        still = {("file", path): Section("file", path, None, None) for path in _NOT_MOVED}
        return Snapshot(still | self.sections)
