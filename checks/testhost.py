"""The mark of a throw-away test host, the only place where a replayed verdict opens a gate.

``/etc/kpro/test-host`` is written by the builder of an image or container, never by a deploy: root's, mode
0444, one line ``kpro-test-host <uuid>``. On a virtual machine the SMBIOS product must say the same, so that
a file copied to a real machine marks nothing. In a container the parent's builder vouches.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

MARKER = "/etc/kpro/test-host"
PRODUCT = "kpro-test-host"
_LINE = re.compile(rb"kpro-test-host ([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\n?")
CONTAINERS = ("/run/systemd/container", "/.dockerenv", "/run/.containerenv")
"""What says that this is a container: systemd writes the first one when it is started as a container's init (LXC
sets ``container=lxc`` in its environment), the others are Docker's and Podman's."""


class MarkerRefused(ValueError):
    """There is a marker, and it must not be believed."""


def marker(root: str = "") -> str | None:
    """The uuid of the test host below ``root``, None when there is no marker.

    Raises MarkerRefused when it is malformed, writable, not root's, or contradicted by the SMBIOS product.
    """
    path = root + MARKER
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise MarkerRefused(f"{path} cannot be read as a plain file: {error.strerror}") from None
    try:
        status = os.fstat(handle)
        data = os.read(handle, 256) if stat.S_ISREG(status.st_mode) else b""
    finally:
        os.close(handle)
    if not stat.S_ISREG(status.st_mode):
        raise MarkerRefused(f"{path} is no plain file")
    if not _is_roots(status.st_uid, root) or stat.S_IMODE(status.st_mode) != 0o444:
        mode = stat.S_IMODE(status.st_mode)
        raise MarkerRefused(
            f"{path} must be root's with mode 0444, and is of uid {status.st_uid} with mode {mode:04o}"
        )
    found = _LINE.fullmatch(data)
    if found is None:
        raise MarkerRefused(f"{path} must be one line 'kpro-test-host <uuid>'")
    _agree_with_machine(root)
    return found[1].decode()


def _is_roots(uid: int, root: str) -> bool:
    """Root's, or in an unprivileged container, whose maps leave the machine's root out, of the user that the kernel
    shows for whom it cannot name (user_namespaces(7)): there it is bound in from the machine."""
    if uid == 0:
        return True
    rows = [line.split() for line in (_read(f"{root}/proc/self/uid_map") or "").splitlines()]
    outside = bool(rows) and all(len(row) == 3 and row[1] != "0" for row in rows)
    return outside and str(uid) == (_read(f"{root}/proc/sys/kernel/overflowuid") or "65534")


def _agree_with_machine(root: str) -> None:
    if any(Path(root + mark).exists() for mark in CONTAINERS) or not _is_virtual(root):
        return
    product = _read(f"{root}/sys/class/dmi/id/product_name")
    if product != PRODUCT:
        seen = repr(product) if product is not None else "nothing"
        raise MarkerRefused(
            f"this virtual machine's SMBIOS product says {seen}, not {PRODUCT!r}: no test host"
        )


def _is_virtual(root: str) -> bool:
    cpu = _read(f"{root}/proc/cpuinfo") or ""
    flags = re.search(r"^flags\s*:.*\bhypervisor\b", cpu, re.MULTILINE)
    return flags is not None or _read(f"{root}/sys/class/dmi/id/sys_vendor") == "QEMU"


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return None
