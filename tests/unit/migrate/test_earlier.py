"""A migration that is open, can go back, or has ended is told once, with the command that goes on from there; what only
follows from it is not told beside it, and no advice ever ends the one that serves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from provision.migrate import earlier
from provision.migrate.case import Case
from provision.migrate.decide import judge
from provision.migrate.earlier import Follows
from provision.migrate.ends import Role
from provision.migrate.seen import Unseen
from provision.migrate.standing import Record, State
from provision.plan import Refusal
from tests.unit.migrate import preflight_pair as pairs
from tests.unit.migrate.preflight_pair import Given, green

EARLIER = "20261128T000000Z-eeeeee"
DROP_IN = "/etc/systemd/system/kpro-chat.service.d/kpro-migrated.conf"
DOWN = replace(pairs.unit(), active="inactive", sub="dead", pid=0, running="")
FENCED = replace(DOWN, drop_ins=(DROP_IN,))


def record(role: Role, peer: str, state: State, **more: object) -> dict[str, Record]:
    """As the machine has it that is not ``peer``."""
    words = ("kpro6", peer) if role == "source" else (peer, "kpro6")
    base = Record(EARLIER, "chat", role, peer, "op@laptop", "stop", state, "then", words=words)
    return {"chat": replace(base, **more)}  # type: ignore[arg-type]


def gone(given: Given) -> Given:
    """What ``--finalize --remove-models`` leaves on the source, while the target serves."""
    bare = pairs.in_source(given, unit=None, generates="no answer", folders={"model": None}, extras={})
    return pairs.in_target(bare, unit=pairs.unit())


def finalized(given: Given, peer: str = "kpro5") -> Given:
    there = pairs.on_target(gone(given), migrations=record("target", "kpro6", "finalized"))
    return pairs.on_source(there, migrations=record("source", peer, "finalized"))


def moved(given: Given, state: State = "moved", **more: object) -> Given:
    """It serves on the target, and the source is fenced."""
    away = pairs.in_source(given, unit=FENCED, generates="no answer")
    away = pairs.on_source(away, migrations=record("source", "kpro5", state, **more))
    there = pairs.in_target(away, unit=pairs.unit())
    there = pairs.on_target(there, migrations=record("target", "kpro6", state, **more))
    told = f"migration {EARLIER} of chat from kpro6 to kpro5 is {state}"
    return replace(
        there, plan=replace(there.plan, refusals=(Refusal("machine.guests[0].services[0]", told, "w", "n"),))
    )


def came(given: Given, state: State = "moved") -> Given:
    """It came from the target of this pair, where its fence lies."""
    away = pairs.on_source(given, migrations=record("target", "kpro5", state, words=("kpro5", "kpro6")))
    there = pairs.on_target(away, migrations=record("source", "kpro6", state, words=("kpro5", "kpro6")))
    there = pairs.in_target(there, unit=FENCED)
    told = (f"chat was moved to kpro6 (run {EARLIER}); here it is stopped", f"{DROP_IN} lies in the guest")
    return replace(
        there, plan=replace(there.plan, refusals=tuple(Refusal("x", one, "w", "n") for one in told))
    )


def reasons(given: Given) -> list[Refusal]:
    return judge(given.source, given.target, given.pair, given.plan)


def follows(given: Given) -> Follows:
    return earlier.follows(Case(given.pair, given.source, given.target, given.plan))


ONE_CAUSE: dict[str, tuple[Callable[[], Given], str, str]] = {
    "gone for good": (
        lambda: finalized(green()),
        "to kpro5 for good",
        "nothing is left to do, it serves on kpro5",
    ),
    "moved": (
        lambda: moved(green()),
        "that is not closed",
        "kpro6 kpro5 --finalize, or --rollback to go back",
    ),
    "open": (
        lambda: moved(green(), "open"),
        "is open since then",
        "migrate kpro6 kpro5 --resume, or --rollback",
    ),
    "left between drain and switch": (
        lambda: moved(green(), "open", step="verify"),
        "NOBODY ANSWERS for chat now: the migration",
        "migrate kpro6 kpro5 --resume, or --rollback",
    ),
    "half back": (
        lambda: moved(green(), "open", back="begun"),
        "is open",
        "kpro6 kpro5 --rollback, which is half done",
    ),
    "moved, cold": (
        lambda: moved(green(), cold=True),
        "not closed",
        "kpro6 kpro5 --cold --finalize closes it",
    ),
    "came, moved": (
        lambda: came(green()),
        "from kpro5 to kpro6",
        "provision migrate kpro5 kpro6 --rollback brings",
    ),
    "came, open": (
        lambda: came(green(), "open"),
        "is open",
        "provision migrate kpro5 kpro6 --resume, or --rollback",
    ),
}


@pytest.mark.parametrize("name", ONE_CAUSE)
def test_one_cause_is_one_reason_with_the_command_that_goes_on_from_there(name: str) -> None:
    make, seen, next_step = ONE_CAUSE[name]
    (one,) = reasons(make())
    assert seen in one.seen
    assert EARLIER in one.seen
    assert next_step in one.next_step
    assert follows(make()).traffic
    assert follows(make()).unit is not name.startswith("came")


@pytest.mark.parametrize("name", ONE_CAUSE)
def test_no_advice_beside_an_earlier_migration_ends_what_serves_or_breaks_a_fence(name: str) -> None:
    text = " ".join(map(str, reasons(ONE_CAUSE[name][0]())))
    for word in ("systemctl", "rm /", "--cold" if name != "moved, cold" else "stop it", "start it", "SOURCE"):
        assert word not in text


@pytest.mark.parametrize("name", ONE_CAUSE)
def test_what_is_wrong_by_itself_is_told_beside_an_earlier_migration(name: str) -> None:
    other = pairs.on_target(ONE_CAUSE[name][0](), rsync=None)
    assert len(reasons(other)) == 2
    assert len(reasons(replace(other, plan=pairs.REFUSED))) == 3


def test_without_a_state_file_the_same_sight_is_told_in_full() -> None:
    bare = pairs.on_source(pairs.on_target(moved(green()), migrations={}), migrations={})
    assert any(DROP_IN in one.seen for one in reasons(bare))
    assert any("is inactive" in one.seen for one in reasons(bare))


def test_a_service_that_was_given_up_and_is_served_again_moves_like_any_other() -> None:
    again = pairs.on_source(green(), migrations=record("source", "kpro5", "finalized"))
    assert reasons(again) == []
    down = pairs.in_source(again, unit=None)
    assert ["for good" in one.seen for one in reasons(down)] == [True]


@pytest.mark.parametrize("role", ["source", "target"])
def test_a_move_that_ended_is_history_to_the_way_back(role: Role) -> None:
    back = pairs.on_target(green(), migrations=record("source", "kpro6", "finalized"))
    assert reasons(back) == []
    assert reasons(pairs.on_source(back, migrations=record(role, "kpro5", "finalized"))) == []
    assert reasons(pairs.on_target(back, migrations=record("source", "kpro6", "moved"))) != []


def test_where_it_went_is_named_when_it_is_another_host() -> None:
    (one,) = reasons(pairs.in_target(finalized(green(), "kpro4"), unit=None))
    assert "to kpro4 for good" in one.seen
    assert one.next_step == "move it from where it is: provision migrate kpro4 kpro5"


def test_a_host_that_has_it_for_good_and_does_not_serve_is_looked_at_and_not_passed_over() -> None:
    (one,) = reasons(pairs.in_target(finalized(green()), unit=None))
    assert "does not serve on kpro5 now: see why (provision status kpro5)" in one.next_step


def test_the_run_itself_reads_what_its_own_state_files_took_the_place_of() -> None:
    own = pairs.opened(pairs.RUN)
    kept = finalized(green())
    assert kept.source is not None
    former = kept.source.machine.migrations
    begun = pairs.on_target(pairs.on_source(kept, migrations=own, former=former), migrations=own)
    assert [one.seen for one in reasons(begun)] == [one.seen for one in reasons(kept)]
    unseen = pairs.on_source(begun, former=Unseen("it hung"))
    assert any("it hung" in one.seen for one in reasons(unseen))


@pytest.mark.parametrize("unit", [None, DOWN])
@pytest.mark.parametrize("state", ["running", "absent", "stopped"])
def test_two_inventories_in_the_wrong_order_are_told_so_once(unit: object, state: str) -> None:
    wrong = pairs.in_target(pairs.in_source(green(), unit=unit, folders={"model": None}), unit=pairs.unit())
    if state != "running":
        assert wrong.source is not None
        wrong = replace(wrong, source=replace(wrong.source, state=state, guest=None))
    (one,) = reasons(wrong)
    assert "the order may be wrong, kpro5 serves it now: provision migrate kpro5 kpro6;" in one.next_step
    assert "--cold" not in one.next_step
    idle = pairs.in_target(wrong, unit=None)
    assert not any("order" in one.next_step for one in reasons(idle))
    assert any("--cold" in one.next_step for one in reasons(idle))


def test_of_a_source_that_was_not_seen_no_order_is_said_to_be_wrong() -> None:
    both = pairs.in_target(pairs.in_source(green(), unit=Unseen("it hung")), unit=pairs.unit())
    text = " ".join(map(str, reasons(both)))
    assert "order" not in text
    assert "it hung" in text
    assert "is active on kpro5 already" in text


@pytest.mark.parametrize("state", ["running", Unseen("it hung")])
def test_of_a_guest_that_was_not_looked_into_no_order_is_said_to_be_wrong(state: str | Unseen) -> None:
    both = pairs.in_target(green(), unit=pairs.unit())
    assert both.source is not None
    text = " ".join(map(str, reasons(replace(both, source=replace(both.source, state=state, guest=None)))))
    assert "order" not in text
    assert "is active on kpro5 already" in text


def test_a_command_names_the_service_where_the_inventory_has_several() -> None:
    two = pairs.service(name="second", port=8100, migration=None)

    def more(given: pairs.Machine) -> pairs.Machine:
        guest = given.guests[0].model_copy(update={"services": (*given.guests[0].services, two)})
        return given.model_copy(update={"guests": (guest,)})

    (one,) = reasons(pairs.written(moved(green()), "source", more))
    assert "provision migrate kpro6 kpro5 --service chat --finalize" in one.next_step


def test_nothing_is_passed_over_where_no_migration_was() -> None:
    assert follows(green()) == Follows()
    assert follows(pairs.on_source(green(), migrations=Unseen("it hung"))) == Follows()
    assert follows(pairs.in_source(green(), unit=None)) == Follows(unit=True)
