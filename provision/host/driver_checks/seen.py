"""What the judges of a driver look at besides the driver itself, and how it is read. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from checks.snapshot import CouldNotLook, Snapshot
from provision.host import boot, dkms, driver_seen

EFI = "/sys/firmware/efi"
SECURE_BOOT = f"{EFI}/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
"""EFI global variable (UEFI specification 3.3): four bytes of attributes, then 1 where Secure Boot is on."""

KEYS = ("/var/lib/dkms/mok.pub", "/var/lib/shim-signed/mok/MOK.der")
"""Where DKMS keeps the certificate it signs with: its own place, and that of shim-signed, which Ubuntu uses."""

AUTO_UPGRADES = "/etc/apt/apt.conf.d"
FABRIC_PACKAGE = "nvidia-fabricmanager"

_PATTERNS = (
    "'*nvidia*' 'libcuda*' 'cuda-*' '*-dkms' dkms 'linux-headers-*' 'linux-image-*' 'linux-generic*' "
    "'proxmox-*' 'pve-*' unattended-upgrades"
)
_TEST_KEYS = (
    f'for k in {" ".join(KEYS)}; do [ ! -e "$k" ] || mokutil --test-key "$k"; done; command -v mokutil'
)
_TERM_LOG = "grep -E 'Error!|Consult /var/lib/dkms|[Aa]utoinstall|^run-parts: |^dpkg: ' /var/log/apt/term.log | tail -n 60"
# Only a machine with adapters of Mellanox has this mark of NVLink 5 (nvlsm needs them).
_SW_MNG = "[ ! -d /sys/class/infiniband ] || grep -ls SW_MNG /sys/class/infiniband/*/device/vpd; true"

REQUESTS = [
    f"stat:{EFI}",
    f"file:{SECURE_BOOT}",
    *(f"stat:{path}" for path in KEYS),
    "file:/etc/dkms/framework.conf",
    "glob:/etc/dkms/framework.conf.d/*.conf",
    "glob:/var/lib/dkms/*/*/build/make.log",
    # Only what is about upgrades: a proxy's password may stand in the others.
    f"with:[Uu]nattended-[Uu]pgrade|[Pp]eriodic:{AUTO_UPGRADES}/*",
    "names:/usr/src/linux-headers-*",
    "names:/lib/modules/*/build",
    "names:/proc/driver/nvidia-nvswitch/devices/*",
    "cmd:mokutil-sb-state:mokutil --sb-state",
    f"cmd:mokutil-test-key:{_TEST_KEYS}",
    "cmd:dkms-status:dkms status",
    "cmd:dpkg-audit:dpkg --audit",
    f"cmd:dpkg-l:COLUMNS=240 dpkg -l {_PATTERNS} 2>/dev/null",
    "cmd:pveversion:pveversion",
    "cmd:date-month:date -u +%Y-%m",
    f"cmd:apt-term-log:{_TERM_LOG}",
    f"cmd:fabric-manager-unit:systemctl is-enabled {FABRIC_PACKAGE}.service",
    f"cmd:nvlink-sw-mng:{_SW_MNG}",
]

_ROW = re.compile(r"([uihrp])([nicurhWtUFHWT])(\S?)\s+(\S+)\s+(\S+)\s+\S+(?:\s|$)")


@dataclass(frozen=True)
class Package:
    """A package that is there, wholly or by half. ``state`` are the letters of ``dpkg -l``: wish and state."""

    name: str
    version: str
    state: str

    @property
    def held(self) -> bool:
        return self.state[:1] == "h"

    @property
    def whole(self) -> bool:
        return self.state[1:2] == "i"


def packages(text: str) -> dict[str, Package]:
    """The rows of ``dpkg -l`` by name, without architecture. Left out: what is not there, and what only left its
    configuration behind."""
    found = {}
    for line in text.splitlines():
        row = _ROW.match(line)
        if row is not None and row[2] not in "nc":
            name = row[4].split(":", 1)[0]
            found[name] = Package(name, row[5], row[1] + row[2] + row[3])
    return found


def installed(snapshot: Snapshot) -> Mapping[str, Package]:
    """Raises CouldNotLook where dpkg was not asked or did not answer in its form."""
    code, output = snapshot.command("dpkg-l")
    found = packages(output)
    if not found and not any(line.startswith(("||/ Name", "Desired=")) for line in output.splitlines()):
        if code == 1 and not output.strip():
            return {}
        raise CouldNotLook(f"dpkg -l ended with {code}: {output.strip()[:120] or 'nothing'}")
    return found


def dkms_modules(snapshot: Snapshot) -> tuple[dkms.DkmsModule, ...]:
    """The modules that DKMS knows; none where there is no DKMS. Raises CouldNotLook when it did not answer."""
    code, output = snapshot.command("dkms-status")
    if code == 127:
        return ()
    if code != 0 and not output.strip():
        raise CouldNotLook(f"dkms status ended with {code} and said nothing")
    return dkms.dkms_status(output)


def make_logs(snapshot: Snapshot) -> dict[tuple[str, str], str]:
    """The logs of builds that did not end well, by module and version: DKMS moves the others away."""
    found = {}
    for path in snapshot.paths("file"):
        match = re.fullmatch(r"/var/lib/dkms/([^/]+)/([^/]+)/build/make\.log", path)
        if match:
            found[match[1], match[2]] = snapshot.text(path) or ""
    return found


def half_configured(snapshot: Snapshot) -> tuple[str, ...]:
    """The packages that dpkg --audit names, each indented by one space (dpkg(1)); where it was not asked, those that
    dpkg -l shows as neither whole nor gone."""
    try:
        code, output = snapshot.command("dpkg-audit")
    except CouldNotLook:
        return tuple(name for name, package in installed(snapshot).items() if not package.whole)
    names = tuple(dict.fromkeys(re.findall(r"^ (\S+)", output, re.MULTILINE)))
    if code != 0 and not names:
        raise CouldNotLook(f"dpkg --audit ended with {code}: {output.strip()[:120]}")
    return names


def month(snapshot: Snapshot) -> str | None:
    """The machine's own month, ``2026-11``; None where it was not asked."""
    try:
        code, output = snapshot.command("date-month")
    except CouldNotLook:
        return None
    return output.strip() if code == 0 and re.fullmatch(r"20\d\d-[01]\d", output.strip()) else None


def proxmox(snapshot: Snapshot) -> tuple[int, int] | None:
    """Version of Proxmox VE, by its package or by ``pveversion``; None where there is neither it nor a kernel of it.
    Raises CouldNotLook where a kernel of it runs and nothing tells the version."""
    manager = installed(snapshot).get("pve-manager")
    output = f"pve-manager/{manager.version}" if manager else _asked(snapshot, "pveversion")[1]
    found = re.match(r"pve-manager/(\d+)\.(\d+)", output)
    if found:
        return int(found[1]), int(found[2])
    if boot.running_kernel(snapshot).endswith("-pve"):
        raise CouldNotLook("a kernel of Proxmox VE runs, and neither dpkg nor pveversion tells its version")
    return None


def must_be_signed(snapshot: Snapshot) -> bool:
    """Is Secure Boot in force: does the kernel take signed modules only? Raises CouldNotLook when nothing tells."""
    if driver_seen.must_be_signed(snapshot):
        return True
    code, output = _asked(snapshot, "mokutil-sb-state")
    if re.search(r"^SecureBoot enabled", output, re.MULTILINE):
        return "validation is disabled in shim" not in output
    if re.search(r"^SecureBoot disabled|EFI variables are not supported|doesn't support Secure Boot", output):
        return False
    if snapshot.data("stat", EFI) is None:
        return False
    variable = snapshot.file(SECURE_BOOT)
    if variable is None or len(variable) != 5:
        raise CouldNotLook(
            f"is Secure Boot on? mokutil --sb-state ended with {code} ({output.strip()[:60] or 'nothing'}), and "
            f"{SECURE_BOOT} {'is not there' if variable is None else 'has not five bytes'}"
        )
    return variable[4] == 1


def _asked(snapshot: Snapshot, name: str) -> tuple[int, str]:
    try:
        return snapshot.command(name)
    except CouldNotLook:
        return 127, ""


def signing_certificate(snapshot: Snapshot, ubuntu: bool) -> str:
    """The certificate that DKMS signs with: ``mok_certificate`` of its configuration, else the distribution's place."""
    found = KEYS[1] if ubuntu else KEYS[0]
    paths = sorted(path for path in snapshot.paths("file") if path.startswith("/etc/dkms/framework.conf"))
    for path in paths:
        for line in (snapshot.text(path) or "").splitlines():
            match = re.match(r"\s*mok_certificate=[\"']?([^\"'#\s]+)", line)
            found = match[1] if match else found
    return found


def enrolled(text: str, certificate: str) -> str:
    """What ``mokutil --test-key`` says of a certificate: ``enrolled``, ``asked`` (it waits for the console at the next
    boot), ``absent``, or ``unknown``."""
    for line in text.splitlines():
        if not line.startswith(f"{certificate} ") and f" {certificate}" not in line:
            continue
        if "is not enrolled" in line:
            return "absent"
        if "in the enrollment request" in line:
            return "asked"
        if re.search(r"already (enrolled|in)|enrolled\. Skip|keyring", line):
            return "enrolled"
    return "unknown"
