"""Keeps NVIDIA's library from changing the machine that it is asked about.

libnvidia-ml makes missing device nodes itself when it runs as root (seen: /dev/nvidia-uvm in a container that had been
given none), renews udev's links in /dev/char, and starts the setuid nvidia-modprobe, which also loads the kernel
module, when it does not run as root. A check that only reads wants none of that: what is missing must be found missing.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

_PR_SET_NO_NEW_PRIVS = 38  # linux/prctl.h
_VERSION_3 = 0x20080522  # linux/capability.h
_CAP_SYS_MODULE, _CAP_MKNOD = 16, 27
_CREATE_RULESET, _RESTRICT_SELF = 444, 446  # landlock(7), the same numbers on every architecture
_MAKE_OR_REMOVE = sum(1 << bit for bit in range(4, 13))
"""LANDLOCK_ACCESS_FS_REMOVE_DIR to MAKE_SYM of linux/landlock.h: all that the first version of Landlock can refuse but
opening, reading, writing and running what is there."""


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def keep_quiet() -> None:
    """This process, and what it starts, can make no device node, load no module, and gain no rights by exec, for the
    whole of its life; where the kernel refuses, it goes on as it is."""
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        header, sets = _Header(_VERSION_3, 0), (_Sets * 2)()
        if libc.capget(ctypes.byref(header), sets) == 0:
            mask = ~(1 << _CAP_SYS_MODULE | 1 << _CAP_MKNOD)
            for kind in ("effective", "permitted", "inheritable"):
                setattr(sets[0], kind, getattr(sets[0], kind) & mask)
            libc.capset(ctypes.byref(header), sets)


def make_nothing() -> None:
    """After ``keep_quiet``: no file, link or node is made or removed either. Where the kernel knows no Landlock (before
    5.13), it goes on as it is."""
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        rules = ctypes.c_uint64(_MAKE_OR_REMOVE)
        ruleset = libc.syscall(ctypes.c_long(_CREATE_RULESET), ctypes.byref(rules), ctypes.c_size_t(8), 0)
        if ruleset >= 0:
            libc.syscall(ctypes.c_long(_RESTRICT_SELF), ruleset, 0)
            os.close(ruleset)
