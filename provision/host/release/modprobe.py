"""modprobe.d: options, softdeps, blacklists and install lines that keep a GPU from NVIDIA's driver.

The format is that of kmod (modprobe.d(5), libkmod-config.c): a backslash before a line's end joins it with the next,
also in a comment, and before any other character it goes; a line whose first character is ``#`` is a comment; words are
separated by blanks and tabs; dash and underscore are the same in module names. Options are read by the kernel, which
takes quotes around a whole one or around its value (lib/cmdline.c ``next_arg``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from provision.host.release.target import (
    BINDERS,
    EARLY_VFIO,
    MARK,
    Holder,
    Target,
    ids_of,
    modalias_takes,
    module,
    nothing,
    options_without,
    takes,
)
from provision.host.view import PciFunction

_NVIDIA = re.compile(r"nvidia(_(current|open|tesla|legacy|srv|\d+))*(_(drm|uvm|modeset|peermem))?")
_NAMES = ("nvidia", "nvidia_drm", "nvidia_uvm", "nvidia_modeset", "nvidia_current", "nvidia_current_open")
_ORDERED = ("nouveau", "nvidiafb")
_SHARED = ("snd_hda_intel", "xhci_pci", "xhci_hcd", "i2c_nvidia_gpu", "drm")
"""Drivers of a GPU's companions, and what all graphics drivers need: devices of other makers have them too."""
_LOADER = re.compile(r"(?:^|[\s;&|({'\"/])(?:modprobe|insmod|kmod)\b")
_IDLE = re.compile(
    r"(?:/\S*/)?(?:false|true|:|echo|printf|logger|exit|return|test|\[|sleep|(?:ba|da)?sh -\w*c)(?=[\s;&|'\")}])"
)
"""Programs that load no module unless they are told to."""

_NEVER_ON = re.compile(r"(?:/\S*/)?(?:false\s*&&|(?:true|:|echo\b[^;&|]*)\s*\|\||exit\b)")
"""What stands behind these is never run."""

_LOADS = re.compile(r"\s*(?:/\S*/)?modprobe((?:\s+-\S+)*)\s+([\w-]+)((?:\s+\S+)*)\s*")


def is_nvidia(name: str) -> bool:
    """Is this one of NVIDIA's modules, by Debian's names too (nvidia-current-open)? nvidiafb is the kernel's own."""
    return _NVIDIA.fullmatch(module(name)) is not None


def _means_nvidia(pattern: str) -> bool:
    """``softdep`` and ``install`` take patterns (libkmod-module.c, fnmatch): does this one mean an NVIDIA module?"""
    return any(fnmatchcase(name, module(pattern)) for name in _NAMES) or is_nvidia(pattern)


def logical_lines(text: str) -> Iterator[tuple[int, str, str]]:
    """Number of the first line, the raw text with its line ends, and the joined line."""
    raw, number = "", 1
    for at, line in enumerate(_keep(text), 1):
        raw += line
        if re.search(r"(?<!\\)(?:\\\\)*\\\n$", line):
            continue
        yield number, raw, _plain(raw)
        raw, number = "", at + 1
    if raw:
        yield number, raw, _plain(raw)


def _plain(raw: str) -> str:
    """Without the backslashes: ``getline_wrapped`` of libkmod-config.c."""
    return re.sub(r"\\(.|$)", lambda match: match[1].strip("\n"), raw, flags=re.DOTALL).removesuffix("\n")


def words_of(line: str) -> list[str]:
    """The words of a line, by blanks and tabs alone."""
    return [word for word in re.split(r"[ \t\r\n]+", line) if word]


def _keep(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def find(path: str, text: str) -> tuple[Holder, ...]:
    """The lines that bind functions or keep the driver away."""
    found = []
    for number, _, line in logical_lines(text):
        words = words_of(line)
        if line.startswith("#") or len(words) < 2:
            continue
        command, name = words[0], module(words[1])
        if command == "options" and name in BINDERS:
            for value in ids_of(line):
                found.append(Holder(path, number, line, f"gives {value} to {words[1]}", takes(value)))
        elif command == "softdep" and _is_ordered(name) and _pre(words):
            found.append(Holder(path, number, line, f"loads vfio-pci before {words[1]}", nothing))
        elif command == "blacklist" and is_nvidia(name):
            found.append(Holder(path, number, line, f"keeps {words[1]} from being loaded by itself", nothing))
        elif command == "alias" and _loads_for(words):
            found.append(Holder(path, number, line, f"loads {words[2]} for {words[1]}", nothing))
        elif command == "alias" and _turns_off(words):
            found.append(Holder(path, number, line, f"has {words[2]} loaded in place of {words[1]}", nothing))
        elif command == "install":
            found += _install(path, number, line, name)
    return tuple(found)


def _install(path: str, number: int, line: str, name: str) -> list[Holder]:
    """A line that runs something else in place of loading a module."""
    said = _runs(line)
    instead = f"take out what concerns the GPUs from {path}:{number}, or the line"
    if _means_nvidia(name):
        if _never(said):
            if not name.startswith("nvidia"):
                return [Holder(path, number, line, f"keeps {name} from being loaded at all", _all, instead)]
            return [Holder(path, number, line, f"keeps {name} from being loaded at all", nothing)]
        if _vfio_first(name, said):
            return [Holder(path, number, line, f"loads vfio-pci before {name}", nothing)]
        if re.search(r"vfio|pci-stub|driver_override", said):
            return [Holder(path, number, line, f"runs a command for {name}", _all, instead)]
    elif _is_ordered(name) and _vfio_first(name, said):
        return [Holder(path, number, line, f"loads vfio-pci before {name}", nothing)]
    elif name in EARLY_VFIO and _binds(line):
        return [Holder(path, number, line, f"runs a command for {name}", _all, instead)]
    return []


def _all(function: PciFunction) -> bool:
    """A command may mean any function."""
    return True


def _runs(line: str) -> str:
    return " ".join(words_of(line)[2:])


def _never(said: str) -> bool:
    """Does this command of an install line load nothing at all? A shell runs it (libkmod-module.c, ``system``)."""
    plain = re.sub(r"(?:^|(?<=\s))#.*", "", said).lstrip(" {('\"")
    if _NEVER_ON.match(plain):
        return True
    return _IDLE.match(f"{plain} ") is not None and _LOADER.search(plain) is None


def _vfio_first(name: str, said: str) -> bool:
    """Does it load modules of VFIO, and then the module itself, and nothing else? Then the line is not needed."""
    parts = [_LOADS.fullmatch(part) for part in re.split(r"[;&|]+", said) if part.strip()]
    if len(parts) < 2 or not all(parts):
        return False
    *first, last = [part for part in parts if part]
    own = module(last[2]) == name and re.search(r"-i\b|--ignore-install|-[a-z]*i[a-z]*\b", last[1])
    return bool(own) and all(module(part[2]) in EARLY_VFIO and "ids=" not in part[3] for part in first)


def _loads_for(words: list[str]) -> bool:
    return len(words) > 2 and words[1].startswith("pci:") and module(words[2]) in BINDERS


def _turns_off(words: list[str]) -> bool:
    """``alias nvidia off``: an alias outranks the module of its name, and there is no module ``off``."""
    if len(words) < 3 or is_nvidia(words[2]):
        return False
    of_gpus = re.match(r"pci:v0{4}10DEd[^s]*(sv.*)?$", words[1]) is not None
    return is_nvidia(words[1]) or (of_gpus and words[2] == "off")


def keeps_away(name: str, text: str) -> bool:
    """Is this module kept from being loaded by itself?"""
    words = [words_of(line) for _, _, line in logical_lines(text) if not line.startswith("#")]
    return any(
        ["blacklist", name] == line[:2]
        or ["alias", name, "off"] == line[:3]
        or (["install", name] == line[:2] and _never(" ".join(line[2:])))
        for line in words
    )


def clean(text: str, target: Target) -> str:
    """The same text without what concerns the target; a line that goes stays as a comment."""
    return "".join(_cleaned(raw, line, target) for _, raw, line in logical_lines(text))


def _cleaned(raw: str, line: str, target: Target) -> str:
    words = words_of(line)
    if line.startswith("#") or len(words) < 2:
        return raw
    command, name = words[0], module(words[1])
    if command == "options" and name in BINDERS:
        new = options_without(line, target)
        return raw if new == line else _commented(raw) + _line(new, raw, len(words_of(new)) > 2)
    if command == "softdep" and _is_ordered(name) and _pre(words) and not _stays(name, target):
        new = re.sub(r"\s+(vfio[-_]pci|pci[-_]stub)(?=\s|$)", "", line)
        rest = [word for word in words_of(new)[2:] if word not in ("pre:", "post:")]
        return _commented(raw) + _line(new, raw, bool(rest))
    if command == "blacklist" and is_nvidia(name) and not target.keeping:
        return _commented(raw)
    if command == "alias" and _loads_for(words) and not target.keeping:
        return _commented(raw) if any(modalias_takes(words[1], one) for one in target.functions) else raw
    if command == "alias" and _turns_off(words) and not target.keeping:
        return _commented(raw)
    if command == "install" and name.startswith("nvidia") and _means_nvidia(name):
        said = _runs(line)
        if _never(said) or (_vfio_first(name, said) and not target.keeping):
            return _commented(raw)
    elif command == "install" and _is_ordered(name) and not _stays(name, target):
        return _commented(raw) if _vfio_first(name, _runs(line)) else raw
    return raw


def _is_ordered(name: str) -> bool:
    return _means_nvidia(name) or any(fnmatchcase(one, name) for one in (*_ORDERED, *_SHARED))


def _stays(name: str, target: Target) -> bool:
    """Does an order of loading serve what stays with virtual machines?"""
    shared = any(fnmatchcase(one, name) for one in _SHARED)
    return target.keeping or (target.others and shared)


def _pre(words: list[str]) -> bool:
    """Is vfio-pci among what is loaded before?"""
    pre = False
    for word in words[2:]:
        if word in ("pre:", "post:"):
            pre = word == "pre:"
        elif pre and module(word) in BINDERS:
            return True
    return False


def _binds(line: str) -> bool:
    """An install line of vfio-pci that does more than load it: the usual scripts write driver_override."""
    words = words_of(line)[2:]
    if _never(" ".join(words)):
        return False
    only_loads = words[0].endswith("modprobe") and not re.search(r"[;&|]|ids=|driver_override", line)
    return not only_loads


def _commented(raw: str) -> str:
    return "".join(MARK + line for line in _keep(raw))


def _line(new: str, raw: str, needed: bool) -> str:
    if not needed:
        return ""
    end = "\n" if raw.endswith("\n") else ""
    return new + end if end else "\n" + new
