"""Steps 8 and 10 for one service: which profile is staged, started, tried, and what it is held against. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from checks.snapshot import Snapshot
from provision.plan import Item, Refusal, Step
from provision.spec import Guest
from provision.stack import baselines, beside, candidate, held, measures, sameness
from provision.stack.baselines import Reading
from provision.stack.candidate import Choice
from provision.stack.conflicts import drop_ins, taken_port
from provision.stack.cutover import Cutover, Measure, Mode
from provision.stack.desired import DesiredService, sha256
from provision.stack.forecast import figures, forecast
from provision.stack.held import Held
from provision.stack.room import Room
from provision.stack.scene import Scene
from provision.stack.standing import Standing, standing


def requests(guest: Guest, desired: DesiredService) -> list[str]:
    """What the snapshot of the guest has to look at, for the service, its candidate, and the trials of both."""
    wanted = held.requests(desired)
    for one in family(desired):
        wanted += [
            *(f"sha:{path}" for path in (one.staged_unit, one.staged_environment, one.record_path)),
            f"sha:{one.silences_path}",
            held.started_request(one),
        ]
        if one.trial is not None:
            unit = one.trial.service.unit
            wanted += [
                f"sha:{one.trial.silences_path}",
                f"cmd:unit-{one.trial.name}:systemctl show -p ActiveState -p SubState -p MainPID {unit}",
                f"dir:{one.trial.unit_path}.d",
                *beside.requests(guest, one),
            ]
    return wanted


def family(desired: DesiredService) -> tuple[DesiredService, ...]:
    """The service's own profile and, where there is one, its candidate."""
    return (desired,) if desired.candidate is None else (desired, desired.candidate)


def choice(at: Scene) -> Choice:
    """Who is to serve, and what is to be tried."""
    return candidate.choose(at.own, at.held, _shell(at.guest))


def decide(at: Scene, chosen: Choice, changed: Collection[str], refusals: list[Refusal]) -> list[Item]:
    """Everything of one service. ``changed``: digests of profiles whose engine is made anew in place, so that what runs
    of them is not what was seen well. Raises CouldNotLook."""
    items: list[Item] = []
    # What is down is started first, from its own files; what it lacks is told once it serves.
    if chosen.blocked and at.held is not None and at.held.stands_up:
        refusals.append(Refusal(at.where, *chosen.blocked))
    if chosen.serve is not None:
        items += _serve(at, chosen.serve, chosen.serve.digest in changed, refusals)
    elif at.held is not None and not at.held.stands_up:
        items.append(_cutover(at, standing(at.own, at.held.stands), "again", None))
    if chosen.due is not None:
        items += _due(at, chosen, chosen.due, refusals)
    drop_ins(at.own, at.inside, refusals, at.where)
    return [*items, *_stated(at)]


def again(at: Scene) -> list[Item]:
    """The cut-over of a service whose container was stopped: whoever is to serve is seen generating again."""
    serve = choice(at).serve
    if serve is None and at.held is not None:
        serve = standing(at.own, at.held.stands)
    return [] if serve is None else [_cutover(at, serve, "again", None)]


def _serve(at: Scene, desired: DesiredService, changed: bool, refusals: list[Refusal]) -> list[Item]:
    taken_port(at.guest, desired, at.host, at.inside, refusals, at.where)
    if at.inside is None or at.held is None:
        return [_stage(at, desired), _cutover(at, desired, "first", None)]
    items = [] if _staged(desired, at.inside) else [_stage(at, desired)]
    if not changed and held.in_service(desired, at.inside, at.held):
        return items
    if not at.held.stands:
        return [*items, _cutover(at, desired, "first", None)]
    if at.held.stands == desired.digest:
        return [*items, _cutover(at, desired, "again", None)]
    if (path := measures.unmeasured(at, desired)) is not None:
        items.append(_measure(at, path, "service.cutover"))
    if not at.held.stands_up or desired.trial is None:
        return [*items, _cutover(at, desired, "swap", None)]
    room = beside.room_for(at.guest, desired, at.inside)
    _trial(at, desired.trial, refusals, at.where)
    return [*items, _cutover(at, desired, "beside" if room.beside else "swap", desired.trial, room)]


def _due(at: Scene, chosen: Choice, due: DesiredService, refusals: list[Refusal]) -> list[Item]:
    """The candidate, tried once what is to serve does."""
    where = f"{at.where}.candidate"
    if due.trial is None:
        refusals.append(
            Refusal(
                where,
                f"port {at.own.service.candidate_port}, where it would be tried, is another service's of this guest",
                "nothing is put into service untried",
                "move that service to another port",
            )
        )
        return []
    wish = at.own.service.candidate.mode if at.own.service.candidate else "auto"
    room = Room(False, "the guest does not run yet")
    if at.inside is not None:
        room = beside.room_for(at.guest, due, at.inside)
        if wish == "beside" and not room.beside:
            refusals.append(
                Refusal(
                    f"{where}.mode",
                    f"there is no room beside {at.own.name}: {room.why}",
                    "what serves would be the one to run out of memory",
                    "mode='swap', or 'auto', which takes what serves out of service meanwhile",
                )
            )
    mode: Mode = "beside" if wish == "beside" or (wish == "auto" and room.beside) else "swap"
    items = [] if at.inside is not None and _staged(due, at.inside) else [_stage(at, due)]
    _trial(at, due.trial, refusals, where)
    path, running = measures.against(at, chosen)
    if running is None and at.held is not None and _serves(at.held, chosen):
        items.append(_measure(at, at.path(chosen.serve) if chosen.serve else path, "service.candidate"))
    return [*items, _cutover(at, due, mode, due.trial, room, (path, running))]


def _serves(seen: Held, chosen: Choice) -> bool:
    """Does what the candidate is held against serve already, so that no cut-over of this run measures it?"""
    if chosen.serve is None:
        return True
    return seen.stands_up and seen.stands == chosen.serve.digest


def _trial(at: Scene, trial: DesiredService, refusals: list[Refusal], where: str) -> None:
    # The port of a trial follows from the service's own: that is the field to change.
    taken_port(at.guest, trial, at.host, at.inside, refusals, at.where)
    drop_ins(trial, at.inside, refusals, where)


def _staged(desired: DesiredService, inside: Snapshot) -> bool:
    files = (inside.digest(desired.staged_unit), inside.digest(desired.staged_environment))
    record = desired.record is None or inside.digest(desired.record_path) == sha256(desired.record)
    silences = desired.silences is None or inside.digest(desired.silences_path) == sha256(desired.silences)
    return record and silences and files == (sha256(desired.unit), sha256(desired.environment))


def _stage(at: Scene, desired: DesiredService) -> Item:
    apart = f" in {desired.staging}" if desired.staging else ""
    text = f"stage and verify {desired.service.unit}{apart}"
    return Item(Step.STACK, "stack.stage", at.guest_host, f"{desired.name}{apart}", text, desired)


def _stated(at: Scene) -> list[Item]:
    """The inventory's figure as a file beside the readings."""
    baseline = at.own.service.baseline
    if baseline is None:
        return []
    data, path = baselines.stated(baseline), baselines.path(at.own.name, baselines.STATED)
    if at.inside is not None and at.inside.digest(path) == sha256(data):
        return []
    text = f"put the inventory's baseline of {at.own.name} ({baseline.decode_tok_s:g} tok/s)"
    return [Item(Step.STACK, "stack.stated", at.guest_host, at.own.name, text, (path, data))]


def _measure(at: Scene, path: str, before: str) -> Item:
    """``before``: the kind of the cut-over that needs it; whether it does is seen only once the guest runs."""
    text = f"measure {at.own.name} as it runs and keep that as its baseline (test requests for at most 120 s)"
    words = measures.gate_words(at.own.service.thresholds, None, measures.level(at))
    return Item(
        Step.SERVICE,
        "service.measure",
        at.guest_host,
        at.own.name,
        text,
        Measure(at.own, words, path, at.held.stands if at.held else ""),
        part_of=f"{before} {at.own.name} on {at.guest_host}",
    )


def _cutover(
    at: Scene,
    desired: DesiredService,
    mode: Mode,
    trial: DesiredService | None,
    room: Room | None = None,
    against: tuple[str, Reading | None] | None = None,
) -> Item:
    """``against``: the file that a candidate is held against, and what is in it; None: it is no candidate."""
    told = forecast(at.own.name, mode, trial is not None, figures(desired.digest, at.held or Held()))
    path, least = (
        measures.held_to(at, desired)
        if against is None
        else (against[0], measures.to_beat(at, desired, against[1]))
    )
    of = candidate.identity(at.own) if desired is at.own.candidate else ""
    cutover = Cutover(
        desired,
        trial,
        mode,
        measures.gate_words(desired.service.thresholds, path, measures.level(at)),
        least,
        None if isinstance(desired, Standing) else baselines.fresh(at.path(desired)),
        at.own.service.drain_seconds,
        told.text,
        against is not None,
        candidate.asked(at.own.service) if of else candidate.asked_of_own(at.own.service),
        of,
        sameness.beside(at.own),
    )
    kind = "service.cutover" if against is None else "service.candidate"
    item = Item(Step.SERVICE, kind, at.guest_host, at.own.name, _text(at, cutover), cutover)
    # What a guest that cannot be entered holds is not known: an old service may come up with it.
    down = mode == "swap" or at.inside is None
    costs = (f"{at.own.name} is down while it is tried",) if down else ()
    return replace(item, costs=costs, details=_details(cutover, told.seconds, room))


def _text(at: Scene, asked: Cutover) -> str:
    name, unit, what = at.own.name, asked.desired.service.unit, candidate.name_of(asked.desired)
    if asked.mode == "first":
        return f"put {unit} into service and see it generate"
    if asked.mode == "again":
        return f"start {unit} again and see it generate"
    place = f" on 127.0.0.1:{asked.trial.service.port}" if asked.trial else ""
    if asked.mode == "beside":
        return f"try {what} beside {name}{place}; {asked.forecast}"
    return f"swap {name} for {what}, tried{place or ' in its place'}; {asked.forecast}"


def _details(asked: Cutover, down: float | None, room: Room | None) -> dict[str, Any]:
    return {
        "mode": asked.mode,
        "profile": candidate.name_of(asked.desired),
        "digest": asked.desired.digest,
        "candidate": asked.candidate,
        "forecast": asked.forecast,
        "forecast_s": down,
        "held_to": {"words": list(asked.gate), "beats": asked.beats},
        "keeps_baseline": asked.keep_baseline,
        "room": None if room is None else {"beside": room.beside, "why": room.why},
    }


def _shell(guest: Guest) -> str:
    """How the metal runs a command in the guest."""
    return f"pct exec {guest.id} -- " if guest.backend == "pct" else f"lxc-attach -n {guest.id} -- "
