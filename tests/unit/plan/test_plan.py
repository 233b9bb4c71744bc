"""Plans: phases, limits, and what may be carried out after it was shown."""

from __future__ import annotations

import pytest

from provision.plan import Item, Plan, Refusal, Step, join, parse_phases
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
