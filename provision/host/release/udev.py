"""udev rules that write a driver_override, or run something that does (udev(7)).

A rule is one line, joined with the next by a backslash at its end; a line that begins with ``#`` is a comment, also
between joined ones (systemd, udev-rules.c ``udev_rules_parse_file``). Keys with ``==`` and ``!=`` match, the others
assign; patterns are globs with ``|`` between alternatives. A match key that is not known here is taken as met.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from provision.host.binding import BINDING, binding
from provision.host.release import foreign
from provision.host.release.target import MARK, Holder, Target, modalias_takes, other_driver
from provision.host.view import PciFunction

_BINDS = re.compile(rf"vfio|pci-stub|driver_override|{BINDING}")
_STUBS = re.compile(r"vfio|pci[-_]stub")
_PATH = re.compile(r"/[\w./+@-]+")
_FILES = re.compile(r"driver_override|vfio|pci-stub|driver/unbind")
_TOKEN = re.compile(r'([A-Z_]+)\s*(?:\{([^}]*)\})?\s*(==|!=|\+=|-=|:=|=)\s*([ei]*)"((?:[^"\\]|\\.)*)"')


_WHEN = ("add", "bind", "change")
"""What happens to a function at a start; nothing is removed then."""


@dataclass(frozen=True)
class Rule:
    """One rule: the line it begins at, its raw text, its tokens (key, attribute, operator, value), and ``script``, the
    text of those of its programs that bind functions."""

    line: int
    raw: str
    tokens: tuple[tuple[str, str, str, str], ...]
    script: str = ""

    @property
    def binds(self) -> bool:
        if any(one in ("new_id", "bind") for _, one, *_ in self.tokens) and _STUBS.search(self.raw):
            return True
        return bool(self.script) or any(
            _writes(attribute, value) if key in ("ATTR", "SYSCTL") else _BINDS.search(value)
            for key, attribute, operator, value in self.tokens
            # A program is run to compare what it says, too.
            if key in ("PROGRAM", "IMPORT")
            or (operator not in ("==", "!=") and key in ("ATTR", "SYSCTL", "RUN"))
            or (attribute == "SYSTEMD_WANTS" and "vfio" in value)
        )

    def takes(self, function: PciFunction) -> bool:
        """Does the rule apply to this function, as far as its keys tell, or name it in what it runs or writes?"""
        if not any(_happens(self.tokens, when) for when in _WHEN):
            return False
        done = [value for *_, operator, value in self.tokens if operator not in ("==", "!=")]
        done += [value for key, *_, value in self.tokens if key in ("PROGRAM", "IMPORT")]
        names = foreign.named("\n".join([*done, self.script]))
        others = [
            value
            for key, _, operator, value in self.tokens
            if key in ("SUBSYSTEM", "SUBSYSTEMS") and operator == "==" and not _matches(value, "pci")
        ]
        if others:
            # An event of something else: of a driver or a module it may mean any function.
            return names.means(function) or (not names and others[0] in ("drivers", "module"))
        return names.means(function) or all(
            _matches(value, said) == (operator == "==")
            for key, attribute, operator, value in self.tokens
            if operator in ("==", "!=") and (said := _of(function, key, attribute, value)) is not None
        )


def _happens(tokens: Iterable[tuple[str, str, str, str]], when: str) -> bool:
    return all(
        _matches(value, when) == (operator == "==")
        for key, _, operator, value in tokens
        if key == "ACTION" and operator in ("==", "!=")
    )


def _writes(attribute: str, value: str) -> bool:
    """Does an assignment to an attribute take functions? ``driver_override``, or a driver's files, as in
    ``ATTR{[drivers/vfio-pci]new_id}``. What names the function's own driver, or clears the override, takes none."""
    if attribute == "driver_override":
        return other_driver(value)
    if "vfio" in value or "pci-stub" in value:
        return _FILES.search(attribute) is not None
    return "vfio" in attribute or "pci-stub" in attribute


def _of(function: PciFunction, key: str, attribute: str, pattern: str) -> str | None:
    """What the function says to a key, None where that is not known."""
    bdf = str(function.bdf)
    if key in ("ATTR", "ATTRS"):
        return {"vendor": function.vendor, "device": function.device, "class": function.pci_class}.get(
            attribute
        )
    if key == "ENV":
        ids = f"{function.vendor[2:]}:{function.device[2:]}".upper()
        if attribute == "MODALIAS":
            return pattern if any(modalias_takes(one, function) for one in pattern.split("|")) else ""
        kind = f"{int(function.pci_class or '0', 16):04X}"
        return {"PCI_SLOT_NAME": bdf, "PCI_ID": ids, "PCI_CLASS": kind}.get(attribute)
    if key == "DEVPATH":
        last = (one.rsplit("/", 1)[-1] for one in pattern.split("|"))
        return pattern if any(fnmatchcase(bdf, one) for one in last) else ""
    return {"KERNEL": bdf, "KERNELS": bdf, "SUBSYSTEM": "pci", "SUBSYSTEMS": "pci"}.get(key)


def _matches(pattern: str, text: str) -> bool:
    return text == pattern or any(fnmatchcase(text, one) for one in pattern.split("|"))


def rules(text: str, called: Mapping[str, str] | None = None) -> Iterator[Rule]:
    """All rules and all else, in order: a comment or an empty line is a rule without tokens. ``called`` are the texts
    of scripts by path."""
    raw, number = "", 1
    for at, line in enumerate(re.findall(r"[^\n]*\n|[^\n]+", text), 1):
        raw += line
        comment = line.lstrip().startswith("#")
        if re.search(r"\\\r?\n$", line) and not comment:
            continue
        # A comment does not end a rule that goes on after it.
        if comment and raw != line:
            continue
        yield _rule(number, raw, called)
        raw, number = "", at + 1
    if raw:
        yield _rule(number, raw, called)


def _rule(number: int, raw: str, called: Mapping[str, str] | None = None) -> Rule:
    lines = [line for line in raw.split("\n") if not line.lstrip().startswith("#")]
    joined = "".join(line.rstrip("\r").removesuffix("\\") for line in lines)
    tokens = tuple((m[1], m[2] or "", m[3], _value(m)) for m in _TOKEN.finditer(joined))
    programs = [value for key, _, _, value in tokens if key in ("RUN", "PROGRAM", "IMPORT")]
    paths = [path for value in programs for path in _PATH.findall(value)]
    scripts = [called[path] for path in paths if called and path in called and binding(called[path])]
    return Rule(number, raw, tokens, "\n".join(scripts))


def _value(match: re.Match[str]) -> str:
    """``i"…"`` is compared without regard to case (udev(7), from systemd 257 on)."""
    if "i" not in match[4] or match[3] not in ("==", "!="):
        return match[5]
    return re.sub(r"[A-Za-z]", lambda letter: f"[{letter[0].lower()}{letter[0].upper()}]", match[5])


def find(path: str, text: str, *, called: Mapping[str, str] | None = None) -> tuple[Holder, ...]:
    """The rules that bind functions to vfio-pci, or keep them from their own driver."""
    return tuple(
        Holder(path, rule.line, rule.raw, "sets a driver_override", rule.takes)
        for rule in rules(text, called)
        if rule.binds
    )


def clean(text: str, target: Target, *, called: Mapping[str, str] | None = None) -> str:
    """The same text without what binds the target. Of a rule that lists addresses only those of the target go."""
    return "".join(_cleaned(rule, target) for rule in rules(text, called))


def _cleaned(rule: Rule, target: Target) -> str:
    if not rule.binds or not any(rule.takes(function) for function in target.functions):
        return rule.raw
    commented = "".join(MARK + line for line in re.findall(r"[^\n]*\n|[^\n]+", rule.raw))
    # Another rule may jump to a label.
    labels = "".join(f'LABEL="{value}"\n' for key, _, _, value in rule.tokens if key == "LABEL")
    commented += ("\n" if labels and not commented.endswith("\n") else "") + labels
    ours = {str(function.bdf) for function in target.functions}

    def others(match: re.Match[str]) -> str:
        if match[1] not in ("KERNEL", "KERNELS") or match[3] != "==" or "|" not in match[5]:
            return match[0]
        kept = [one for one in match[5].split("|") if not any(fnmatchcase(bdf, one) for bdf in ours)]
        return match[0].replace(match[5], "|".join(kept)) if kept else match[0]

    rest = _TOKEN.sub(others, rule.raw)
    if rest == rule.raw or any(
        replace(_rule(rule.line, rest), script=rule.script).takes(function) for function in target.functions
    ):
        return commented
    return commented + ("" if commented.endswith("\n") else "\n") + rest
