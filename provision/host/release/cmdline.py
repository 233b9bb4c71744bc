"""Kernel command lines: /etc/default/grub and grub.d/*.cfg, dracut's kernel_cmdline (shell assignments), and
/etc/kernel/cmdline (one line), and the entries of systemd-boot (lines ``options``). Pure.

Parameters are separated by white space, which double quotes hold together; those of modules are ``module.name=value``,
dash and underscore being the same (Documentation/admin-guide/kernel-parameters.rst, lib/cmdline.c ``next_arg``). A
shell's file is not run: a parameter counts in the value of whatever variable it stands, for that is how pieces of a
command line are put together; one that stands elsewhere, or comes about only where variables are put in, is left to the
operator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from provision.host import boot
from provision.host.release import expanded, shell
from provision.host.release.modprobe import is_nvidia
from provision.host.release.shell import Char
from provision.host.release.target import (
    BINDERS,
    EARLY_VFIO,
    Holder,
    Target,
    module,
    names_ids,
    nothing,
    takes,
)
from provision.host.view import PciFunction

_SHELL = ("/etc/default/", "/etc/dracut", "/usr/lib/dracut", "/run/dracut", "/usr/local/lib/dracut")
_GRUB = "/etc/default/grub"
_XEN = ("GRUB_CMDLINE_XEN", "GRUB_CMDLINE_XEN_DEFAULT")  # the hypervisor's own command line
_BLACKLISTS = ("modprobe.blacklist", "module_blacklist", "rd.driver.blacklist", "rdblacklist")
_EARLY = ("rd.driver.pre", "rd.driver.post", "rdloaddriver", "rdinsmodpost")


@dataclass(frozen=True)
class Parameter:
    """``name=value``. ``place`` are its characters, ``said`` those of the value without quotes around it; ``known`` is
    whether it stands where a command line is made of; ``blanks`` are the one before it and the one after."""

    name: str
    place: tuple[Char, ...]
    said: tuple[Char, ...]
    known: bool
    blanks: tuple[Char, ...]

    @property
    def value(self) -> str:
        return shell.text_of(self.said)

    @property
    def text(self) -> str:
        return shell.text_of(self.place)


def is_shell(path: str) -> bool:
    return path.startswith(_SHELL)


def parameters(path: str, text: str) -> Iterator[Parameter]:
    """All parameters, in order."""
    if path.startswith(boot.ENTRIES):
        for line in re.finditer(r"^options[ \t]+(.*)$", text, re.MULTILINE):
            chars = shell.plain(text)[line.start(1) : line.end(1)]
            yield from _split(chars, False, '"')
        return
    if not is_shell(path):
        yield from _split(shell.plain(text), True, '"')
        return
    # What GRUB's files hold is read twice: by a shell, and from grub.cfg by GRUB, which knows both quotes.
    quotes = "\"'" if path.startswith(_GRUB) else '"'
    for word in shell.words(text):
        if word.name not in _XEN:
            yield from _split(word.chars, word.name is not None, quotes)


def _split(chars: Sequence[Char], known: bool, quotes: str) -> Iterator[Parameter]:
    at = 0
    # A quote without its other one holds nothing together.
    hold = [one for one in quotes if sum(char.text == one for char in chars) % 2 == 0]
    while at < len(chars):
        while at < len(chars) and chars[at].text.isspace():
            at += 1
        start, quoted = at, ""
        while at < len(chars) and (quoted or not chars[at].text.isspace()):
            if chars[at].text in hold and quoted in ("", chars[at].text):
                quoted = "" if quoted else chars[at].text
            at += 1
        if at > start:
            beside = [*chars[max(start - 1, 0) : start], *chars[at : at + 1]]
            blanks = tuple(char for char in beside if char.text in " \t")
            yield _parameter(tuple(chars[start:at]), known, blanks, quotes)


def _parameter(place: tuple[Char, ...], known: bool, blanks: tuple[Char, ...], quotes: str) -> Parameter:
    text = shell.text_of(place)
    mark = text.find("=")
    if mark < 0:
        return Parameter(text.strip(quotes), place, (), known, blanks)
    said = tuple(char for char in place[mark + 1 :] if char.text not in quotes)
    known = known and not any(char.nested for char in place)
    return Parameter(text[:mark].strip(quotes), place, said, known, blanks)


def find(path: str, text: str) -> tuple[Holder, ...]:
    """The parameters that bind functions, or keep NVIDIA's driver away."""
    found, literal = [], set()
    for parameter in parameters(path, text):
        number = shell.line_of(text, parameter.place[0])
        literal.add(parameter.text)
        told = _told(parameter.name, parameter.value)
        if told is not None:
            instead = None if parameter.known else f"take {parameter.text} out of {path}:{number}"
            found.append(Holder(path, number, parameter.text, *told, instead))
    if is_shell(path):
        found += _put_together(path, text, literal)
    return tuple(found)


def _told(name: str, value: str) -> tuple[str, Callable[[PciFunction], bool]] | None:
    """What a parameter does to GPUs, and which functions it binds; None where it does nothing to them."""
    words = value.split(",")
    if gives_ids(name) and expanded.UNKNOWN in value:
        return f"gives {value.replace(expanded.UNKNOWN, '…')} to {_module(name)}", lambda function: True
    if gives_ids(name) and names_ids(value):
        return f"gives {value} to {_module(name)}", takes(value)
    if name in _BLACKLISTS and any(is_nvidia(one) for one in words):
        return "keeps nvidia from being loaded", nothing
    if name in _EARLY and any(module(one) in EARLY_VFIO for one in words):
        return "loads vfio-pci before all other drivers", nothing
    return None


def _module(name: str) -> str:
    return module(name.partition(".")[0]).replace("_", "-")


def _put_together(path: str, text: str, literal: set[str]) -> Iterator[Holder]:
    """Parameters that stand nowhere as they are, and come about where the shell puts its variables in."""
    for word, value in expanded.words(text):
        if word.name in _XEN or value == shell.text_of(word.chars):
            continue
        for parameter in _split(shell.plain(value), True, "\"'"):
            name = re.sub(rf".*{expanded.UNKNOWN}", "", parameter.name)
            unknown = name != parameter.name and name in ("", ".ids")
            told = _told("vfio-pci.ids" if unknown else name, parameter.value)
            if told is None or parameter.text in literal:
                continue
            number = shell.line_of(text, word.chars[0])
            instead = (
                f"the shell puts {parameter.text.replace(expanded.UNKNOWN, '…')} together in {path}:{number}: take it "
                "out there, or out of the variables that it is made of"
            )
            yield Holder(path, number, shell.text_of(word.chars), *told, instead)


def gives_ids(name: str) -> bool:
    before, _, parameter = name.partition(".")
    return parameter == "ids" and module(before) in BINDERS


def clean(path: str, text: str, target: Target) -> str:
    """The same text without the target's ids and without what keeps nvidia away."""
    gone: list[Char] = []
    for parameter in parameters(path, text):
        if not parameter.known:
            continue
        if gives_ids(parameter.name):
            gone += _without(parameter, target.has_id, gone)
        elif parameter.name in _BLACKLISTS and not (target.keeping and parameter.name != "module_blacklist"):
            gone += _without(parameter, is_nvidia, gone)
        elif parameter.name in _EARLY and not (target.keeping or target.others):
            gone += _without(parameter, lambda one: module(one) in EARLY_VFIO, gone)
    return shell.without(text, gone)


def _without(parameter: Parameter, goes: Callable[[str], bool], before: Sequence[Char]) -> tuple[Char, ...]:
    """The characters that go: the entries of the list that are meant with their commas, or the whole parameter when
    no other entry is left."""
    entries: list[list[Char]] = [[]]
    for char in parameter.said:
        if char.text == ",":
            entries.append([])
        entries[-1].append(char)
    names = [shell.text_of(entry).lstrip(",") for entry in entries]
    kept = [name for name in names if name and not goes(name)]
    if not any(name and goes(name) for name in names):
        return ()
    if not kept:
        # One blank goes with it: the one before it, or the one after where that went already or there is none.
        return (*parameter.place, *[blank for blank in parameter.blanks if blank not in before][:1])
    gone: list[Char] = []
    first = True
    for name, entry in zip(names, entries, strict=True):
        if name and not goes(name):
            # What is now the first entry has no comma before it.
            gone += entry[:1] if first and entry[0].text == "," else []
            first = False
        else:
            gone += entry
    return tuple(gone)


def blocked(running: str) -> str | None:
    """The parameter of the running command line with which the kernel itself refuses NVIDIA's modules."""
    for parameter in parameters("/proc/cmdline", running):
        if parameter.name == "module_blacklist" and any(is_nvidia(one) for one in parameter.value.split(",")):
            return parameter.text
    return None
