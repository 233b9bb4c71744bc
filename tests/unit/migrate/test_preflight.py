"""May a service move? A pair that may, each thing that keeps it, and any two of them at once."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provision import pages_migration as pages
from provision.data.migrating import GIB, BrokenRsync, limit
from provision.migrate import rules_way
from provision.migrate.decide import RULES, by_rule, judge
from provision.migrate.ends import Reach
from provision.migrate.moves import STAYS, Kind
from provision.migrate.seen import Clock, Folder, Listener, MachineLook, Rsync, Unseen
from provision.plan import Plan, Refusal
from tests.unit.migrate import preflight_pair as pairs
from tests.unit.migrate.damages import DAMAGES, Damage
from tests.unit.migrate.preflight_pair import Given, green


def kinds(given: Given) -> set[str]:
    return set(by_rule(given.source, given.target, given.pair, given.plan))


def said(given: Given) -> list[str]:
    return [str(one) for one in judge(given.source, given.target, given.pair, given.plan)]


def test_nothing_speaks_against_a_good_pair() -> None:
    assert said(green()) == []


@pytest.mark.parametrize("damage", DAMAGES, ids=str)
def test_each_thing_that_is_wrong_is_refused_by_its_own_rule_and_no_other(damage: Damage) -> None:
    assert kinds(damage.spoil(green())) == {damage.rule}


def test_the_page_names_every_rule_and_every_kind_of_thing_that_moves() -> None:
    page = pages.migration_page()
    rows = [line.split(" | ")[0].removeprefix("| ") for line in page.splitlines() if line.startswith("| ")]
    for name in (*(rule.id for rule in RULES), *get_args(Kind), *(one.what for one in STAYS)):
        assert name in rows, name
    assert "@" not in page


def test_every_rule_has_a_case_that_fires_it() -> None:
    assert {damage.rule for damage in DAMAGES} == {rule.id for rule in RULES}
    assert len({rule.id for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("damage", DAMAGES, ids=str)
def test_a_refusal_says_where_what_why_and_what_next(damage: Damage) -> None:
    spoilt = damage.spoil(green())
    for one in judge(spoilt.source, spoilt.target, spoilt.pair, spoilt.plan):
        assert all((one.where, one.seen, one.why, one.next_step))
        assert not one.seen.endswith(".")
        assert "\n" not in one.seen


@settings(deadline=None, max_examples=500)
@given(st.sampled_from(DAMAGES), st.sampled_from(DAMAGES))
def test_of_two_things_that_are_wrong_both_are_said_at_once(first: Damage, second: Damage) -> None:
    both = second.spoil(first.spoil(green()))
    found = kinds(both)
    if {first.name, second.name} == {"key only here", "key only there"}:
        assert found == set()
        return
    if not second.needs & first.hides:
        assert second.rule in found
    # Two that put a value into one place leave that of the second one alone.
    if not first.needs & second.hides and first.spoil(second.spoil(green())) == both:
        assert first.rule in found


def test_most_things_that_can_be_wrong_are_independent_of_each_other() -> None:
    pairs_of_two = [(one, two) for one in DAMAGES for two in DAMAGES[::7]]
    free = [one.spoil(two.spoil(green())) == two.spoil(one.spoil(green())) for one, two in pairs_of_two]
    assert sum(free) > 0.85 * len(free)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.sampled_from(DAMAGES), min_size=1, max_size=8))
def test_however_much_is_wrong_nothing_raises_and_nothing_is_said_twice(damages: list[Damage]) -> None:
    spoilt = green()
    for damage in damages:
        spoilt = damage.spoil(spoilt)
    found = judge(spoilt.source, spoilt.target, spoilt.pair, spoilt.plan)
    assert len({(one.where, one.seen) for one in found}) == len(found) > 0


@given(st.floats(0, 1e6), st.floats(0, 30), st.booleans())
def test_clocks_are_judged_by_what_is_sure(apart: float, wide: float, first: bool) -> None:
    clocks = [Clock(-0.01, 0.01), Clock(apart, apart + wide)]
    one, two = clocks if first else reversed(clocks)
    spoilt = pairs.on_source(pairs.on_target(green(), clock=two), clock=one)
    sure, most = apart - 0.01, apart + wide + 0.01
    assert ("clock" in kinds(spoilt)) == (most > limit("skew"))
    text = " ".join(said(spoilt))
    assert ("differ by at least" in text) == (sure > limit("skew"))


@given(st.integers(0, 40 * GIB))
def test_room_is_what_the_copy_takes_and_what_is_kept_free(free: int) -> None:
    spoilt = pairs.on_target(green(), models=pairs.place("/tank/models", free=free))
    need = sum(pairs.FILES.values()) + limit("headroom")
    assert ("room" in kinds(spoilt)) == (free < need)


def test_a_file_system_without_inodes_has_room_for_any_number_of_files() -> None:
    assert said(pairs.on_target(green(), models=pairs.place("/tank/models", inodes=None))) == []


UNUSED = {
    "source": {
        "hostname",
        "ntp",
        "python3",
        "rrsync",
        "sshd",
        "models",
        "staging",
        "ids",
        "listening",
        "driver",
        "gpus",
    },
    "target": {"hostname", "ntp", "ids"},
    "both": {"driver", "gpus"},
}
"""What nothing is decided by on that end (an rrsync that is no Python, a container that has no number)."""


@pytest.mark.parametrize("role", ["source", "target"])
@pytest.mark.parametrize(
    "name", [one.name for one in fields(MachineLook) if one.name not in ("incoming", "former")]
)
def test_what_could_not_be_looked_at_is_never_taken_for_good(role: str, name: str) -> None:
    spoil = pairs.on_source if role == "source" else pairs.on_target
    base = green()
    text = said(spoil(base, **{name: Unseen("it hung")}))
    if name in UNUSED[role] | UNUSED["both"] | {"boot", "namespace"}:
        assert text == []
    else:
        assert any("it hung" in one and "could not be looked at" in one for one in text)


@pytest.mark.parametrize("name", ["systemd", "unit", "generates", "named"])
def test_what_could_not_be_looked_at_in_the_guest_is_never_taken_for_good(name: str) -> None:
    assert any("it hung" in one for one in said(pairs.in_source(green(), **{name: Unseen("it hung")})))


@pytest.mark.parametrize("name", ["folders", "extras"])
def test_a_folder_that_could_not_be_looked_at_is_never_taken_for_good(name: str) -> None:
    key = {"folders": "model", "extras": "/opt/templates"}[name]
    assert any("it hung" in one for one in said(pairs.in_source(green(), **{name: {key: Unseen("it hung")}})))


def test_the_lock_and_the_state_file_of_this_run_are_its_own() -> None:
    own = pairs.on_target(green(), migrations=pairs.opened(pairs.RUN), lock=f'{{"run": "{pairs.RUN}"}}')
    assert said(pairs.on_source(own, migrations=pairs.opened(pairs.RUN))) == []


def test_an_open_migration_is_ended_by_a_command_that_names_its_own_ends() -> None:
    (text,) = said(pairs.on_source(green(), migrations=pairs.opened()))
    assert "provision migrate SOURCE-INVENTORY TARGET-INVENTORY --resume, or --rollback" in text
    assert "from kpro6 to kpro4" in text
    named = {"chat": replace(pairs.opened()["chat"], words=("k6", "/srv/k4.py"))}
    (text,) = said(pairs.on_source(green(), migrations=named))
    assert "provision migrate k6 /srv/k4.py --resume, or --rollback" in text
    (text,) = said(pairs.on_source(green(), migrations=pairs.opened(state="moved")))
    assert "--finalize, or --rollback to go back" in text


def test_a_target_that_serves_is_refused_by_the_run_itself_too() -> None:
    there = pairs.in_target(green(), unit=pairs.unit())
    assert kinds(there) == {"target serves"}
    assert kinds(pairs.on_target(there, migrations=pairs.opened(pairs.RUN))) == {"target serves"}


@pytest.mark.parametrize("state", ["finalized", "rolled_back"])
def test_a_migration_that_has_ended_is_no_obstacle(state: str) -> None:
    assert said(pairs.on_target(green(), migrations=pairs.opened(state=state))) == []


def test_a_migration_of_another_service_is_no_obstacle() -> None:
    assert said(pairs.on_target(green(), migrations={"other": pairs.opened()["chat"]})) == []


def test_the_same_files_on_the_target_are_not_copied_and_not_in_the_way() -> None:
    base = green()
    assert base.source is not None
    assert base.source.guest is not None
    there = pairs.on_target(base, incoming=dict(base.source.guest.folders))
    assert said(pairs.on_target(there, models=pairs.place("/tank/models", free=GIB))) == []


def test_files_of_other_sizes_under_the_same_names_are_in_the_way() -> None:
    base = green()
    assert base.source is not None
    assert base.source.guest is not None
    (role, seen), *_ = base.source.guest.folders.items()
    assert isinstance(seen, Folder)
    cut = replace(seen, files={**dict(seen.files or {}), "model.safetensors": 5})
    assert kinds(pairs.on_target(base, incoming={role: cut})) == {"in the way"}
    untold = replace(seen, files=None)
    assert kinds(pairs.on_target(base, incoming={role: untold})) == {"in the way"}


def test_a_boot_that_is_allowed_is_no_obstacle() -> None:
    boots = replace(green(), plan=pairs.BOOT)
    assert kinds(boots) == {"reboot"}
    assert said(replace(boots, pair=replace(boots.pair, reboot=True))) == []
    allowed = pairs.written(boots, "target", lambda one: one.model_copy(update={"reboot": "allowed"}))
    assert said(allowed) == []


def test_a_copy_through_the_controller_is_told_and_not_refused() -> None:
    base = green()
    assert said(replace(base, pair=replace(base.pair, reach=Reach("controller", "refused")))) == []


def test_two_keys_that_differ_are_refused_and_never_shown() -> None:
    both = pairs.written(green(), "source", pairs.with_service(api_key_file="/etc/hostname"))
    both = pairs.written(both, "target", pairs.with_service(api_key_file="/etc/hostname"))
    assert said(both) == []
    other = replace(both, pair=replace(both.pair, same_key=False))
    assert kinds(other) == {"key"}


def test_a_fault_of_who_receives_is_no_fault_of_who_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    row = BrokenRsync(
        "9.9.9", ("9.9.9",), (), receiver=True, refuse=True, text="it loses files", source="seen"
    )
    monkeypatch.setattr(rules_way, "BROKEN", (row,))
    assert said(pairs.on_source(green(), rsync=Rsync("9.9.9"))) == []
    assert kinds(pairs.on_target(green(), rsync=Rsync("9.9.9"))) == {"rsync"}


def test_the_target_s_own_refusals_are_quoted_with_its_name() -> None:
    (text,) = said(replace(green(), plan=pairs.REFUSED))
    assert text.startswith("kpro5: machine.guests[0].gpus[0]: 42:00.0 is held")


def test_who_has_the_port_is_named_where_it_is_known() -> None:
    refused = Plan(
        "kpro5", refusals=(Refusal("machine.guests[0].services[0].port", "8000 is taken", "w", "n"),)
    )
    base = replace(green(), plan=refused)
    (text,) = said(pairs.in_target(base, listening=(Listener(8000, "*", "nginx (pid 5)"),)))
    assert "8000 is taken: nginx (pid 5)" in text
    (text,) = said(pairs.in_target(base, listening=(Listener(80, "*", "nginx (pid 5)"),)))
    assert "nginx" not in text
    alone = replace(base, target=replace(base.target, state="stopped", guest=None))
    (text,) = said(
        pairs.on_target(alone, listening=(Listener(22, "*", "sshd"), Listener(8000, "*", "x (pid 9)")))
    )
    assert "8000 is taken: x (pid 9)" in text


def test_of_a_dead_source_nothing_is_asked() -> None:
    base = green()
    cold = replace(base, source=None, pair=replace(base.pair, cold=True, reach=None))
    assert said(cold) == []
    nothing = pairs.on_target(cold, rsync=None, rrsync=None, sshd=None)
    assert said(nothing) == []
    assert kinds(pairs.on_target(cold, lock="x")) == {"locked"}


def test_one_reason_is_said_once() -> None:
    base = replace(green(), plan=Plan("kpro5", refusals=pairs.REFUSED.refusals * 2))
    assert len(said(base)) == 1
