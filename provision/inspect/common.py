"""Conclusions from several looks at once: one driver for all GPUs, keys of Secure Boot, what dpkg left undone. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provision.host.driver_checks import seen as driver_seen
from provision.inspect.functions import architecture_of
from provision.inspect.report import Finding
from provision.inspect.seen import Seen

_RECOVERY = re.compile(r"^\s*GPU Recovery Action\s*: *(\S[^\n]*?)\s*$", re.MULTILINE)
_CALM = ("none", "n/a", "unknown error")


def findings(seen: Seen) -> Iterator[Finding]:
    """All of them."""
    yield from _one_driver(seen)
    yield from _key(seen)
    yield from _undone(seen)
    yield from _recovery(seen)


def _one_driver(seen: Seen) -> Iterator[Finding]:
    """A machine has one module for all GPUs: is there a flavour that every served one takes, in a common branch?"""
    rows = {gpu.bdf: row for gpu in seen.gpus if (row := architecture_of(gpu)) is not None and row.flavours}
    kinds = tuple(dict.fromkeys(rows.values()))
    flavours = [one for one in ("open", "proprietary") if all(one in row.flavours for row in kinds)]
    if not kinds:
        return
    said = "; ".join(
        f"{row.name} ({', '.join(str(bdf) for bdf, one in rows.items() if one is row)}): {' or '.join(row.flavours)}"
        for row in kinds
    )
    if not flavours:
        yield Finding(
            "gpu.no-common-driver",
            "problem",
            "host",
            said,
            "a machine loads one kernel module, and no flavour of it serves all of these GPUs",
            "put only GPUs of one kind into machine.gpus; the others stay with virtual machines or move elsewhere",
            " / ".join(dict.fromkeys(row.source for row in kinds)),
        )


def _key(seen: Seen) -> Iterator[Finding]:
    """Is the key enrolled that DKMS signs with, where Secure Boot is on?"""
    on = any(re.search(r"^SecureBoot enabled", one.text, re.MULTILINE) for one in seen.texts.of("mokutil"))
    shim = any("validation is disabled in shim" in one.text for one in seen.texts.of("mokutil"))
    if not on or shim:
        return
    for output in seen.texts.of("mokutil"):
        for key in driver_seen.KEYS:
            answer = driver_seen.enrolled(output.text, key)
            if answer not in ("absent", "asked"):
                continue
            yield Finding(
                "secure-boot.key",
                "problem",
                key,
                "Secure Boot is on, and the key is not enrolled"
                + (": it waits for the console" if answer == "asked" else ""),
                "a module that DKMS signs with it is refused: Key was rejected by service",
                (
                    ""
                    if answer == "asked"
                    else f"mokutil --import {key} (it asks for a one-time password), then "
                )
                + "reboot with somebody at the console or the BMC: Enroll MOK",
                "wvthoog/proxmox-vgpu-installer#9; mokutil(1)",
            )


def _undone(seen: Seen) -> Iterator[Finding]:
    """What ``dpkg --audit`` names: every later apt call stumbles over it."""
    for output in seen.texts.of("dpkg-audit"):
        names = tuple(dict.fromkeys(re.findall(r"^ (\S+)", output.text, re.MULTILINE)))
        kernels = [name for name in names if re.match(r"(?:proxmox-kernel|pve-kernel|linux-image)-\d", name)]
        if names:
            yield Finding(
                "dpkg.unfinished",
                "problem",
                ", ".join(names),
                "dpkg --audit names them: not configured to the end",
                "every later apt call fails on them"
                + (
                    f", and a reboot would go into {', '.join(kernels)} without all of its modules"
                    if kernels
                    else ""
                ),
                "find the script that failed in /var/log/apt/term.log (often a DKMS module), mend it, then: "
                "dpkg --configure -a; " + ("do not reboot before" if kernels else "then go on"),
                "dpkg(1); moetayuko/intel-gpu-i915-backports#27",
            )


def _recovery(seen: Seen) -> Iterator[Finding]:
    """A GPU that waits to be reset looks well in nvidia-smi, and CUDA fails on it."""
    for output in seen.texts.of("smi-query"):
        gpu = output.name
        for line in output.text.splitlines():
            gpu = line.split()[1] if re.match(r"GPU [0-9A-Fa-f]{4,8}:", line) else gpu
            action = _RECOVERY.match(line)
            if action is None or action[1].lower() in _CALM:
                continue
            step = {
                "reset": "end what uses the GPU, then: nvidia-smi --gpu-reset",
                "reboot": "a reboot of the machine",
            }.get(action[1].lower().split()[0], "take the work off the GPU, then look again")
            yield Finding(
                "gpu.recovery",
                "problem",
                gpu,
                f"GPU Recovery Action: {action[1]}",
                "the driver asks for it after an error; nvidia-smi looks well, and CUDA fails (busy or unavailable)",
                step,
                "scitix/sichek#121; nvml.h, nvmlDeviceGpuRecoveryAction_t",
            )
