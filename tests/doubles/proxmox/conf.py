"""A guest's configuration file as Proxmox VE reads and writes it, for the doubles: sorted keys, raw lines, then the
sections; a comment becomes the description and goes to the top (host facts 3.1, PVE::LXC::Config)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

PENDING = "pve:pending"
RAW = re.compile(r"^(lxc\.[a-z0-9_\-.]+)(?::|\s*=)\s*(.*?)\s*$")
KEY = re.compile(r"^([a-z][a-z_]*\d*):\s*(.+?)\s*$")


@dataclass
class Section:
    keys: dict[str, str] = field(default_factory=dict)
    raw: list[tuple[str, str]] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)

    def text(self) -> str:
        lines = [f"#{line}" for line in self.comments]
        lines += [f"{key}: {value}" for key, value in sorted(self.keys.items())]
        lines += [f"{key}: {value}" for key, value in self.raw]
        return "".join(f"{line}\n" for line in lines)


@dataclass
class Conf:
    current: Section = field(default_factory=Section)
    pending: Section = field(default_factory=Section)
    snapshots: dict[str, Section] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str) -> Conf:
        found = cls()
        section = found.current
        for line in text.split("\n"):
            if not line.strip():
                continue
            if re.match(r"^\[pve:pending\]\s*$", line, re.I):
                section = found.pending = Section()
            elif head := re.match(r"^\[([a-z][a-z0-9_\-]+)\]\s*$", line, re.I):
                section = found.snapshots[head[1]] = Section()
            elif line.startswith("#"):
                section.comments.append(line[1:])
            elif raw := RAW.match(line):
                section.raw.append((raw[1], raw[2]))
            elif key := KEY.match(line):
                section.keys[key[1]] = key[2]
        return found

    def text(self) -> str:
        text = self.current.text()
        if self.pending.keys:
            text += f"\n[{PENDING}]\n" + self.pending.text()
        for name, section in sorted(self.snapshots.items()):
            text += f"\n[{name}]\n" + section.text()
        return text

    def delete_later(self, key: str) -> None:
        names = [name for name in self.pending.keys.get("delete", "").split(",") if name]
        self.pending.keys["delete"] = ",".join(sorted({*names, key}))

    def apply_pending(self) -> None:
        for key in self.pending.keys.pop("delete", "").split(","):
            self.current.keys.pop(key, None)
        self.current.keys |= self.pending.keys
        self.pending = Section()


def load(path: Path) -> Conf:
    return Conf.read(path.read_text())


def store(path: Path, conf: Conf) -> None:
    partial = path.with_name(f"{path.name}.tmp.double")
    partial.write_text(conf.text())
    partial.replace(path)


def printed(parts: dict[str, str]) -> str:
    """A mount point as Proxmox writes it when it applies one: the volume without its name, then ``mp``, then the rest
    by name (PVE::JSONSchema::print_property_string)."""
    rest = [f"{key}={parts[key]}" for key in sorted(parts) if key not in ("volume", "mp")]
    return ",".join([parts["volume"], f"mp={parts['mp']}", *rest])


def properties(value: str, default: str) -> dict[str, str]:
    """A property string; the part without ``=`` is the default key's."""
    found: dict[str, str] = {}
    for part in value.split(","):
        if part.strip():
            key, _, text = part.partition("=") if "=" in part else (default, "", part)
            found[key] = text
    return found
