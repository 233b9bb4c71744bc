"""What a service runs, what was tried of it, and what it is held against, as its guest keeps it. Pure."""

from __future__ import annotations

from typing import Any

from checks.snapshot import Snapshot
from provision.spec import Service
from provision.stack import baselines, candidate, held
from provision.stack.desired import DesiredService, sha256
from provision.stack.held import Held

LINES_OF_WHY = 4
OWN, CANDIDATE, EARLIER, OTHER, NOTHING = (
    "own profile",
    "candidate",
    "earlier candidate",
    "another profile",
    "nothing",
)


def kept(desired: DesiredService, inside: Snapshot) -> dict[str, Any]:
    """Of one of kpro's own services. Raises CouldNotLook."""
    seen = held.held(desired, inside)
    runs, profile = _runs(desired, seen)
    told: dict[str, Any] = {
        "runs": runs,
        "digest": seen.running or None,
        "seen_well": bool(seen.serving),
        "verdict": seen.verdict.as_dict() if seen.verdict else None,
        "verdict_is_of_today": _of_today(desired, seen),
        "last_cut_over": seen.last.as_dict() if seen.last else None,
        "last_way_back": seen.back.as_dict() if seen.back else None,
        "baselines": [*stated(desired.service), *_readings(seen)],
        "unread": list(seen.unread),
        "drift": _drift(desired, profile, seen, inside),
    }
    if profile is not None:
        told |= {
            "engine": f"{profile.service.engine.kind} {profile.service.engine.version}",
            "profile": profile.service.profile,
            "environment": profile.engine.digest[:12],
            "environment_path": profile.engine.path,
        }
    return told


def stated(service: Service) -> list[dict[str, Any]]:
    """The inventory's own figure, in the form of a reading; also of a service that somebody else set up."""
    baseline = service.baseline
    if baseline is None:
        return []
    reading = baselines.Reading(baselines.STATED, baseline.decode_tok_s, source=baseline.source)
    return [reading.as_dict() | {"concurrency": baseline.concurrency}]


def _readings(seen: Held) -> list[dict[str, Any]]:
    return [reading.as_dict() for _, reading in sorted(seen.readings.items())]


def _runs(desired: DesiredService, seen: Held) -> tuple[str, DesiredService | None]:
    """What its process is, and the profile where the inventory has it."""
    if not seen.up or not seen.running:
        return NOTHING, None
    if seen.running == desired.digest:
        return OWN, desired
    if desired.candidate is not None and seen.running == desired.candidate.digest:
        return CANDIDATE, desired.candidate
    return (EARLIER if seen.allows(seen.running) else OTHER), None


def _of_today(desired: DesiredService, seen: Held) -> bool | None:
    """Is the verdict one on the candidate that the inventory has now? None without a verdict."""
    if seen.verdict is None:
        return None
    of = desired.candidate
    return (
        of is not None
        and of.digest == seen.verdict.digest
        and seen.verdict.asked == candidate.asked(desired.service)
    )


def _drift(
    desired: DesiredService, profile: DesiredService | None, seen: Held, inside: Snapshot
) -> list[dict[str, str]]:
    rows = []
    if profile is not None:
        for field, path, text in (
            ("unit", profile.unit_path, profile.unit),
            ("environment file", profile.environment_path, profile.environment),
        ):
            if inside.digest(path) != sha256(text):
                rows.append({"field": field, "seen": f"{path} is other than what runs was started with"})
    elif seen.up and seen.running and not seen.allows(seen.running):
        rows.append(
            {"field": "profile", "seen": f"what runs ({seen.running[:12]}) is none that the inventory has"}
        )
    _, state = inside.command(f"unit-{desired.name}")
    if seen.up and "UnitFileState=enabled" not in state.split():
        rows.append({"field": "boot", "seen": "the unit is not enabled: the next boot does not start it"})
    if seen.up and seen.running and not seen.serving:
        rows.append({"field": "seen well", "seen": "what runs was not the one that was last seen well"})
    return rows


def lines(service: dict[str, Any]) -> list[str]:
    """What an operator reads of it below the line of its unit."""
    found = []
    if service.get("runs"):
        environment = f", environment {service['environment']}" if service.get("environment") else ""
        profile = f" {service['profile']}" if service.get("profile") else ""
        which = f" ({service['digest'][:6]})" if service.get("digest") else ""
        found.append(f"runs: {service['runs']}{profile}{which}{environment}")
    verdict = service.get("verdict")
    if verdict:
        stale = (
            ""
            if service.get("verdict_is_of_today")
            else " (of a candidate that the inventory no longer has so)"
        )
        found.append(f"last candidate: {verdict['verdict']}{stale}, {trial(verdict)}")
        found += _why(verdict)
    last = service.get("last_cut_over")
    if last:
        found.append(f"last cut-over of the service's own profile: {last['verdict']}, {trial(last)}")
        # What was accepted needs no reason.
        found += _why(last) if last["verdict"] == "refused" else []
    back = service.get("last_way_back")
    if back:
        found.append(f"last way back to what served before: {back['verdict']}, {trial(back)}")
        found += _why(back) if back["verdict"] == "refused" else []
    # One reading lies under the key of its profile and under that of what it belongs to: it is told once.
    found += dict.fromkeys(f"baseline {reading(one)}" for one in service.get("baselines", ()))
    found += [f"unread: {text}" for text in service.get("unread", ())]
    return found


def _why(verdict: dict[str, Any]) -> list[str]:
    """What was measured, what it is taken for, and where to look on; all of it is in ``--json``."""
    return [f"  {line}" for line in (verdict.get("why") or "").splitlines()[:LINES_OF_WHY]]


def trial(one: dict[str, Any]) -> str:
    """Mode, times and speed of a trial, as far as they are known."""
    parts = [
        one.get("mode"),
        one.get("when"),
        f"run {one['run']}" if one.get("run") else None,
        _figure(one, "downtime_s", "down for {:.1f} s"),
        _figure(one, "start_s", "started in {:.1f} s"),
        _figure(one, "measured_s", "measured in {:.0f} s"),
        _figure(one, "tok_s", "{:.1f} tok/s"),
        _figure(one, "acceptance", "acceptance length {:.2f}"),
    ]
    return ", ".join(str(part) for part in parts if part)


def reading(one: dict[str, Any]) -> str:
    """One reading in a line."""
    length = f", acceptance length {one['acceptance_length']:.2f}" if one.get("acceptance_length") else ""
    at = f" at {one['concurrency']} at once" if one.get("concurrency", 1) > 1 else ""
    by = ", ".join(str(part) for part in (one.get("taken"), one.get("source")) if part)
    run = f", run {one['run']}" if one.get("run") else ""
    to = one.get("belongs_to") or {}
    of = ", ".join(str(part) for part in (to.get("engine"), to.get("model"), *(to.get("gpus") or ())) if part)
    return (
        f"{one['key'] if one['key'] == baselines.STATED else 'measured'}: {one['tok_s']:.1f} tok/s{at}{length}"
        + (f", {by}" if by else "")
        + run
        + (f" ({of})" if of else "")
    )


def _figure(one: dict[str, Any], name: str, text: str) -> str | None:
    value = one.get(name)
    return text.format(value) if isinstance(value, (int, float)) else None
