"""A cut-over that is at work in a guest, or was cut off there: what is said of it, and what came of it. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from checks.snapshot import Snapshot
from provision.plan import Item
from provision.stack import trials
from provision.stack.trials import NoVerdict, Trial


@dataclass(frozen=True)
class UnderWay:
    """``at_work``: its unit runs; else it was cut off, and not mended yet. ``phase``: empty where it is in none, at its
    begin and its end. ``ending``: it is being stopped, and mends what it left. ``since``: as systemd has it."""

    name: str
    at_work: bool
    phase: str
    since: str = ""
    mode: str = ""
    run: str = ""
    digest: str = ""
    ending: bool = False

    def as_dict(self) -> dict[str, Any]:
        return {
            "unit": self.unit,
            "at_work": self.at_work,
            "phase": self.phase or None,
            "since": self.since or None,
            "mode": self.mode or None,
            "run": self.run or None,
        }

    @property
    def unit(self) -> str:
        return f"kpro-cutover-{self.name}.service"

    @property
    def text(self) -> str:
        """One sentence for an operator, with what not to do."""
        service = f"kpro-{self.name}.service"
        by = f", run {self.run}" if self.run else ""
        if not self.at_work:
            return (
                f"a cut-over of {service} was cut off in phase {self.phase}{by}: the next apply puts the last good "
                "profile back first"
            )
        beside = self.mode == "beside" and self.phase in ("open", "trial", "gate", "drain")
        meanwhile = "serves meanwhile" if beside else "may be down meanwhile"
        return (
            f"{self.unit} is at work: {self._where}"
            + (f", {self.mode}" if self.mode else "")
            + (f", since {self.since}" if self.since else "")
            + f"{by}. {service} {meanwhile}: do not start or stop it by hand; apply waits for the end and says what "
            "came of it"
        )

    @property
    def _where(self) -> str:
        if self.ending:
            return "it ends, and what it left half-way is put back"
        return f"phase {self.phase}" if self.phase else "it has just begun, or is just over"

    def later(self, item: Item) -> Item:
        """A change of its service as it is shown meanwhile: what it will come to nobody can tell yet."""
        return replace(item, text=f"once {self.unit} has ended{_IF}{item.text}")


def waits(item: Item) -> bool:
    """Is it one that ``later`` made?"""
    return _IF in item.text


_IF = ", if it is then still due: "


def request(name: str) -> str:
    """What a snapshot has to look at. One line each: state, since, phase and digest, what it was told."""
    return (
        f"cmd:{_command(name)}:systemctl show -p ActiveState -p ActiveEnterTimestamp kpro-cutover-{name}.service; "
        f"sed 's/^/phase=/' /var/lib/kpro/cutover/{name}/phase 2>/dev/null; "
        f"sed 's/^/told=/' /run/kpro-cutover/{name}/told.json 2>/dev/null; :"
    )


def _command(name: str) -> str:
    return f"units-cutover-{name}"


def read(name: str, inside: Snapshot | None) -> UnderWay | None:
    """None: there is none, or nobody looked (a tree that was recorded before this was asked). Raises CouldNotLook."""
    if inside is None or ("cmd", _command(name)) not in inside.sections:
        return None
    _, output = inside.command(_command(name))
    pairs = dict(line.partition("=")[::2] for line in output.splitlines())
    at_work = pairs.get("ActiveState") in ("active", "activating", "deactivating")
    phase, _, digest = pairs.get("phase", "").partition(" ")
    if not at_work and not phase:
        return None
    if not at_work:
        # What lies in /run may be of a later one.
        return UnderWay(name, False, phase, digest=digest)
    told = _told(pairs.get("told", ""))
    return UnderWay(
        name,
        True,
        phase,
        pairs.get("ActiveEnterTimestamp", ""),
        told.get("mode", ""),
        told.get("run", ""),
        told.get("digest", digest),
        pairs.get("ActiveState") == "deactivating",
    )


def _told(text: str) -> dict[str, str]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(data, dict):
        return {}
    return {name: value for name, value in data.items() if isinstance(value, str)}


def began(name: str, run: str) -> str:
    return f"the cut-over of kpro-{name}.service that run {run or '(unknown)'} began"


def verdict(name: str, run: str, digest: str, after: Snapshot | None) -> tuple[str, Trial] | None:
    """What the guest remembers of a cut-over that has ended, and of what it was one. ``digest``: empty where it is not
    known which profile was tried. Raises CouldNotLook."""
    for path, what in (
        (trials.path(name), "the candidate"),
        (trials.service_path(name), "the changed profile"),
        (trials.back_path(name), "the profile that served before"),
    ):
        found = _record(path, after)
        if found is not None and found.run == run and digest in ("", found.digest):
            return what, found
    return None


def came_of(name: str, what: str, found: Trial) -> str:
    """The same, in words."""
    down = f", down for {found.downtime_s:.1f} s" if found.downtime_s is not None else ""
    why = found.why.strip().splitlines()
    cause = f": {why[0]}" if why and not found.accepted else ""
    return f"{began(name, found.run)} has ended: {what} was {found.verdict} ({found.mode}{down}){cause}"


def _record(path: str, inside: Snapshot | None) -> Trial | None:
    if inside is None:
        return None
    try:
        return trials.read(inside.text(path))
    except NoVerdict:
        return None
