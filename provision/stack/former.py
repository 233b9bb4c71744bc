"""Services that kpro set up in a guest and that the inventory no longer has: renamed, or taken out. Pure.

They go on, start at every boot, and may hold the port of what replaces them. kpro removes nothing that is not written
down; it says what is there, and how it goes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from checks.snapshot import CouldNotLook, Snapshot

MARK = "# Written by kpro. A change by hand is replaced by the next run."
"""The first line of a service's unit."""

DESCRIPTION = "Description=kpro service "
"""Tells a service from kpro's other units."""

NAME = "former-units"
LOOK = (
    "for f in /etc/systemd/system/kpro-*.service; do "
    f'grep -qs "^{DESCRIPTION}" "$f" && [ "$(head -n 1 "$f")" = "{MARK}" ] || continue; '
    'u=${f##*/}; echo "$u $(systemctl is-active "$u") $(systemctl is-enabled "$u") '
    '$(sed -n \'s/^ExecStart=.* --port[ =]\\([0-9][0-9]*\\).*/\\1/p\' "$f")"; done'
)
REQUEST = f"cmd:{NAME}:{LOOK}"


@dataclass(frozen=True)
class Former:
    """``port``: None where the unit does not say it."""

    unit: str
    active: bool
    enabled: bool
    port: int | None

    @property
    def removal(self) -> str:
        """The command, in the guest."""
        name = self.unit.removeprefix("kpro-").removesuffix(".service")
        return (
            f"systemctl disable --now {self.unit} && rm -f /etc/systemd/system/{self.unit} /etc/kpro/{name}.env "
            f"/etc/kpro/{name}.key && systemctl daemon-reload"
        )


def units(inside: Snapshot | None) -> list[Former]:
    """Every service's unit of kpro's. Where it was not looked at (a record of a guest) there is none: only what is said
    hangs on it."""
    if inside is None:
        return []
    try:
        _, output = inside.command(NAME)
    except CouldNotLook:
        return []
    found = []
    for line in output.splitlines():
        words = line.split()
        if len(words) >= 3 and words[0].startswith("kpro-") and words[0].endswith(".service"):
            port = int(words[3]) if len(words) > 3 and words[3].isdecimal() else None
            found.append(Former(words[0], words[1] in ("active", "activating"), words[2] == "enabled", port))
    return found


def notes(inside: Snapshot | None, owned: Collection[str]) -> list[str]:
    """``owned``: the units of the inventory's services."""
    return [
        f"{one.unit} is kpro's, and no service of the inventory owns it (renamed, or taken out): it "
        f"{'runs' if one.active else 'does not run'}{' and starts at boot' if one.enabled else ''}"
        f"{f', on port {one.port}' if one.port else ''}. kpro removes nothing by itself; in the guest: {one.removal}"
        for one in units(inside)
        if one.unit not in owned
    ]


def on_port(inside: Snapshot | None, port: int, but: str) -> Former | None:
    """A running one that listens where the unit ``but`` is to listen."""
    found = (one for one in units(inside) if one.active and one.port == port and one.unit != but)
    return next(found, None)
