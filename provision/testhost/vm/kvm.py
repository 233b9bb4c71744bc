"""Does KVM work here? Known only by a Linux kernel that runs under it.

``/dev/kvm`` may exist and refuse; and there are hosts (virtual machines themselves) where it starts, firmware runs,
and a kernel hangs at its first page table.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from . import cache
from .command import MACHINE
from .leash import Leash
from .qemu import Qemu

DEVICE = Path("/dev/kvm")
TRY_SECONDS = 10
"""With KVM the kernel needs one or two."""

_PROCESSOR = ("-accel", "kvm", "-cpu", "host", "-smp", "2", "-m", "512")
_QUIET = ("-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot")
# Without a disk it ends in a panic, and by that in a reset, which -no-reboot makes QEMU's end.
_KERNEL = "console=ttyS0 quiet panic=-1 intel_iommu=on iommu=pt"
_END = b"Kernel panic - not syncing: VFS"


def works(qemu: Qemu, kernel: Path, device: Path = DEVICE) -> bool:
    """Tries it, once for each boot of this machine; the answer is kept in the cache."""
    if not os.access(device, os.R_OK | os.W_OK):
        return False
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    known = cache.make_folder(cache.folder()) / f"kvm-{os.geteuid()}"
    question = f"{boot} {qemu.system[0]} "
    if known.is_file() and known.read_text().startswith(question):
        return known.read_text().endswith("yes\n")
    answer = _runs(qemu, kernel)
    known.write_text(f"{question}{'yes' if answer else 'no'}\n")
    cache.give(known)
    return answer


def _runs(qemu: Qemu, kernel: Path) -> bool:
    leash = Leash()
    try:
        command = [*qemu.system, *MACHINE, *_PROCESSOR, *_QUIET, "-kernel", str(kernel), "-append", _KERNEL]
        child = leash.start(command, out=subprocess.PIPE, env=qemu.environ)
        said = child.communicate(timeout=TRY_SECONDS)[0]
    except subprocess.TimeoutExpired:
        leash.cut()
        child.communicate()
        return False
    finally:
        leash.cut()
    return child.returncode == 0 and _END in said
