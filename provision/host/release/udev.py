"""udev rules that write a driver_override, or run something that does (udev(7)).

A rule is one line, joined with the next by a backslash at its end; a line that begins with ``#`` is a comment, also
between joined ones (systemd, udev-rules.c ``udev_rules_parse_file``). Keys with ``==`` and ``!=`` match, the others
assign; patterns are globs with ``|`` between alternatives. A match key that is not known here is taken as met.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from provision.host.release.target import MARK, Holder, Target, modalias_takes
from provision.host.view import PciFunction

_BINDS = re.compile(r"vfio|pci-stub|driver_override|nodedev-detach|driverctl")
_FILES = re.compile(r"driver_override|vfio|pci-stub|driver/unbind")
_TOKEN = re.compile(r'([A-Z_]+)\s*(?:\{([^}]*)\})?\s*(==|!=|\+=|-=|:=|=)\s*[ei]?"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Rule:
    """One rule: the line it begins at, its raw text, its tokens (key, attribute, operator, value)."""

    line: int
    raw: str
    tokens: tuple[tuple[str, str, str, str], ...]

    @property
    def binds(self) -> bool:
        return any(
            _writes(attribute, value) if key in ("ATTR", "SYSCTL") else _BINDS.search(value)
            for key, attribute, operator, value in self.tokens
            # A program is run to compare what it says, too.
            if key in ("PROGRAM", "IMPORT")
            or (operator not in ("==", "!=") and key in ("ATTR", "SYSCTL", "RUN"))
        )

    def takes(self, function: PciFunction) -> bool:
        """Does the rule apply to this function, as far as its keys tell?"""
        return all(
            _matches(value, said) == (operator == "==")
            for key, attribute, operator, value in self.tokens
            if operator in ("==", "!=") and (said := _of(function, key, attribute, value)) is not None
        )


def _writes(attribute: str, value: str) -> bool:
    """Does an assignment to an attribute take functions? ``driver_override``, or a driver's files, as in
    ``ATTR{[drivers/vfio-pci]new_id}``. What names another driver, or clears the override, takes none."""
    if "vfio" in value or "pci-stub" in value:
        return _FILES.search(attribute) is not None
    return (
        "vfio" in attribute
        or "pci-stub" in attribute
        or ("driver_override" in attribute and re.search(r"[$%]", value) is not None)
    )


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
        return {"PCI_SLOT_NAME": bdf, "PCI_ID": ids}.get(attribute)
    return {"KERNEL": bdf, "KERNELS": bdf, "SUBSYSTEM": "pci", "SUBSYSTEMS": "pci"}.get(key)


def _matches(pattern: str, text: str) -> bool:
    return any(fnmatchcase(text, one) for one in pattern.split("|"))


def rules(text: str) -> Iterator[Rule]:
    """All rules and all else, in order: a comment or an empty line is a rule without tokens."""
    raw, number = "", 1
    for at, line in enumerate(re.findall(r"[^\n]*\n|[^\n]+", text), 1):
        raw += line
        comment = line.lstrip().startswith("#")
        if re.search(r"\\\r?\n$", line) and not comment:
            continue
        # A comment does not end a rule that goes on after it.
        if comment and raw != line:
            continue
        yield _rule(number, raw)
        raw, number = "", at + 1
    if raw:
        yield _rule(number, raw)


def _rule(number: int, raw: str) -> Rule:
    lines = [line for line in raw.split("\n") if not line.lstrip().startswith("#")]
    joined = "".join(line.rstrip("\r").removesuffix("\\") for line in lines)
    return Rule(number, raw, tuple((m[1], m[2] or "", m[3], m[4]) for m in _TOKEN.finditer(joined)))


def find(path: str, text: str) -> tuple[Holder, ...]:
    """The rules that bind functions to vfio-pci."""
    return tuple(
        Holder(path, rule.line, rule.raw, "sets a driver_override", rule.takes)
        for rule in rules(text)
        if rule.binds
    )


def clean(text: str, target: Target) -> str:
    """The same text without what binds the target. Of a rule that lists addresses only those of the target go."""
    return "".join(_cleaned(rule, target) for rule in rules(text))


def _cleaned(rule: Rule, target: Target) -> str:
    if not rule.binds or not any(rule.takes(function) for function in target.functions):
        return rule.raw
    commented = "".join(MARK + line for line in re.findall(r"[^\n]*\n|[^\n]+", rule.raw))
    # Another rule may jump to a label.
    labels = "".join(f'LABEL="{value}"\n' for key, _, _, value in rule.tokens if key == "LABEL")
    commented += ("\n" if labels and not commented.endswith("\n") else "") + labels
    ours = {str(function.bdf) for function in target.functions}

    def others(match: re.Match[str]) -> str:
        if match[1] not in ("KERNEL", "KERNELS") or match[3] != "==" or "|" not in match[4]:
            return match[0]
        kept = [one for one in match[4].split("|") if not any(fnmatchcase(bdf, one) for bdf in ours)]
        return match[0].replace(match[4], "|".join(kept)) if kept else match[0]

    rest = _TOKEN.sub(others, rule.raw)
    if rest == rule.raw or any(_rule(rule.line, rest).takes(function) for function in target.functions):
        return commented
    return commented + ("" if commented.endswith("\n") else "\n") + rest
