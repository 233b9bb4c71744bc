"""Why the NVIDIA modules do not load: what modprobe and the kernel say, what it means, what to do. What is said of one
GPU is in checks/data/kernel_lines.py."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

CHECKED = "2026-11-29"


@dataclass(frozen=True)
class Words:
    """``pattern`` is looked for in modprobe's output and in the kernel's log since the attempt began."""

    id: str
    pattern: str
    cause: str
    next_step: str
    source: str

    def found_in(self, text: str) -> str | None:
        """The line that says so."""
        return next((line.strip() for line in text.splitlines() if re.search(self.pattern, line)), None)


_NV = "NVIDIA open-gpu-kernel-modules 535.261.03, kernel-open/nvidia/nv.c"
_KMOD = "kmod 30, tools/modprobe.c, seen on Debian 12"

WORDS = (
    Words(
        "blocked",
        r"^install /bin/(false|true)\b|install command '/bin/(false|true)",
        "a line in /etc/modprobe.d says: install nvidia /bin/false",
        "take that line out (grep -r 'install nvidia' /etc/modprobe.d), then run again",
        _KMOD,
    ),
    Words(
        "missing",
        r"Module nvidia\S* not found in directory",
        "no NVIDIA module was built for the kernel that runs",
        "install the driver for this kernel, or boot the kernel that it was built for: dkms status; uname -r",
        _KMOD,
    ),
    Words(
        "key",
        r"Key was rejected by service|Required key not available|Loading of (unsigned )?module.* is rejected",
        "Secure Boot is on and the module's key is not enrolled",
        "enrol it (mokutil --import /var/lib/dkms/mok.pub), confirm at the console at the next boot, then run again",
        "Linux kernel, kernel/module/signing.c; modprobe prints EKEYREJECTED so",
    ),
    Words(
        "format",
        r"Exec format error|version magic .* should be|disagrees about version of symbol",
        "the module was built for another kernel",
        "build it for the kernel that runs: provision build-driver --kernel $(uname -r)",
        "Linux kernel, kernel/module/main.c, check_modinfo",
    ),
    Words(
        "mismatch",
        r"NVRM: API mismatch",
        "the user space is of another version than the loaded module",
        "make both equal: the version in /proc/driver/nvidia/version and that of nvidia-smi",
        _NV,
    ),
    Words(
        "unsupported",
        r"NVRM: The NVIDIA (probe routine failed|GPU \S+ .*is not supported by the NVIDIA)",
        "the driver refuses this GPU",
        "see the kernel's lines above; a newer or an older branch may be needed: nvidia.com/drivers",
        _NV,
    ),
    Words(
        "taken",
        r"NVRM: .*already bound to|NVRM: request_mem_region failed|conflicting with an existing driver",
        "another driver holds the GPU or its memory",
        "lspci -Dnnk -d 10de: shows which; a reboot with nouveau blacklisted frees it",
        _NV,
    ),
    Words(
        "none",
        r"NVRM: No NVIDIA (GPU found|devices probed)",
        "the module found no GPU that it could take: all have another driver, or their probe failed",
        "release a GPU first: lspci -Dnnk -d 10de:",
        _NV,
    ),
)


def explain(lines: Iterable[str]) -> list[str]:
    """One sentence for each cause found in the lines (a kernel's message is one line), most telling first."""
    text = "\n".join(lines)
    return [
        f"{line.rstrip('.')}; {words.cause}. Next: {words.next_step}"
        for words in WORDS
        if (line := words.found_in(text)) is not None
    ]
