"""What was last seen generating and green stays in service, or is started again, until something else has been proven
against it; no unreadable file, killed cut-over or stopped unit changes that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from provision.plan import Item, Plan
from provision.spec import Machine
from provision.stack import baselines, beside, candidate, sameness, serving
from provision.stack.cutover import Cutover
from provision.stack.decide import Shipped, stack_plan
from provision.stack.desired import DesiredService
from provision.stack.held import Held
from provision.stack.room import Room
from provision.stack.scene import scene
from provision.stack.trials import Trial
from tests.unit.plan.seen import Seen
from tests.unit.plan.tried import own_key, promoted, reading, runs, verdict, wanted, with_candidate

OTHER = "e" * 64
UP = "ActiveState=active\nSubState=running\nUnitFileState=enabled\n"
DOWN = "ActiveState=inactive\nUnitFileState=enabled\n"
Decide = Callable[..., Plan]


@pytest.fixture
def decide(host: Seen, shipped: tuple[Shipped, Shipped]) -> Decide:
    def plan(machine: Machine, seen: Seen) -> Plan:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(beside, "room_for", lambda *_: Room(True, "free"))
            return stack_plan(
                machine, machine.guests[0], [wanted(machine)], host.snapshot, seen.snapshot, *shipped
            )

    return plan


def stands(seen: Seen, own: DesiredService, digest: str, *, up: bool = True, good: str | None = None) -> Seen:
    """This digest is what was seen well; it runs, or its unit lies there stopped."""
    seen.put("file", own.good_path, f"{digest}\n" if good is None else good)
    seen.cmd("running-tiny", f"{digest}\n" if up else "", 0 if up else 1)
    return seen.cmd("in-place-tiny", f"{digest}\n-\n").cmd("unit-tiny", UP if up else DOWN)


def cuts(plan: Plan) -> list[tuple[str, str, str]]:
    return [
        (item.kind, item.payload.mode, item.payload.digest)
        for item in plan.items
        if isinstance(item.payload, Cutover)
    ]


def accepted_as(own: DesiredService, digest: str, **more: Any) -> str:
    return verdict(own, "accepted", digest=digest, of=candidate.identity(own), **more)


def baseline_of(item: Item) -> str:
    words = item.payload.gate
    return str(words[words.index("--baseline") + 1])


def changed(machine: Machine, **update: Any) -> Machine:
    """The same inventory after a change of the service itself, with the candidate as it was."""
    guest = machine.guests[0]
    service = guest.services[0].model_copy(update=update)
    return machine.model_copy(update={"guests": (guest.model_copy(update={"services": (service,)}),)})


@pytest.mark.parametrize("change", [{"environment": {"A": "new"}}, {"port": 8123}, {"listen": "127.0.0.2"}])
def test_a_change_beside_the_accepted_candidate_reaches_it_at_ordinary_thresholds(
    decide: Decide, machine: Machine, inside: Seen, change: dict[str, Any]
) -> None:
    before = with_candidate(machine)
    was = promoted(wanted(before)).digest
    its = changed(before, **change)
    own = wanted(its)
    kept = {was[:12]: reading(920.0, digest=was)}
    seen = stands(inside.remembers(own, accepted_as(wanted(before), was), kept), own, was)
    (item,) = [item for item in decide(its, seen).items if isinstance(item.payload, Cutover)]
    assert (item.kind, item.payload.digest) == ("service.cutover", promoted(own).digest)
    assert item.payload.trial is not None
    assert not item.payload.candidate
    assert (item.payload.beats, baseline_of(item)) == (0.8, baselines.path("tiny", was[:12]))
    assert item.payload.record.endswith("/tiny.json")
    assert item.payload.of == candidate.identity(own)


def test_a_candidate_that_is_another_one_is_tried_as_one_against_the_accepted(
    decide: Decide, machine: Machine, inside: Seen
) -> None:
    before = wanted(with_candidate(machine))
    was = promoted(before).digest
    for up in (True, False):
        its = with_candidate(machine, flags=("--tok-s", "300"))
        own = wanted(its)
        kept = {was[:12]: reading(920.0, digest=was)}
        seen = stands(inside.remembers(own, accepted_as(before, was), kept), own, was, up=up)
        plan = decide(its, seen)
        tried = ("service.candidate", "beside", promoted(own).digest)
        assert cuts(plan) == ([tried] if up else [("service.cutover", "again", was), tried])
        assert baseline_of(plan.items[-1]) == baselines.path("tiny", was[:12])
        assert plan.items[-1].payload.beats == 1.1
        if not up:
            start = next(item.payload for item in plan.items if item.kind == "service.cutover")
            assert (start.desired.staged_unit, start.keep_baseline) == (own.unit_path, None)


def test_a_change_beside_the_candidate_that_was_refused_is_remembered(
    decide: Decide, machine: Machine, inside: Seen
) -> None:
    before = with_candidate(machine)
    was = promoted(wanted(before)).digest
    its = changed(before, environment={"A": "new"})
    own = wanted(its)
    refused = verdict(own, "refused", of=candidate.identity(own))
    seen = stands(inside.remembers(own, refused, accepted=accepted_as(wanted(before), was)), own, was)
    plan = decide(its, seen)
    assert plan.items == ()
    assert ["is not in force" in refusal.seen for refusal in plan.refusals] == [True]
    told = accepted_as(wanted(before), was, beside=sameness.beside(wanted(before)))
    (refusal,) = decide(its, stands(inside.remembers(own, refused, accepted=told), own, was)).refusals
    assert "is not in force (another environment)" in refusal.seen
    assert any("its changed profile was refused" in note for note in plan.notes)
    assert any("rm /var/lib/kpro/trials/tiny.json" in note for note in plan.notes)


@pytest.mark.parametrize("up", [True, False])
def test_a_refused_change_of_the_own_profile_is_remembered_and_the_old_one_goes_on(
    decide: Decide, machine: Machine, inside: Seen, up: bool
) -> None:
    its = changed(machine, environment={"A": "new"})
    own = wanted(its)
    refused = Trial(own.digest, "refused", why="hangs", when="2026-11-30").dump().decode()
    kept = {OTHER[:12]: reading(100.0, digest=OTHER)}
    seen = stands(inside.remembers(own, None, kept, service=refused), own, OTHER, up=up)
    plan = decide(its, seen)
    assert cuts(plan) == ([] if up else [("service.cutover", "again", OTHER)])
    # While it serves, what the inventory says and is not in force is told; what is down is started first.
    assert [refusal.seen for refusal in plan.refusals if "is not in force" in refusal.seen] == [
        refusal.seen for refusal in plan.refusals
    ]
    assert bool(plan.refusals) is up
    (note,) = [note for note in plan.notes if "was refused" in note]
    assert "hangs" in note
    assert "rm /var/lib/kpro/trials/tiny.service.json" in note
    # Held to something else, or with nothing to go on with, it is tried.
    loose = changed(its, thresholds={"speed_fail": 0.5})
    assert ("service.cutover", own.digest) in [(kind, d) for kind, _, d in cuts(decide(loose, seen))]
    seen.put("file", own.good_path, None)
    assert [d for _, _, d in cuts(decide(its, seen))] == [own.digest]


@pytest.mark.parametrize("good", ["{cut", "", "e" * 63])
def test_an_unreadable_word_of_what_was_seen_well_takes_nothing_out_of_service(
    decide: Decide, machine: Machine, inside: Seen, good: str
) -> None:
    its = with_candidate(machine)
    own = wanted(its)
    runs(inside.remembers(own, verdict(own)), promoted(own))
    plan = decide(its, stands(inside, own, promoted(own).digest, good=good))
    assert plan.items == ()
    (note,) = plan.notes
    assert "/var/lib/kpro/good/tiny names no profile" in note
    assert "Next: " in note
    down = decide(its, stands(inside, own, promoted(own).digest, up=False, good=good))
    assert cuts(down) == [("service.cutover", "again", promoted(own).digest)]


def test_a_torn_verdict_takes_nothing_out_of_service(decide: Decide, machine: Machine, inside: Seen) -> None:
    own = wanted(its := with_candidate(machine))
    plan = decide(its, stands(inside.remembers(own, "{cut"), own, OTHER))
    assert [kind for kind, *_ in cuts(plan)] == ["service.candidate"]
    assert baseline_of(plan.items[-1]) == baselines.path("tiny", OTHER[:12])
    assert any("holds no verdict" in note and "Next: " in note for note in plan.notes)


def test_a_cut_over_that_was_killed_leaves_the_last_good_one_to_be_started(
    decide: Decide, machine: Machine, inside: Seen
) -> None:
    its = with_candidate(machine)
    own = wanted(its)
    seen = stands(inside.remembers(own, verdict(own, digest=OTHER)), own, OTHER, up=False)
    seen.cmd("in-place-tiny", f"{promoted(own).digest}\n{OTHER}\nopen\n")
    assert cuts(decide(its, seen))[0] == ("service.cutover", "again", OTHER)
    # Its files are nowhere: the own profile is all that there is.
    seen.cmd("in-place-tiny", f"{promoted(own).digest}\n{OTHER}\n")
    assert cuts(decide(its, seen))[0] == ("service.cutover", "swap", own.digest)


def test_a_candidate_is_the_same_one_whatever_the_service_says_beside_it(machine: Machine) -> None:
    its = with_candidate(machine)
    same = [
        changed(its, environment={"A": "b"}),
        changed(its, port=8123),
        with_candidate(machine, mode="swap"),
    ]
    assert {candidate.identity(wanted(one)) for one in same} == {candidate.identity(wanted(its))}
    others = [
        with_candidate(machine, flags=("--tok-s", "1")),
        with_candidate(machine, environment={"A": "b"}),
        with_candidate(machine, thresholds={"speed_fail": 0.5}),
    ]
    assert len({candidate.identity(wanted(one)) for one in (its, *others)}) == 4
    assert candidate.identity(wanted(machine)) == ""


def shaped(own: DesiredService, tok_s: float, **more: Any) -> bytes:
    return reading(tok_s, **{"digest": own.digest, "shape": sameness.shape(own)} | more)


def held_to(decide: Decide, machine: Machine, seen: Seen) -> str:
    (item,) = [item for item in decide(machine, seen).items if isinstance(item.payload, Cutover)]
    assert (item.kind, item.payload.beats) == ("service.cutover", 0.8)
    return baseline_of(item)


def test_another_key_or_environment_is_held_to_what_is_started_so_and_not_to_a_faster_candidate_of_once(
    decide: Decide, machine: Machine, inside: Seen
) -> None:
    was, fast = wanted(machine), promoted(wanted(with_candidate(machine)))
    for change in ({"environment": {"A": "new"}}, {"port": 8123}):
        its = changed(machine, **change)
        own = wanted(its)
        key = own_key(machine, was)
        mine = baselines.own_key(key, was.digest)
        kept = {mine: shaped(was, 203.0), key: shaped(fast, 2032.0)}
        # The own profile serves again; or the candidate does, and is no longer in the inventory.
        seen = stands(inside.remembers(own, None, kept), own, was.digest)
        assert held_to(decide, its, seen) == baselines.path("tiny", mine)
        gone = accepted_as(wanted(with_candidate(machine)), fast.digest)
        seen = stands(inside.remembers(own, gone, kept), own, fast.digest)
        assert held_to(decide, its, seen) == baselines.path("tiny", mine)


def test_what_is_started_in_another_way_is_held_to_the_best_of_its_kind(
    decide: Decide, machine: Machine, inside: Seen
) -> None:
    was, fast = wanted(machine), promoted(wanted(with_candidate(machine)))
    its = changed(machine, flags=("--tok-s", "199"))
    own, key = wanted(its), own_key(machine, was)
    kept = {baselines.own_key(key, was.digest): shaped(was, 203.0), key: shaped(fast, 2032.0)}
    seen = stands(inside.remembers(own, None, kept), own, was.digest)
    assert held_to(decide, its, seen) == baselines.path("tiny", key)
    # Also where it was started so before: what it takes the place of was no candidate that was taken out.
    before = wanted(changed(its, environment={"A": "old"}))
    earlier = {baselines.own_key(key, before.digest): shaped(before, 199.0)}
    seen = stands(inside.remembers(own, None, kept | earlier), own, fast.digest)
    assert held_to(decide, its, seen) == baselines.path("tiny", key)
    # A candidate that became the service's own is what a change of it is held to.
    its = changed(machine, flags=("--tok-s", "400"), environment={"A": "new"})
    own = wanted(its)
    gone = accepted_as(wanted(with_candidate(machine)), fast.digest)
    seen = stands(inside.remembers(own, gone, kept), own, fast.digest)
    assert held_to(decide, its, seen) == baselines.path("tiny", key)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"environment": {"A": "new-must-not-be-seen"}}, "another environment than"),
        ({"port": 8123}, "another address than"),
        ({"port": 8123, "environment": {"A": "new"}}, "another environment and address than"),
    ],
)
def test_a_change_that_cannot_reach_what_serves_is_never_called_in_sync_and_is_named(
    decide: Decide, machine: Machine, inside: Seen, change: dict[str, Any], said: str
) -> None:
    before = wanted(with_candidate(machine))
    was = promoted(before).digest
    accepted = accepted_as(before, was, beside=sameness.beside(before))
    its = with_candidate(machine, flags=("--fault", "crash"))
    for machine_now, blocked in ((its, False), (changed(its, **change), True)):
        own = wanted(machine_now)
        refused = verdict(own, "refused", of=candidate.identity(own))
        seen = stands(inside.remembers(own, refused, accepted=accepted), own, was)
        plan = decide(machine_now, seen)
        assert [refusal.seen for refusal in plan.refusals if "was refused" in refusal.seen] == [
            refusal.seen for refusal in plan.refusals
        ]
        assert bool(plan.refusals) is blocked
        assert [said in refusal.seen for refusal in plan.refusals] == [True] * blocked
        assert "must-not-be-seen" not in str(plan.refusals)
        # While it is still to be tried, what the inventory says would come with it.
        due = decide(machine_now, stands(inside.remembers(own, accepted), own, was))
        assert not due.refusals
        assert [kind for kind, *_ in cuts(due)] == ["service.candidate"]


def test_another_environment_of_the_service_tries_no_refused_candidate_again(
    decide: Decide, machine: Machine, inside: Seen
) -> None:
    its = with_candidate(machine)
    refused = verdict(wanted(its), "refused", of=candidate.identity(wanted(its)))
    its = changed(its, environment={"A": "new"})
    own = wanted(its)
    seen = stands(inside.remembers(own, refused), own, wanted(machine).digest)
    assert [kind for kind, *_ in cuts(decide(its, seen))] == ["service.cutover"]
    other = with_candidate(changed(machine, environment={"A": "new"}), flags=("--tok-s", "500"))
    seen = stands(inside.remembers(wanted(other), refused), wanted(other), wanted(machine).digest)
    assert [kind for kind, *_ in cuts(decide(other, seen))] == ["service.cutover", "service.candidate"]


def test_what_is_down_is_started_before_it_is_told_what_is_not_in_force(
    decide: Decide, machine: Machine, inside: Seen
) -> None:
    before = wanted(with_candidate(machine))
    was = promoted(before).digest
    accepted = accepted_as(before, was, beside=sameness.beside(before))
    its = changed(with_candidate(machine, flags=("--fault", "crash")), environment={"A": "new"})
    own = wanted(its)
    refused = verdict(own, "refused", of=candidate.identity(own))
    plan = decide(its, stands(inside.remembers(own, refused, accepted=accepted), own, was, up=False))
    assert not plan.refusals
    assert cuts(plan) == [("service.cutover", "again", was)]


def test_another_key_is_another_thing_beside_the_profile(machine: Machine) -> None:
    own = wanted(machine)
    keys = {sameness.beside(replace(own, key=key)) for key in (None, "first", "second")}
    assert len(keys) == 3
    assert sameness.shape(own) == sameness.shape(replace(own, key="first"))


def test_which_of_what_a_service_says_is_another_is_told_and_never_its_value(machine: Machine) -> None:
    own = replace(wanted(machine), key="first")
    kept = sameness.beside(own)
    assert sameness.other(kept, own) == ""
    second = replace(own, key="second-must-not-be-seen")
    assert sameness.other(kept, second) == "key"
    moved = replace(wanted(changed(machine, port=8123)), key="second")
    assert sameness.other(kept, moved) == "key and address"
    model = machine.guests[0].services[0].model.model_copy(update={"revision": "2" * 40})
    more = replace(wanted(changed(machine, model=model, environment={"A": "b"})), key="first")
    assert sameness.other(kept, more) == "environment and model"
    # A record of the time when they were not told apart: equal is equal, and of another it may be any.
    whole = kept.split()[0]
    assert sameness.other(whole, own) == ""
    assert sameness.other(whole, second) == "environment, key, address or model"
    # Four digits are no way back to a key, and the whole of a key is nowhere.
    assert all(len(part.partition("=")[2]) == 4 for part in kept.split()[1:])
    assert "first" not in kept


DIGESTS = ("own", "promoted", "same", "other")
RECORD = st.one_of(
    st.none(),
    st.just("{cut"),
    st.tuples(st.sampled_from(DIGESTS), st.sampled_from(["accepted", "refused"]), st.booleans()),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=400, deadline=None)
@given(
    main=RECORD,
    kept=RECORD,
    last=RECORD,
    good=st.sampled_from([*DIGESTS, "{cut", "", None]),
    running=st.sampled_from([*DIGESTS, ""]),
    live=st.sampled_from([*DIGESTS, ""]),
    read=st.sets(st.sampled_from(DIGESTS)),
    up=st.booleans(),
    cut_off=st.booleans(),
)
def test_nothing_that_stands_gives_way_without_a_trial_against_its_own_baseline(
    machine: Machine, host: Seen, inside: Seen, main: Any, kept: Any, last: Any, good: Any, running: str,
    live: str, read: set[str], up: bool, cut_off: bool,
) -> None:  # fmt: skip
    its = with_candidate(machine)
    own = wanted(its)
    digests = {"own": own.digest, "promoted": promoted(own).digest, "same": "d" * 64, "other": OTHER}

    def text(record: Any) -> str | None:
        if not isinstance(record, tuple):
            return record  # type: ignore[no-any-return]
        which, said, is_candidate = record
        of = candidate.identity(own) if is_candidate and which in ("promoted", "same") else ""
        return verdict(own, said, digest=digests[which], of=of)

    readings = {digests[one][:12]: reading(100.0, digest=digests[one]) for one in read}
    seen = inside.remembers(own, text(main), readings, accepted=text(kept), service=text(last))
    seen.put("file", own.good_path, digests.get(good, good)).cmd("unit-tiny", UP if up else DOWN)
    seen.cmd("running-tiny", digests.get(running, ""), 0 if up else 1)
    open_ = "open\n" if cut_off else ""
    seen.cmd("in-place-tiny", f"{digests.get(live, '-')}\n{digests['same']}\n{open_}")
    at = scene(its, its.guests[0], own, host.snapshot, seen.snapshot, "")
    items = serving.decide(at, serving.choice(at), (), [])
    law(at.held or Held(), items, own)


def law(held: Held, items: list[Item], own: DesiredService) -> None:
    """What stands and runs, or was accepted and can be started, is replaced only after a trial against its baseline.
    What is down gives way in its place to the very same candidate with what was mended beside it, and the own profile
    to the candidate that was held against it before."""
    known = held.record(held.stands)
    same = known is not None and known.of == candidate.identity(own)
    starts = held.can_stand and held.allows(held.stands) and held.stands != own.digest and not same
    if not (held.stands_up or starts):
        return
    kept = [key for key, one in held.readings.items() if one.digest == held.stands]
    # Of two readings the faster one: no less is asked for.
    kept += [key for key, one in held.readings.items() if one.tok_s >= 100.0 and kept]
    paths = [baselines.path("tiny", key) for key in kept]
    cut = [item for item in items if isinstance(item.payload, Cutover)]
    # What is measured as it runs, or by the start that this run begins with.
    started = [item for item in cut if item.payload.mode == "again" and item.payload.digest == held.stands]
    measured = [item for item in items if item.kind == "service.measure"] or started
    for item in cut:
        if item.payload.digest == held.stands:
            continue
        if held.stands_up or started:
            assert item.payload.trial is not None
        assert item.payload.beats
        # A candidate is held against what this same run put into service before, by this very law.
        before = [one for one in cut if one.kind == "service.cutover" and one is not item]
        if before and before[0].payload.digest != held.stands:
            continue
        path = baseline_of(item)
        assert path in paths or (measured and path.endswith(f"{held.stands[:12]}.json"))


def test_the_law_of_what_stands_can_fail(machine: Machine, host: Seen, inside: Seen) -> None:
    its = with_candidate(machine)
    own = wanted(its)
    seen = stands(inside.remembers(own, accepted_as(own, OTHER)), own, OTHER)
    at = scene(its, its.guests[0], own, host.snapshot, seen.snapshot, "")
    items = serving.decide(at, serving.choice(at), (), [])
    law(at.held or Held(), items, own)
    cut = items[-1]
    for payload in (
        replace(cut.payload, trial=None),
        replace(cut.payload, gate=("--baseline", "/else.json")),
    ):
        with pytest.raises(AssertionError):
            law(at.held or Held(), [replace(cut, payload=payload)], own)
