"""What may take GPUs beside definitions: hook scripts of virtual machines, old reservations, GRUB's commands. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from provision.host.vms import hooks, life
from provision.inspect import grub_commands, guests
from provision.inspect.report import Finding
from provision.inspect.seen import Seen


def findings(seen: Seen) -> Iterator[Finding]:
    """All of them, as a plan tells them."""
    yield from _hooks(seen)
    yield from _left_behind(seen)
    for where, text in grub_commands.not_followed(seen.look.snapshot):
        yield Finding(
            "cmdline.not-followed",
            "warning",
            where,
            text,
            "not followed: what the shell puts there when update-grub runs may bind functions",
            "look at what it prints, or write the parameters there themselves",
            "GRUB manual, 'Simple configuration handling': the file is read by a shell",
        )


def _hooks(seen: Seen) -> Iterator[Finding]:
    """They run when their virtual machine starts or stops: not at the machine's start."""
    gpus = [function.bdf for function in seen.gpus]
    for hook in seen.look.attempt("hook scripts", lambda: hooks.hooks(seen.look.snapshot)) or ():
        named = any(
            one.vmid == hook.vmid and one.covers(bdf) for one in seen.references or () for bdf in gpus
        )
        if hook.binds or named:
            yield Finding(
                "vm.hookscript",
                "warning" if hook.binds else "note",
                hook.where,
                f"hookscript {hook.value} of VM {hook.vmid}",
                f"it binds functions at a start or a stop of the VM: {hook.script}:{hook.line}: {hook.text.strip()}"
                if hook.binds
                else "it runs at every start and stop of the VM, and no line that binds functions was seen in it",
                f"where the GPU is to stay with the host: qm set {hook.vmid} --delete hookscript"
                if hook.binds
                else "",
                "qm(1), hookscript",
            )


def _left_behind(seen: Seen) -> Iterator[Finding]:
    for kept in guests.reservations(seen.look) or ():
        if kept.live:
            continue
        gone = guests.is_gone(seen.look, kept)
        yield Finding(
            "vm.reservation",
            "note",
            f"{life.RESERVATIONS}:{kept.line}",
            f"VM {kept.vmid} reserved {kept.address}",
            f"left behind: {kept.why}" if gone else "whether its process lives was not recorded",
            "",
            "qemu-server, PVE/QemuServer/PCI.pm",
        )
