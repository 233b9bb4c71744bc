"""What is wrong with a container's configuration file: what Proxmox does not take, or takes though it is wrong.

A plain key's limits are not checked when a file is read (``cores: 0`` passes), the last of two equal keys wins without
a word, and what was appended to a file with snapshots belongs to the last snapshot. Source of each rule: the parser
itself (grammar.py) and what the container start does with the values. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from provision.guest.proxmox.grammar import (
    PENDING,
    Conf,
    Line,
    is_true,
    limit_problem,
    properties,
)
from provision.guest.proxmox.lines import plain_path
from provision.guest.proxmox.schema import DEVICE, MOUNT, field_of

Level = Literal["refused", "wrong", "report"]
"""``refused`` by Proxmox's own parser; ``wrong`` though Proxmox takes it: nothing is done to such a file either;
``report``: said, and left."""

DYNAMIC = (range(234, 255), range(384, 512))
"""Majors that the kernel hands out as modules come (Documentation/admin-guide/devices.txt: 234-254, 384-511)."""


@dataclass(frozen=True)
class Finding:
    """``line`` is its number in the file; ``section`` "" is the current configuration."""

    level: Level
    line: int
    section: str
    seen: str
    why: str
    next_step: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.seen}; {self.why}. Next: {self.next_step}"


Rule = Callable[[Conf, Mapping[str, int]], Iterator[Finding]]


def findings(conf: Conf, majors: Mapping[str, int] | None = None) -> tuple[Finding, ...]:
    """All that is to be said of a file, by line. ``majors`` are the character devices' of the machine, by name."""
    found = [finding for rule in _RULES for finding in rule(conf, majors or {})]
    return tuple(sorted(found, key=lambda finding: finding.line))


def stops(found: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Those for which a file is not touched. What is wrong inside a snapshot harms nobody before it is rolled back to;
    lines that somebody appended there by mistake do."""
    return tuple(
        finding
        for finding in found
        if finding.level != "report" and (finding.section in ("", PENDING) or finding.why == _APPENDED)
    )


_APPENDED = "it belongs to the snapshot, and the current configuration does not have it"


def _unread(conf: Conf, majors: Mapping[str, int]) -> Iterator[Finding]:
    for line in conf.lines:
        if line.problem is not None:
            goes_on = "with the value as it stands" if line.kind == "option" else "without it"
            yield Finding(
                "refused",
                line.number,
                line.section,
                line.problem,
                f"Proxmox refuses the line with a warning that nobody reads, and goes on {goes_on}",
                f"correct or remove the line: {line.text.strip()}",
            )


def _limits(conf: Conf, majors: Mapping[str, int]) -> Iterator[Finding]:
    for line in conf.lines:
        field = field_of(line.key) if line.kind == "option" and line.problem is None else None
        if field is None or field.type == "boolean" or field.parts is not None:
            continue
        wrong = limit_problem(field, line.value)
        if wrong is None and field.pattern and not re.fullmatch(field.pattern, line.value, re.ASCII):
            wrong = "value does not match the regex pattern"
        if wrong is not None:
            yield Finding(
                "wrong",
                line.number,
                line.section,
                f"{line.key}: {wrong} (it is {line.value})",
                "Proxmox does not check this when it reads the file, and the container does not start or run as meant",
                f"pct set <vmid> -{line.key} with a value that is allowed",
            )


def _twice(conf: Conf, majors: Mapping[str, int]) -> Iterator[Finding]:
    last: dict[tuple[str, str], Line] = {}
    for line in conf.lines:
        if line.kind not in ("option", "delete", "state"):
            continue
        before = last.get((line.section, line.key))
        last[line.section, line.key] = line
        if before is not None:
            yield Finding(
                "wrong",
                line.number,
                line.section,
                f"{line.key} stands there twice, in line {before.number} ({before.value}) and here ({line.value})",
                "the last one wins without a word",
                f"leave one line of {line.key}",
            )
    for name in {name for name in conf.sections if conf.sections.count(name) > 1}:
        at = [line.number for line in conf.lines if line.kind == "section" and line.key == name]
        yield Finding(
            "wrong",
            at[-1],
            name,
            f"section [{name}] begins in lines {', '.join(map(str, at))}",
            "only the last one counts, what stands in the others is lost at the next write",
            "make one section of them",
        )


def _places(conf: Conf, majors: Mapping[str, int]) -> Iterator[Finding]:
    """Devices and mount points of one section: each path once, absolute, and there at all; owners that there are."""
    nodes: dict[tuple[str, str], str] = {}
    targets: dict[tuple[str, str], str] = {}
    for line in conf.of_kind("option"):
        kind = line.key.rstrip("0123456789")
        if line.problem is not None or kind not in ("dev", "mp"):
            continue
        parts, _ = properties(line.value, DEVICE if kind == "dev" else MOUNT)
        seen = why = None
        blank = next(
            (parts[name] for name in ("path", "volume", "mp") if _has_blank(parts.get(name, ""))), None
        )
        if blank is not None:
            seen, why = f"names {blank!r}", "the blank belongs to the path: there is hardly such a one"
        elif kind == "dev":
            path = parts.get("path")
            other = nodes.setdefault((line.section, plain_path(path or line.key)), line.key)
            nobody = _nobody(conf, line, parts)
            if path is None:
                seen, why = "names no path", "the container does not start with it"
            elif path.endswith("/"):
                seen, why = f"names {path}, a folder", "the container does not start with it"
            elif nobody:
                seen, why = nobody
            elif other != line.key:
                seen, why = f"names {path} again, as {other} does", "which mode and owner it gets is chance"
        else:
            source, target = parts["volume"], parts["mp"]
            other = targets.setdefault((line.section, plain_path(target)), line.key)
            if not target.startswith("/") or not target.strip("/"):
                seen, why = f"mounts at {target!r}", "a mount point is an absolute path below /"
            elif not source.startswith("/") and not re.match("[A-Za-z][A-Za-z0-9_.-]*:.", source):
                seen, why = f"mounts {source!r}", "it is neither STORAGE:VOLUME nor an absolute path"
            elif other != line.key:
                seen, why = f"mounts at {target} again, as {other} does", "one hides the other"
        if seen and why:
            text = f"{line.key} {seen}"
            yield Finding(
                "wrong", line.number, line.section, text, why, f"correct or remove {line.key}: {line.value}"
            )


def _has_blank(text: str) -> bool:
    return text != text.strip()


def _nobody(conf: Conf, line: Line, parts: Mapping[str, str]) -> tuple[str, str] | None:
    """An owner of a node that the container does not have: an id that its map does not hold is left as it is, and is
    one of the machine's (PVE::LXC, map_ct_id_to_host). A container with a map of its own is taken at its word."""
    if any(raw.key == "lxc.idmap" for raw in conf.of("raw", line.section)):
        return None
    own = conf.value("unprivileged", "" if line.section == PENDING else line.section)
    last = 65535 if own is not None and is_true(own) else 2**32 - 2
    for name in ("uid", "gid"):
        if int(parts.get(name, "0")) > last:
            return f"gives the node to {name} {parts[name]}", f"the container has the ids 0 to {last}"
    return None


def _trap(conf: Conf, majors: Mapping[str, int]) -> Iterator[Finding]:
    """Proxmox writes a section's keys sorted and its raw lines after them: a key that comes later was appended by hand.
    A raw line at a section's end may always have been there; that the current configuration lacks it is said."""
    has = {(line.key, line.value) for line in conf.of("raw")}
    for name in dict.fromkeys(conf.sections):
        if name == PENDING:
            continue
        keys: list[str] = []
        raw = False
        for line in conf.lines:
            if line.section != name or line.kind not in ("option", "raw"):
                continue
            if line.kind == "raw":
                raw = True
                if (line.key, line.value) not in has:
                    yield Finding(
                        "report",
                        line.number,
                        name,
                        f"{line.key} stands in snapshot [{name}] and not in the current configuration",
                        "what is appended to a file with snapshots lands in the last of them",
                        f"when it was meant for now, move it above the first section: {line.text.strip()}",
                    )
            elif raw or (keys and line.key < keys[-1]):
                yield Finding(
                    "wrong",
                    line.number,
                    name,
                    f"{line.key} was appended to snapshot [{name}]",
                    _APPENDED,
                    f"remove the line from there; for now: pct set <vmid> -{line.key} '{line.value}'",
                )
            else:
                keys.append(line.key)


def _old(conf: Conf, majors: Mapping[str, int]) -> Iterator[Finding]:
    """Raw lines that work today and not for ever."""
    named = {number: name for name, number in majors.items()}
    for line in conf.of_kind("raw"):
        if line.problem is None and line.key.startswith("lxc.cgroup."):
            yield Finding(
                "report",
                line.number,
                line.section,
                f"{line.key} is deprecated, this will be a hard error in the future",
                "hosts of today have cgroup2 only, where it does nothing",
                f"migrate to {line.key.replace('lxc.cgroup.', 'lxc.cgroup2.', 1)}",
            )
        rule = re.fullmatch(r"[cb]\s+([0-9]+):\S+\s+\S+", line.value)
        if line.key.endswith(".devices.allow") and rule and any(int(rule[1]) in span for span in DYNAMIC):
            now = majors.get("nvidia-uvm")
            seen = f"major {rule[1]} is hard-coded"
            if int(rule[1]) in named:
                seen += f" (now: {named[int(rule[1])]})"
            elif now is not None:
                seen += f" and belongs to nobody now: nvidia-uvm has {now}"
            yield Finding(
                "report",
                line.number,
                line.section,
                seen,
                "the kernel hands such numbers out anew at each boot, so it goes stale",
                "migrate to devN, which reads the number at each start, and remove the raw lines",
            )


def _notes(conf: Conf, majors: Mapping[str, int]) -> Iterator[Finding]:
    begun: set[str] = set()
    for line in conf.lines:
        if line.kind in ("option", "raw"):
            begun.add(line.section)
        elif line.kind == "comment" and line.section in begun:
            yield Finding(
                "report",
                line.number,
                line.section,
                f"a comment stands between the lines: #{line.value}",
                "it is the description, and moves to the top at Proxmox's next write",
                "nothing",
            )
    for line in conf.of("raw"):
        if (
            line.key.startswith("lxc.hook.")
            and "hooks/nvidia" in line.value
            and not conf.is_true("unprivileged")
        ):
            yield Finding(
                "report",
                line.number,
                "",
                "LXC's nvidia hook in a container that does not say unprivileged: 1",
                "the hook works in unprivileged containers only",
                "pass the nodes in with devN",
            )


_RULES: tuple[Rule, ...] = (_unread, _limits, _twice, _places, _trap, _old, _notes)
