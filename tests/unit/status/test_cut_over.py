"""A cut-over that is at work, was cut off, or ended without its run: what status, plan and the next apply say."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from checks.snapshot import CouldNotLook
from provision.host.last_run import Begun, LastRun
from provision.plan import Item, Step
from provision.stack import trials, under_way
from provision.stack.desired import desired_service
from provision.stack.trials import Trial
from provision.status import cut_over
from provision.status.show import show
from provision.status.state import unreachable
from tests.unit.plan.seen import Seen
from tests.unit.status.test_status import GUEST, MACHINE, SERVICE

NAME, DIGEST = "chat", "d" * 64
COMMAND = under_way.request(NAME).split(":")[1]
TOLD = json.dumps({"mode": "swap", "run": "r7", "digest": DIGEST})
OWN = desired_service(GUEST, SERVICE)
AGAIN = Item(Step.SERVICE, "service.cutover", "c", NAME, "start kpro-chat.service again and see it generate")


def seen(state: str = "active", phase: str = f"trial {DIGEST}", told: str = TOLD) -> Seen:
    lines = [f"ActiveState={state}", "ActiveEnterTimestamp=Mon 2026-11-30 08:00:00 UTC"]
    lines += [f"phase={phase}"] if phase else []
    lines += [f"told={told}"] if told else []
    return Seen().cmd(COMMAND, "\n".join(lines) + "\n")


def guests(inside: Seen, **service: object) -> list[dict[str, object]]:
    return [
        {"guest": "llm", "services": [{"service": NAME, **cut_over.kept(NAME, inside.snapshot), **service}]}
    ]


def test_what_is_at_work_is_said_with_phase_and_since_when_and_what_not_to_do() -> None:
    (line,) = cut_over.lines(cut_over.kept(NAME, seen().snapshot))
    for part in (
        "kpro-cutover-chat.service is at work: phase trial, swap, since Mon 2026-11-30 08:00:00 UTC, run r7",
        "kpro-chat.service may be down meanwhile: do not start or stop it by hand",
    ):
        assert part in line
    beside = json.dumps({"mode": "beside"})
    assert "serves meanwhile" in cut_over.lines(cut_over.kept(NAME, seen(told=beside).snapshot))[0]
    published = seen(phase=f"publish {DIGEST}", told=beside)
    assert "may be down" in cut_over.lines(cut_over.kept(NAME, published.snapshot))[0]


@pytest.mark.parametrize("told", ["", "{", "[]", '{"run": 7}'])
def test_one_that_tells_nothing_of_itself_is_at_work_all_the_same(told: str) -> None:
    found = under_way.read(NAME, seen("active", "", told).snapshot)
    assert found is not None
    assert (found.at_work, found.phase, found.run) == (True, "", "")


def test_one_that_is_in_no_phase_is_not_said_to_be_in_one() -> None:
    """Its phase file comes after its unit, and goes before it."""
    (line,) = cut_over.lines(cut_over.kept(NAME, seen(phase="").snapshot))
    assert "at work: it has just begun, or is just over, swap" in line
    assert "phase" not in line
    assert (cut_over.kept(NAME, seen(phase="").snapshot)["cut_over"] or {})["phase"] is None
    (line,) = cut_over.lines(cut_over.kept(NAME, seen("deactivating").snapshot))
    assert "at work: it ends, and what it left half-way is put back" in line


def test_one_that_was_cut_off_is_not_at_work_and_the_next_apply_mends_it() -> None:
    found = under_way.read(NAME, seen("inactive").snapshot)
    assert found is not None
    assert not found.at_work
    assert "was cut off in phase trial" in found.text


def test_without_one_nothing_is_said() -> None:
    assert cut_over.kept(NAME, seen("inactive", "").snapshot) == {"cut_over": None}
    assert cut_over.lines({"cut_over": None}) == []
    assert under_way.read(NAME, Seen().snapshot) is None


def test_what_could_not_be_looked_at_is_not_taken_for_absent() -> None:
    with pytest.raises(CouldNotLook):
        under_way.read(NAME, Seen().put("cmd", COMMAND, None, "no answer").snapshot)


def test_nobody_is_told_to_start_a_service_whose_cut_over_is_at_work() -> None:
    other = Item(Step.STACK, "stack.base", "c", "llm", "user kpro")
    was = under_way.read(NAME, seen().snapshot)
    assert was is not None
    later = was.later(AGAIN)
    assert later.text.startswith("once kpro-cutover-chat.service has ended, if it is then still due: start")
    assert (later.id, later.shown_as) == (AGAIN.id, AGAIN.shown_as)
    assert cut_over.pending([other, later, later], guests(seen())) == (
        "nothing by hand: kpro-cutover-chat.service is at work; look again when it has ended",
        "user kpro [c]",
    )
    assert cut_over.pending([AGAIN], guests(seen("inactive"))) == (f"{AGAIN.text} [c]",)


def test_what_came_of_it_is_said_of_that_very_run_and_profile() -> None:
    for path, one, what in (
        (trials.path(NAME), Trial(DIGEST, "accepted", mode="swap", downtime_s=4.0, run="r7"), "the candidate was accepted (swap, down for 4.0 s)"),  # noqa: E501
        (trials.service_path(NAME), Trial(DIGEST, "refused", why="too slow\nmore", mode="swap", run="r7"), "the changed profile was refused (swap): too slow"),  # noqa: E501
        (trials.back_path(NAME), Trial(DIGEST, "accepted", mode="swap", run="r7"), "the profile that served before was accepted (swap)"),  # noqa: E501
        (trials.path(NAME), Trial(DIGEST, "accepted", run="r6"), ""),
        (trials.path(NAME), Trial("e" * 64, "accepted", run="r7"), ""),
    ):  # fmt: skip
        after = seen("inactive", "").remembers(OWN).put("file", path, one.dump())
        found = under_way.verdict(NAME, "r7", DIGEST, after.snapshot)
        assert bool(found) is bool(what)
        if found:
            text = under_way.came_of(NAME, *found)
            assert what in text
            assert "run r7 began" in text
    torn = seen("inactive", "").remembers(OWN, verdict="{")
    assert under_way.verdict(NAME, "r7", DIGEST, torn.snapshot) is None


def last(*begun: Begun) -> LastRun:
    return LastRun("r7", "t", 0, None, begun)


def test_one_that_ended_without_its_run_is_no_longer_begun_and_not_ended() -> None:
    one = Begun("service.cutover", NAME, "@guest/box/llm", AGAIN.text, DIGEST)
    verdict = Trial(DIGEST, "accepted", run="r7").as_dict()
    for where in ("verdict", "last_cut_over", "last_way_back"):
        found = cut_over.ended(last(one), guests(seen("inactive", ""), **{where: verdict}))
        assert found.unfinished is None
        assert found.ended_alone == (f"{AGAIN.text}: it ended without its run, accepted",)
    other = Trial(DIGEST, "accepted", run="r6").as_dict()
    foreign = Begun("service.cutover", NAME, "@guest/box/second", AGAIN.text, DIGEST)
    step = Begun("stack.engine", NAME, "@guest/box/llm", "build the engine")
    for run, known in (
        (last(one), {"verdict": other}),
        (last(step), {"verdict": verdict}),
        (last(foreign), {"verdict": verdict}),
        (last(Begun("service.cutover", NAME, one.host, AGAIN.text, "e" * 64)), {"verdict": verdict}),
    ):
        assert cut_over.ended(run, guests(seen("inactive", ""), **known)) == run
    assert cut_over.ended(last(one), guests(seen(), verdict=verdict)) == last(one)
    both = cut_over.ended(last(one, step), guests(seen("inactive", ""), verdict=verdict))
    assert both.begun == (step,)


def test_one_that_only_started_what_was_there_is_over_when_that_was_seen_well() -> None:
    """It comes to no verdict."""
    one = Begun("service.cutover", NAME, "@guest/box/llm", AGAIN.text, DIGEST)
    well = cut_over.ended(last(one), guests(seen("inactive", ""), seen_well=True))
    assert well.ended_alone == (
        f"{AGAIN.text}: it ended without its run, without a verdict; what serves now was seen well",
    )
    assert cut_over.ended(last(one), guests(seen("inactive", ""), seen_well=False)) == last(one)


@pytest.mark.parametrize(
    ("more", "word"), [((), "a cut-over is at work"), (("start it",), "1 change(s) pending")]
)
def test_what_is_at_work_is_no_change_that_is_pending(more: tuple[str, ...], word: str) -> None:
    out = io.StringIO()
    pending = (f"{cut_over.BY_HAND}kpro-cutover-chat.service is at work", *more)
    show(
        [replace(unreachable(MACHINE, ""), state="pending", pending=pending)],
        [{}],
        Console(file=out, width=200),
    )
    assert out.getvalue().splitlines()[0] == f"box  {word}"
