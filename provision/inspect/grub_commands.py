"""Commands in GRUB's settings, of which only a shell on the machine knows what they give. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from checks.snapshot import Snapshot

_SUBSTITUTION = re.compile(r"\$\([^)]*\)?|`[^`]*`?")


def not_followed(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Commands in the settings that GRUB's command line is made of: path:line, and the command."""
    for path in snapshot.paths("file"):
        section = snapshot.sections["file", path]
        if section.data is None or not (
            path == "/etc/default/grub" or path.startswith("/etc/default/grub.d/")
        ):
            continue
        for number, line in enumerate(section.data.decode(errors="replace").splitlines(), 1):
            if line.lstrip().startswith("#") or "GRUB_CMDLINE_LINUX" not in line:
                continue
            for command in _SUBSTITUTION.findall(line):
                yield f"{path}:{number}", command
