"""Who is to serve. Nothing is promoted that has no green verdict for exactly its digest."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from provision.plan import Plan
from provision.spec import Machine
from provision.stack import candidate, trials
from provision.stack.candidate import choose
from provision.stack.decide import Shipped, stack_plan
from provision.stack.desired import DesiredService
from provision.stack.held import Held
from provision.stack.trials import Trial
from tests.unit.plan.seen import Seen
from tests.unit.plan.tried import promoted, runs, verdict, wanted, with_candidate

OTHER = "e" * 64


@pytest.fixture
def own(machine: Machine) -> DesiredService:
    return wanted(with_candidate(machine))


def tried(own: DesiredService, said: str = "accepted", **more: str) -> Trial:
    found = trials.read(verdict(own, said, **more))
    assert found is not None
    return found


def serves(digest: str, **more: object) -> Held:
    return Held(good=digest, running=digest, up=True, **more)  # type: ignore[arg-type]


def test_without_a_candidate_the_own_profile_serves(desired: DesiredService) -> None:
    assert choose(desired, serves(OTHER)).profiles == (desired,)


def test_a_candidate_without_a_verdict_is_due_and_the_own_profile_serves(own: DesiredService) -> None:
    found = choose(own, serves(own.digest))
    assert (found.serve, found.due) == (own, promoted(own))


def test_an_accepted_candidate_is_the_service(own: DesiredService) -> None:
    found = choose(own, serves(own.digest, verdict=tried(own)))
    assert (found.serve, found.due) == (promoted(own), None)


def test_a_refused_candidate_is_not_tried_again_and_the_note_says_all(own: DesiredService) -> None:
    found = choose(own, serves(own.digest, verdict=tried(own, "refused")), "pct exec 105 -- ")
    assert (found.serve, found.due) == (own, None)
    (note,) = found.notes
    assert "2026-11-29T15:40:00Z" in note
    assert "not better than what serves" in note
    assert "pct exec 105 -- rm /var/lib/kpro/trials/tiny.json" in note


@pytest.mark.parametrize("said", ["accepted", "refused"])
def test_a_verdict_on_another_profile_says_nothing_of_this_one(own: DesiredService, said: str) -> None:
    found = choose(own, serves(own.digest, verdict=tried(own, said, digest=OTHER)))
    assert (found.serve, found.due) == (own, promoted(own))


def test_a_refused_candidate_that_is_held_to_something_else_now_is_tried_again(machine: Machine) -> None:
    strict, loose = (wanted(with_candidate(machine, beats=beats)) for beats in (1.5, 1.05))
    assert promoted(strict).digest == promoted(loose).digest
    held = serves(strict.digest, verdict=tried(strict, "refused"))
    assert choose(strict, held).due is None
    assert choose(loose, held).due == promoted(loose)


def test_a_candidate_that_changed_is_tried_again(machine: Machine) -> None:
    before = wanted(with_candidate(machine))
    after = wanted(with_candidate(machine, flags=("--tok-s", "500")))
    held = serves(before.digest, verdict=tried(before, "refused"))
    assert choose(after, held).due == promoted(after)


def test_what_runs_and_was_seen_well_is_not_taken_out_because_its_verdict_is_gone(
    own: DesiredService,
) -> None:
    found = choose(own, serves(promoted(own).digest))
    assert (found.serve, found.due) == (promoted(own), None)
    assert "verdict of its trial is gone" in found.notes[0]


def test_what_runs_without_having_been_seen_well_is_no_candidate(own: DesiredService) -> None:
    digest = promoted(own).digest
    for held in (
        Held(good=own.digest, running=digest, up=True),
        Held(good="", running=digest, up=True),
    ):
        assert choose(own, held).serve == own


def test_an_earlier_candidate_that_was_accepted_stays_while_another_one_is_tried(own: DesiredService) -> None:
    earlier = tried(own, digest=OTHER)
    found = choose(own, serves(OTHER, accepted=earlier))
    assert (found.serve, found.due) == (None, promoted(own))
    refused = choose(own, serves(OTHER, accepted=earlier, verdict=tried(own, "refused")))
    assert (refused.serve, refused.due) == (None, None)
    assert "stays" in refused.notes[0]
    # A profile that merely runs was accepted by nobody.
    assert choose(own, serves(OTHER)).serve == own


def test_taking_the_candidate_out_of_the_inventory_brings_the_own_profile_back(
    own: DesiredService, desired: DesiredService
) -> None:
    held = serves(promoted(own).digest, verdict=tried(own))
    assert choose(desired, held).serve == desired


def test_a_candidate_written_into_the_service_is_the_same_profile(machine: Machine) -> None:
    asked = with_candidate(machine, flags=("--tok-s", "400"), environment={"A": "b"})
    guest = asked.guests[0]
    service = guest.services[0].promoted()
    assert service is not None
    plain = machine.model_copy(update={"guests": (guest.model_copy(update={"services": (service,)}),)})
    assert wanted(plain).digest == promoted(wanted(asked)).digest


def test_a_candidate_that_equals_the_service_is_no_candidate(machine: Machine) -> None:
    flags = machine.guests[0].services[0].flags
    own = wanted(with_candidate(machine, flags=flags))
    assert choose(own, serves(own.digest)) == candidate.Choice(own)


def test_only_what_equals_the_inventory_is_a_trial_of_it(own: DesiredService) -> None:
    assert own.trial is not None
    trial = promoted(own).trial
    assert trial is not None
    assert (trial.service.listen, trial.service.port) == ("127.0.0.1", own.service.candidate_port)
    assert trial.service.flags == promoted(own).service.flags
    assert trial.engine == promoted(own).engine
    places = {one.staged_unit for one in (own, promoted(own))}
    assert len(places) == 2


RECORDS = st.one_of(
    st.none(),
    st.text(max_size=40),
    st.binary(max_size=40).map(lambda data: data.decode(errors="replace")),
    st.fixed_dictionaries(
        {},
        optional={
            "schema": st.sampled_from(["kpro-trial/1", "kpro-trial/2", "provcheck/1", 1, None]),
            "digest": st.sampled_from(["own", "candidate", "other", "", None, 7]),
            "verdict": st.sampled_from(["accepted", "refused", "green", None, 1]),
            "asked": st.one_of(st.text(max_size=8), st.none(), st.integers()),
            "why": st.one_of(st.text(max_size=20), st.lists(st.integers(), max_size=2)),
            "start_s": st.one_of(st.floats(), st.text(max_size=3), st.none()),
        },
    ),
    st.integers(0, 200),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
@given(
    main=RECORDS,
    beside=RECORDS,
    last=RECORDS,
    good=st.sampled_from(["own", "candidate", "other", "", "{cut"]),
    running=st.sampled_from(["own", "candidate", "other", ""]),
    up=st.booleans(),
)
def test_whatever_the_files_hold_nothing_is_promoted_without_a_verdict_for_exactly_its_digest(
    machine: Machine,
    host: Seen,
    inside: Seen,
    shipped: tuple[Shipped, Shipped],
    main: object,
    beside: object,
    last: object,
    good: str,
    running: str,
    up: bool,
) -> None:
    its = with_candidate(machine)
    own = wanted(its)
    digests = {"own": own.digest, "candidate": promoted(own).digest, "other": OTHER}

    def text(record: object) -> str | None:
        if isinstance(record, int):
            return verdict(own)[:record]
        if isinstance(record, dict):
            return json.dumps(
                {**record, "digest": digests.get(str(record.get("digest")), record.get("digest"))}
            )
        return record if isinstance(record, str) else None

    seen = inside.remembers(own, text(main), accepted=text(beside), service=text(last))
    runs(seen, {"own": own, "candidate": promoted(own)}.get(running, own))
    seen.put("file", own.good_path, digests.get(good, good)).cmd(
        "running-tiny", digests.get(running, running)
    )
    state = "active" if up else "inactive"
    seen.cmd("unit-tiny", f"ActiveState={state}\nSubState=running\nUnitFileState=enabled\n")
    plan = stack_plan(its, its.guests[0], [own], host.snapshot, seen.snapshot, *shipped)
    assert plan.refusals == ()
    _law(plan, promoted(own).digest, [text(main), text(beside)])


def _law(plan: Plan, digest: str, records: list[str | None]) -> None:
    """A cut-over to the candidate is either a trial of it, or rests on a whole, green verdict for it."""
    for item in plan.items:
        if item.kind != "service.cutover" or item.payload.desired.digest != digest:
            continue
        assert any(_green(record, digest) for record in records) or item.payload.mode == "again"
    for item in plan.items:
        if item.kind == "service.candidate":
            assert item.payload.candidate
            assert item.payload.beats
            assert item.payload.trial is not None


def _green(record: str | None, digest: str) -> bool:
    try:
        data = json.loads(record or "")
    except ValueError:
        return False
    return isinstance(data, dict) and (data.get("schema"), data.get("digest"), data.get("verdict")) == (
        "kpro-trial/1",
        digest,
        "accepted",
    )


def test_the_law_of_promotion_can_fail(
    machine: Machine, host: Seen, inside: Seen, shipped: tuple[Shipped, Shipped]
) -> None:
    its = with_candidate(machine)
    own = wanted(its)
    seen = inside.remembers(own, verdict(own))
    plan = stack_plan(its, its.guests[0], [own], host.snapshot, seen.snapshot, *shipped)
    (item,) = [item for item in plan.items if item.kind == "service.cutover"]
    assert item.payload.desired.digest == promoted(own).digest
    _law(plan, promoted(own).digest, [verdict(own)])
    with pytest.raises(AssertionError):
        _law(plan, promoted(own).digest, [verdict(own, digest=OTHER)])
    again = replace(item.payload, mode="again")
    assert again.mode == "again"
