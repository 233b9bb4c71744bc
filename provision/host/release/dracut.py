"""dracut's configuration, dracut.conf(5): shell assignments in /etc/dracut.conf and dracut.conf.d/*.conf. Pure.

``force_drivers`` loads modules before udev speaks, ``add_drivers`` only takes them along; ``kernel_cmdline`` is a piece
of the command line that lies in the initramfs. Names are separated by white space.
"""

from __future__ import annotations

from collections.abc import Iterator

from provision.host.release import cmdline, shell
from provision.host.release.shell import Char
from provision.host.release.target import EARLY_VFIO, Holder, Target, module, nothing

_COMMAND_LINE = "kernel_cmdline"


def find(path: str, text: str) -> tuple[Holder, ...]:
    """What loads vfio-pci before NVIDIA's driver, and what the piece of the command line holds."""
    found = list(cmdline.find(path, text))
    for name, chars in _forced(text):
        number = shell.line_of(text, chars[0])
        what = "loads vfio-pci in the initramfs, before all other drivers"
        found.append(Holder(path, number, f"force_drivers: {name}", what, nothing))
    return tuple(sorted(found, key=lambda holder: holder.line))


def clean(path: str, text: str, target: Target) -> str:
    """The same text without the target's ids, and without the early load where nothing else is served by it."""
    text = cmdline.clean(path, text, target)
    if target.keeping or target.others:
        return text
    return shell.without(text, [char for _, chars in _forced(text) for char in chars])


def _forced(text: str) -> Iterator[tuple[str, tuple[Char, ...]]]:
    """The modules of VFIO that force_drivers names, with the blank before each."""
    for word in shell.words(text):
        if word.name != "force_drivers":
            continue
        at = 0
        while at < len(word.chars):
            start = at
            while at < len(word.chars) and word.chars[at].text.isspace():
                at += 1
            begin = at
            while at < len(word.chars) and not word.chars[at].text.isspace():
                at += 1
            name = shell.text_of(word.chars[begin:at])
            if module(name.removesuffix(".ko")) in EARLY_VFIO:
                yield name, word.chars[max(start, begin - 1) : at]
