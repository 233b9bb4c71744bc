"""What a guest holds of one service: what runs, what was seen well, the verdicts and readings that are kept. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field

from checks.snapshot import CouldNotLook, Snapshot
from provision.stack import baselines, trials
from provision.stack.baselines import NoReading, Reading
from provision.stack.desired import DesiredService, sha256
from provision.stack.trials import NoVerdict, Trial


@dataclass(frozen=True)
class Held:
    """``good``: digest of the profile that was last seen well; ``running``: of the one whose process runs; both empty
    where there is none. ``verdict``: of the last trial; ``accepted``: of the last one that was accepted.
    ``unread``: what is there and cannot be read, in words."""

    good: str = ""
    running: str = ""
    up: bool = False
    verdict: Trial | None = None
    accepted: Trial | None = None
    last: Trial | None = None
    readings: Mapping[str, Reading] = field(default_factory=dict)
    unread: tuple[str, ...] = ()

    @property
    def serving(self) -> str:
        """The digest of what serves and was seen well; empty where there is none."""
        return self.running if self.up and self.running == self.good else ""

    def allows(self, digest: str) -> bool:
        """Was exactly this profile tried and accepted?"""
        known = [one for one in (self.verdict, self.accepted) if one is not None and one.digest == digest]
        # The last one counts: what was accepted once may have been refused, or taken back, since.
        return bool(known) and known[0].accepted


def requests(desired: DesiredService) -> list[str]:
    """What the snapshot of a guest has to look at, beside unit and digests."""
    name = desired.name
    folder = f"{baselines.FOLDER}/{name}"
    return [
        *(f"file:{path}" for path in _records(name)),
        f"sha:{baselines.path(name, baselines.STATED)}",
        f"cmd:baselines-{name}:cd {folder} 2>/dev/null || {{ [ ! -e {folder} ] && exit 0; exit 1; }}; "
        'for f in *.json; do [ -e "$f" ] || continue; printf "%s " "${f%.json}"; '
        'head -c 262144 -- "$f" | base64 -w 0; echo; done',
    ]


def started_request(desired: DesiredService) -> str:
    """Was the unit started before this profile's engine environment was made?"""
    return (
        f"cmd:{_started(desired)}:"
        f't=$(systemctl show -p ExecMainStartTimestamp --value {desired.service.unit}) && [ -n "$t" ] && '
        f'[ "$(date -d "$t" +%s)" -lt "$(stat -c %Y {desired.engine.marker})" ] && echo older || :'
    )


def _started(desired: DesiredService) -> str:
    return f"started-{desired.name}" + (f"-{desired.staging}" if desired.staging else "")


def _records(name: str) -> tuple[str, str, str]:
    return trials.path(name), trials.accepted_path(name), trials.service_path(name)


def held(desired: DesiredService, inside: Snapshot) -> Held:
    """Reads it. Raises CouldNotLook for what could not be looked at; what is there and makes no sense is ``unread``."""
    _, state = inside.command(f"unit-{desired.name}")
    _, running = inside.command(f"running-{desired.name}")
    unread: list[str] = []
    found = [_trial(path, inside, unread) for path in _records(desired.name)]
    return Held(
        good=(inside.text(desired.good_path) or "").strip(),
        running=running.strip(),
        up="ActiveState=active" in state.split(),
        verdict=found[0],
        accepted=found[1] if found[1] and found[1].accepted else None,
        last=found[2],
        readings=readings(desired.name, inside, unread),
        unread=tuple(unread),
    )


def _trial(path: str, inside: Snapshot, unread: list[str]) -> Trial | None:
    try:
        return trials.read(inside.text(path))
    except NoVerdict as error:
        unread.append(f"{path} holds no verdict ({error})")
        return None


def readings(name: str, inside: Snapshot, unread: list[str]) -> dict[str, Reading]:
    """The kept readings by their key. Raises CouldNotLook."""
    code, output = inside.command(f"baselines-{name}")
    if code != 0:
        raise CouldNotLook(f"{baselines.FOLDER}/{name} cannot be read: {output.strip()[:200]}")
    found: dict[str, Reading] = {}
    for line in output.splitlines():
        key, _, text = line.rpartition(" ")
        if not key or key == baselines.STATED:
            continue
        try:
            reading = baselines.read(key, base64.b64decode(text, validate=True).decode(errors="replace"))
        except (NoReading, binascii.Error) as error:
            unread.append(f"{baselines.path(name, key)} holds no reading ({error})")
            continue
        if reading is not None:
            found[key] = reading
    return found


def in_service(desired: DesiredService, inside: Snapshot, seen: Held) -> bool:
    """The unit runs the profile that is wanted, starts at boot, and was seen well with it. Raises CouldNotLook."""
    _, state = inside.command(f"unit-{desired.name}")
    live = (inside.digest(desired.unit_path), inside.digest(desired.environment_path))
    _, started = inside.command(_started(desired))
    return (
        live == (sha256(desired.unit), sha256(desired.environment))
        and "UnitFileState=enabled" in state.split()
        # Since then its engine environment was made, or verified, anew.
        and started.strip() != "older"
        and seen.serving == desired.digest
    )
