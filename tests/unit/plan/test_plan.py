"""Plans: phases, limits, and what may be carried out after it was shown."""

from __future__ import annotations

import pytest

from checks.snapshot import CouldNotLook
from provision.plan import Item, Plan, Refusal, Step, join, make_seen, parse_phases
from provision.planner import restrict

METAL, GUEST = "@local", "@guest/@local/llm"
CREATE = Item(Step.CONTAINER, "container.create", METAL, "llm", "create")
ENGINE = Item(Step.STACK, "stack.engine", GUEST, "env", "build")
CUTOVER = Item(Step.SERVICE, "service.cutover", GUEST, "tiny", "cut over")
WHOLE = Plan("box", (CREATE, ENGINE, CUTOVER))
ALL = ("install", "configure", "activate")


def test_phases_are_prefixes_of_the_chain() -> None:
    phases = [step.phase for step in Step]
    assert phases == ["install"] * 5 + ["configure"] * 3 + ["activate"] * 2


@pytest.mark.parametrize(
    ("text", "phases"),
    [(None, ALL), ("activate", ("activate",)), ("configure, install", ("install", "configure"))],
)
def test_phases_are_read(text: str | None, phases: tuple[str, ...]) -> None:
    assert parse_phases(text) == phases


@pytest.mark.parametrize("text", ["", "instal", "install,activat", ",", "all"])
def test_an_unknown_phase_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="the phases are"):
        parse_phases(text)


def test_everything_asked_for_is_everything_planned() -> None:
    assert restrict(WHOLE, ALL, (METAL, GUEST)) == WHOLE


def test_a_later_phase_is_refused_while_an_earlier_one_has_work_left() -> None:
    (refusal,) = restrict(WHOLE, ("activate",), (METAL, GUEST)).refusals
    assert "create; build" in refusal.seen


def test_a_guest_alone_is_refused_while_its_machine_has_work_that_carries_it() -> None:
    (refusal,) = restrict(WHOLE, ALL, (GUEST,)).refusals
    assert "create" in refusal.seen
    assert restrict(Plan("box", (ENGINE, CUTOVER)), ALL, (GUEST,)).refusals == ()


def test_an_earlier_phase_alone_is_fine() -> None:
    assert restrict(WHOLE, ("install", "configure"), (METAL, GUEST)) == Plan("box", (CREATE, ENGINE))


def test_less_than_shown_may_be_done_and_more_may_not() -> None:
    assert Plan("box", (ENGINE,)).beyond(WHOLE.ids) == ()
    assert WHOLE.beyond(Plan("box", (CREATE,)).ids) == (ENGINE, CUTOVER)


def test_parts_join_in_the_order_of_the_steps() -> None:
    why = Refusal("a", "b", "c", "d")
    assert join(
        "box", [Plan("box", (CUTOVER,)), Plan("box", (CREATE,), (why,)), Plan("box", (ENGINE,))]
    ) == Plan("box", (CREATE, ENGINE, CUTOVER), (why,))


@pytest.mark.parametrize(
    ("said", "step"),
    [
        ("cmd x: the recorded tree has no .kpro/cmd/x.out", "record it anew"),
        ("/etc/kernel/cmdline: is a folder", "a file belongs there"),
        ("/etc/default/grub: cannot be read", "make it readable for the user"),
    ],
)
def test_what_a_tree_lacks_is_recorded_anew_and_what_a_machine_hides_made_readable(
    said: str, step: str
) -> None:
    assert make_seen(CouldNotLook(said)).startswith(step)


def test_what_two_areas_could_not_look_at_is_said_once_and_two_things_twice() -> None:
    def unseen(what: str, why: str) -> Plan:
        return Plan("box", (), (Refusal("machine box", what, why, "look"),))

    joined = join("box", [unseen("/a", "one"), unseen("/a", "two"), unseen("/b", "one")])
    assert [(refusal.seen, refusal.why) for refusal in joined.refusals] == [("/a", "one"), ("/b", "one")]
