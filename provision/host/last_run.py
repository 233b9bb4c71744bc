"""The newest run that changed a machine, by the machine's own journal: what it did, and what it began and did not end.
Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checks.snapshot import CouldNotLook, Snapshot

JOURNAL = "/var/lib/kpro/journal"
_LAST = (
    f"cd {JOURNAL} 2>/dev/null || {{ [ ! -e {JOURNAL} ] && exit 0; exit 1; }}; "
    'last=; for f in *.jsonl; do [ ! -e "$f" ] || last=$f; done; '
    '[ -n "$last" ] || exit 0; printf \'%s\\n\' "$last"; tail -n 200 "$last"'
)
REQUEST = f"cmd:last-run:{_LAST}"

BACK = "service.rollback"
CUT_OVERS = ("service.cutover", "service.candidate", BACK)
"""They go on in their guest when their run is gone."""


@dataclass(frozen=True)
class Begun:
    """A change that was begun and not ended. ``host``: where; ``digest``: of the profile that a cut-over is about."""

    kind: str
    subject: str
    host: str
    text: str
    digest: str = ""

    @property
    def is_cut_over(self) -> bool:
        return self.kind in CUT_OVERS


@dataclass(frozen=True)
class LastRun:
    """How many changes were done, what failed last, when (as the journal has it). ``begun``: what was begun and not
    ended. ``ended_alone``: what of that has ended since, by what its guest remembers."""

    run: str
    at: str
    done: int
    failed: str | None
    begun: tuple[Begun, ...] = ()
    ended_alone: tuple[str, ...] = ()

    @property
    def unfinished(self) -> str | None:
        return "; ".join(one.text for one in self.begun) or None

    def as_dict(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "at": self.at,
            "changes_done": self.done,
            "failed": self.failed,
            "begun_and_not_ended": self.unfinished,
            "ended_without_its_run": "; ".join(self.ended_alone) or None,
        }


def last_run(snapshot: Snapshot) -> LastRun | None:
    """None: nothing was ever changed. Raises CouldNotLook."""
    code, output = snapshot.command("last-run")
    if code != 0:
        raise CouldNotLook(f"{JOURNAL} cannot be read: {output.strip()[:200]}")
    name, _, rest = output.partition("\n")
    if not name.strip():
        return None
    done, failed, at = 0, None, ""
    # Guests are worked on beside each other: what one of them ends says nothing of the others.
    begun: dict[tuple[str, str, str], Begun] = {}
    for line in rest.splitlines():
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(event, dict):
            continue
        at = str(event.get("at", at))
        one = _begun(event)
        key = (one.kind, one.subject, one.host)
        match event.get("event"):
            case "begin":
                begun[key] = one
            case "rollback" if one.kind:
                begun[key] = one
            case "done":
                done += 1
                begun.pop(key, None)
            case "rolled back" if one.kind:
                done += 1
                begun.pop(key, None)
            case "failed":
                failed = f"{one.text}: {event.get('why', '')}"
                begun.pop(key, None)
    return LastRun(name.strip().removesuffix(".jsonl"), at, done, failed, tuple(begun.values()))


def _begun(event: Mapping[str, Any]) -> Begun:
    details = event.get("details")
    digest = details.get("digest") if isinstance(details, dict) else None
    kind, subject, host = (_text(event.get(name)) for name in ("kind", "subject", "host"))
    return Begun(kind, subject, host, str(event.get("text", subject)), _text(digest))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
