"""Is the machine a marked test host, so that its guests may be marked too? The rule of ``checks.testhost``, from a
snapshot. Pure.

A guest believes the mark that is bound into it, whatever its machine is: therefore the machine's SMBIOS product is
held against the mark here, before it is bound.
"""

from __future__ import annotations

import re

from checks.snapshot import Snapshot
from checks.testhost import CONTAINERS, MARKER, PRODUCT

_DMI = "/sys/class/dmi/id"

REQUESTS = (
    f"file:{MARKER}",
    f"stat:{MARKER}",
    *(f"file:{path}" for path in CONTAINERS),
    f"file:{_DMI}/product_name",
    f"file:{_DMI}/sys_vendor",
    "cmd:hypervisor:grep -qw hypervisor /proc/cpuinfo",
)
"""What the snapshot of a machine has to look at for this."""


def is_test_host(snapshot: Snapshot) -> bool:
    """Root's mark, mode 0444, one line with a uuid; on a virtual machine that is no container itself the SMBIOS
    product agrees. Raises CouldNotLook when a machine with a well-made mark does not tell what it is."""
    status = snapshot.data("stat", MARKER)
    text = snapshot.text(MARKER)
    if status is None or status.split()[:3] != [b"444", b"0", b"0"]:
        return False
    if re.fullmatch(r"kpro-test-host [0-9a-f-]{36}\n?", text or "") is None:
        return False
    if any(snapshot.file(path) is not None for path in CONTAINERS):
        return True
    virtual = snapshot.command("hypervisor")[0] == 0 or _word(snapshot, "sys_vendor") == "QEMU"
    return not virtual or _word(snapshot, "product_name") == PRODUCT


def _word(snapshot: Snapshot, name: str) -> str | None:
    text = snapshot.text(f"{_DMI}/{name}")
    return None if text is None else text.strip()
