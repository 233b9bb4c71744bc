"""What is there of NVIDIA's driver on a host: modules by kernel, packages, receipts of installs. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from checks.snapshot import CouldNotLook, Snapshot
from provision.driver.archive import Prebuilt, flavour_of
from provision.driver.places import RECEIPTS

PREBUILT = "/var/lib/kpro/prebuilt"
RUN_MARKS = ("/usr/bin/nvidia-uninstall", "/usr/bin/nvidia-installer")

# Only the main module of each driver: the others come and go with it.
_MODULES = r"""cd /lib/modules 2>/dev/null || exit 0
for k in *; do
  [ -e "$k/modules.dep" ] || [ -e "$k/modules.order" ] || continue
  printf '%s|||||\n' "$k"
  find "$k/updates" "$k/extra" "$k/misc" "$k/weak-updates" "$k"/kernel/nvidia* "$k/kernel/drivers/video" \
    -type f -name 'nvidia*.ko*' 2>/dev/null |
    grep -E '/nvidia(-current|-srv|-tesla[-0-9]*)?(-open)?\.ko(\.[a-z0-9]+)?$' |
    while read -r m; do
      d=no; grep -qF "${m#*/}:" "$k/modules.dep" 2>/dev/null && d=yes
      printf '%s|%s|%s|%s|%s|%s\n' "$k" "/lib/modules/$m" "$(modinfo -F version "/lib/modules/$m")" \
        "$(modinfo -F license "/lib/modules/$m")" "$(modinfo -F vermagic "/lib/modules/$m")" "$d"
    done
done"""

_PACKAGES = (
    r"dpkg-query -W -f '${db:Status-Abbrev}|${Package}|${Version}\n' '*nvidia*' 'libcuda*' 'cuda-drivers*' "
    r"'linux-headers-*' 2>/dev/null || command -v dpkg-query >/dev/null"
)

LIBRARIES = (
    "ldconfig -p 2>/dev/null | sed -n 's/^.* => //p' | grep -E '/lib(cuda|nvidia-ml)[.]so[.]1$' | "
    'while read -r f; do readlink -f "$f"; done'
)
"""The files that the linker takes for CUDA and NVML."""

_RECEIPTS = f"""cd {RECEIPTS} 2>/dev/null || exit 0
for f in *.files; do
  [ -e "$f" ] || continue
  state=damaged
  said=$(sed 1d "$f")
  now=$(printf '%s\\n' "$said" | cut -d' ' -f2- | xargs -r -d '\\n' stat -c '%s %n' 2>/dev/null)
  [ -z "$said" ] || [ "$now" != "$said" ] || state=whole
  printf '%s|%s|%s\\n' "${{f%.files}}" "$state" "$(head -n1 "$f")"
done"""


def requests() -> list[str]:
    """What the snapshot of a host has to look at for its driver."""
    return [
        "file:/sys/module/module/parameters/sig_enforce",
        "file:/sys/kernel/security/lockdown",
        f"dir:{PREBUILT}",
        "tool:zstd",
        "tool:dkms",
        *(f"stat:{path}" for path in RUN_MARKS),
        f"cmd:driver-modules:{_MODULES}",
        f"cmd:driver-packages:{_PACKAGES}",
        f"cmd:driver-receipts:{_RECEIPTS}",
    ]


def guest_requests() -> list[str]:
    """What the snapshot of a guest has to look at for a user space of its own."""
    return [f"cmd:driver-packages:{_PACKAGES}", f"cmd:nvidia-libraries:{LIBRARIES}"]


@dataclass(frozen=True)
class ModuleFile:
    """NVIDIA's main module in a kernel's folder. ``indexed``: depmod knows it, so modprobe finds it."""

    kernel: str
    path: str
    version: str
    flavour: str | None
    vermagic: str
    indexed: bool


@dataclass(frozen=True)
class Receipt:
    """What an install of ours left for a kernel; ``whole``: every file is there with its size."""

    kernel: str
    whole: bool
    route: str
    version: str
    flavour: str


def _rows(snapshot: Snapshot, name: str, fields: int) -> Iterable[list[str]]:
    code, output = snapshot.command(name)
    if code != 0:
        raise CouldNotLook(f"the look at {name} ended with {code}: {output.strip()[-200:]}")
    for line in output.splitlines():
        row = line.split("|")
        if line.strip():
            if len(row) != fields:
                raise CouldNotLook(f"the look at {name} said {line[:120]!r}")
            yield row


def modules(snapshot: Snapshot) -> tuple[ModuleFile, ...]:
    return tuple(
        ModuleFile(kernel, path, version, flavour_of(license), vermagic, indexed == "yes")
        for kernel, path, version, license, vermagic, indexed in _rows(snapshot, "driver-modules", 6)
        if path
    )


def packages(snapshot: Snapshot) -> dict[str, str]:
    """Installed packages (and half-installed ones) with their versions; those that are only configured leftovers are
    absent."""
    return {
        name: version
        for status, name, version in _rows(snapshot, "driver-packages", 3)
        if status[1:2] not in ("n", "c")
    }


def receipts(snapshot: Snapshot) -> tuple[Receipt, ...]:
    found = []
    for kernel, state, head in _rows(snapshot, "driver-receipts", 3):
        words = head.split()
        if len(words) == 4 and words[0] == "#":
            found.append(Receipt(kernel, state == "whole", *words[1:]))
        else:
            found.append(Receipt(kernel, False, "?", "?", "?"))
    return tuple(found)


def archives(snapshot: Snapshot) -> tuple[Prebuilt, ...]:
    """The prebuilt drivers that lie on the host itself, by their names."""
    names = (snapshot.data("dir", PREBUILT) or b"").decode(errors="replace").splitlines()
    return tuple(found for found in map(Prebuilt.parse, names) if found)


def must_be_signed(snapshot: Snapshot) -> bool:
    """Does the running kernel refuse modules without a trusted signature (sig_enforce, or lockdown by Secure Boot)?"""
    enforced = (snapshot.text("/sys/module/module/parameters/sig_enforce") or "").strip() == "Y"
    return enforced or "[none]" not in (snapshot.text("/sys/kernel/security/lockdown") or "[none]")


def os_release(snapshot: Snapshot) -> dict[str, str]:
    """The assignments of /etc/os-release (os-release(5)); empty where there is none."""
    rows = (line.partition("=") for line in (snapshot.text("/etc/os-release") or "").splitlines())
    return {name.strip(): value.strip().strip("\"'") for name, mark, value in rows if mark}


def held(snapshot: Snapshot) -> frozenset[str]:
    """The packages of a driver that dpkg's selection keeps at their version (apt-mark(8))."""
    return frozenset(name for status, name, _ in _rows(snapshot, "driver-packages", 3) if status[:1] == "h")
