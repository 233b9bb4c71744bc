"""Kernel command lines: /etc/default/grub and grub.d/*.cfg (shell assignments), /etc/kernel/cmdline (one line).

GRUB's files are read by a shell: only assignments to GRUB_CMDLINE_LINUX* are looked at, quotes and line ends inside
the value belong to it, and comments stay as they are. Parameters of modules are ``module.name=value``, dash and
underscore being the same (Documentation/admin-guide/kernel-parameters.rst).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from provision.host.release.modprobe import is_nvidia
from provision.host.release.target import BINDERS, Holder, Target, module, nothing, takes, without_ids

_ASSIGNMENT = re.compile(r"^[ \t]*(?:export[ \t]+)?(?:GRUB_CMDLINE_LINUX\w*)\+?=", re.MULTILINE)
_PARAMETER = re.compile(r"[^\s\"']+")
_BLACKLISTS = ("modprobe.blacklist", "module_blacklist", "rd.driver.blacklist")


def values(path: str, text: str) -> Iterator[tuple[int, int]]:
    """Where the command lines begin and end in the text."""
    if not path.startswith("/etc/default/"):
        yield 0, len(text)
        return
    for match in _ASSIGNMENT.finditer(text):
        yield match.end(), _end_of_word(text, match.end())


def _end_of_word(text: str, at: int) -> int:
    """The end of a shell word: quotes hold blanks and line ends together, a backslash the next character."""
    quote = ""
    while at < len(text):
        character = text[at]
        if character == "\\" and quote != "'":
            at += 1
        elif quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in " \t\n;&":
            break
        at += 1
    return min(at, len(text))


def find(path: str, text: str) -> tuple[Holder, ...]:
    """The parameters that bind functions, or keep NVIDIA's driver away."""
    found = []
    for start, end in values(path, text):
        for match in _PARAMETER.finditer(text, start, end):
            number = text.count("\n", 0, match.start()) + 1
            name, _, value = match[0].partition("=")
            if _gives_ids(name):
                found.append(Holder(path, number, match[0], f"gives {value} to vfio-pci", takes(value)))
            elif name in _BLACKLISTS and any(is_nvidia(one) for one in value.split(",")):
                found.append(Holder(path, number, match[0], "keeps nvidia from being loaded", nothing))
    return tuple(found)


def _gives_ids(name: str) -> bool:
    before, _, parameter = name.partition(".")
    return parameter == "ids" and module(before) in BINDERS


def clean(path: str, text: str, target: Target) -> str:
    """The same text without the target's ids and without what keeps nvidia away."""
    for start, end in reversed(list(values(path, text))):
        text = text[:start] + _cleaned(text[start:end], target) + text[end:]
    return text


def _cleaned(line: str, target: Target) -> str:
    gone: list[tuple[int, int, str]] = []
    for match in _PARAMETER.finditer(line):
        name, _, value = match[0].partition("=")
        if _gives_ids(name) and any(target.has_id(entry) for entry in value.split(",")):
            kept = without_ids(value, target)
        elif name in _BLACKLISTS and any(is_nvidia(one) for one in value.split(",")):
            if target.keeping and name != "module_blacklist":
                continue
            kept = ",".join(one for one in value.split(",") if one and not is_nvidia(one))
        else:
            continue
        gone.append((*match.span(), f"{name}={kept}" if kept else ""))
    for start, end, new in reversed(gone):
        if not new and line[end : end + 1] in (" ", "\t"):
            end += 1
        elif not new and start and line[start - 1] in " \t" and line[start - 2 : start - 1] != "\\":
            start -= 1
        line = line[:start] + new + line[end:]
    return line


def blocked(running: str) -> str | None:
    """The parameter of the running command line with which the kernel itself refuses NVIDIA's modules."""
    for match in _PARAMETER.finditer(running):
        name, _, value = match[0].partition("=")
        if name == "module_blacklist" and any(is_nvidia(one) for one in value.split(",")):
            return match[0]
    return None
