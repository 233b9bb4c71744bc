"""What a guest holds of one service: what runs, what was seen well, the verdicts and readings that are kept. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from checks.snapshot import CouldNotLook, Snapshot
from provision.stack import baselines, trials
from provision.stack.baselines import NoReading, Reading
from provision.stack.desired import DesiredService, sha256
from provision.stack.trials import NoVerdict, Trial


@dataclass(frozen=True)
class Held:
    """``good``: digest of the profile that was last seen well; ``running``: of the one whose process runs; ``live``: of
    the unit file in place; ``kept``: of the one that a cut-over keeps to go back to; empty where there is none.
    ``open``: a cut-over was begun and did not end. ``verdict``: of the last trial; ``accepted``: of the last one that
    was accepted. ``last``: on the service's own profile, ``before``: of the accepted one before that, ``back``: of the
    last way back (``provision rollback --service``). ``torn``: verdicts on candidates are there and cannot be read.
    ``unread``: what is there and cannot be read, in words."""

    good: str = ""
    running: str = ""
    up: bool = False
    verdict: Trial | None = None
    accepted: Trial | None = None
    last: Trial | None = None
    before: Trial | None = None
    back: Trial | None = None
    readings: Mapping[str, Reading] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    live: str = ""
    kept: str = ""
    open: bool = False
    torn: bool = False

    @property
    def stands(self) -> str:
        """The digest of what stays in service, or is started again, until something else has been proven against it:
        what was last seen well, or runs and was accepted; empty where there is none."""
        return self.running if self.up and self.allows(self.running) else self.good

    @property
    def stands_up(self) -> bool:
        """Does it run?"""
        return bool(self.stands) and self.up and self.running == self.stands

    @property
    def can_stand(self) -> bool:
        """It runs, or its files are in place, or the next cut-over begins by putting them there."""
        files = (self.live, self.kept if self.open else "")
        return self.stands_up or (bool(self.stands) and self.stands in files)

    @property
    def serving(self) -> str:
        """The digest of what serves and was seen well; empty where there is none."""
        return self.running if self.up and self.running == self.good else ""

    def allows(self, digest: str) -> bool:
        """Was exactly this profile tried and accepted?"""
        known = self.record(digest)
        return known is not None and known.accepted

    @property
    def verdicts(self) -> tuple[Trial, ...]:
        """All that is remembered, whatever it was a trial of."""
        known = (self.verdict, self.accepted, self.last, self.before, self.back)
        return tuple(one for one in known if one is not None)

    def record(self, digest: str) -> Trial | None:
        """The last verdict on this profile as a candidate: what was accepted once may have been refused, or taken back,
        since."""
        known = [one for one in (self.verdict, self.accepted) if one is not None and one.digest == digest]
        return known[0] if known else None


def requests(desired: DesiredService) -> list[str]:
    """What the snapshot of a guest has to look at, beside unit and digests."""
    name = desired.name
    folder = f"{baselines.FOLDER}/{name}"
    return [
        *(f"file:{path}" for path in _records(name)),
        f"cmd:in-place-{name}:for f in {desired.unit_path} /var/lib/kpro/last-good/{name}/unit; do "
        'd=$(sed -n "s/^Environment=KPRO_DIGEST=//p;T;q" "$f" 2>/dev/null); printf "%s\n" "${d:--}"; done; '
        f"[ ! -e /var/lib/kpro/cutover/{name}/phase ] || echo open",
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


def _records(name: str) -> tuple[str, ...]:
    own = (trials.service_path(name), trials.service_accepted_path(name), trials.back_path(name))
    return trials.path(name), trials.accepted_path(name), *own


def held(desired: DesiredService, inside: Snapshot) -> Held:
    """Reads it. Raises CouldNotLook for what could not be looked at; what is there and makes no sense is ``unread``."""
    _, state = inside.command(f"unit-{desired.name}")
    _, running = inside.command(f"running-{desired.name}")
    _, files = inside.command(f"in-place-{desired.name}")
    live, kept = [word if _DIGEST.fullmatch(word) else "" for word in [*files.split(), "", ""]][:2]
    is_open = files.split()[2:] == ["open"]
    unread: list[str] = []
    found = [_trial(path, inside, unread) for path in _records(desired.name)[:2]]
    torn = bool(unread)
    found += [_trial(path, inside, unread) for path in _records(desired.name)[2:]]
    up = "ActiveState=active" in state.split()
    # Something was seen well here, and what it was cannot be read: nothing that is in place is replaced for that.
    now = (kept if is_open else "") or (running.strip() if up else "") or live
    return Held(
        good=_good(desired, inside, now, unread),
        running=running.strip(),
        up=up,
        live=live,
        kept=kept,
        open=is_open,
        torn=torn,
        verdict=found[0],
        accepted=found[1] if found[1] and found[1].accepted else None,
        last=found[2],
        before=found[3],
        back=found[4],
        readings=readings(desired.name, inside, unread),
        unread=tuple(unread),
    )


_DIGEST = re.compile("[0-9a-f]{64}")


def _good(desired: DesiredService, inside: Snapshot, now: str, unread: list[str]) -> str:
    """``now``: what is taken for the last good profile where the file cannot be read."""
    text = inside.text(desired.good_path)
    if text is None or _DIGEST.fullmatch(text.strip()):
        return (text or "").strip()
    mend = f"echo {now} >{desired.good_path}" if now else f"rm {desired.good_path}"
    unread.append(
        f"{desired.good_path} names no profile; what is in place ({now[:12] or 'nothing'}) is taken for the one that "
        f"was last seen well, and stays. Next: look that {desired.name} generates, then in the guest: {mend}"
    )
    return now


def _trial(path: str, inside: Snapshot, unread: list[str]) -> Trial | None:
    try:
        return trials.read(inside.text(path))
    except NoVerdict as error:
        unread.append(
            f"{path} holds no verdict ({error}); what serves stays. Next: rm it in the guest, or put a copy back"
        )
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
            unread.append(
                f"{baselines.path(name, key)} holds no reading ({error}). Next: rm it in the guest; it is measured anew"
            )
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
