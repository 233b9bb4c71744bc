"""An interrupted cut-over: what is said when it is left alone, and what the next run says when it has ended."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from checks.snapshot import Snapshot
from provision.host import last_run
from provision.plan import Item, Step
from provision.planner import Observed
from provision.run import earlier, host_journal, trying
from provision.run.tried import Tried
from provision.stack.cutover import Cutover, Mode
from provision.stack.trials import Trial
from tests.unit.plan.seen import Seen
from tests.unit.plan.tried import reading
from tests.unit.run.test_trying import GUEST, MACHINE, OWN
from tests.unit.status.test_cut_over import DIGEST

WORK = (
    f'ActiveState=active\nphase=trial {DIGEST}\ntold={{"mode": "swap", "run": "r7", "digest": "{DIGEST}"}}\n'
)
OVER = "ActiveState=inactive\n"
COMMAND = "units-cutover-tiny"
GUEST_HOST = MACHINE.guest_host_name(GUEST)


def look(
    command: str, verdict: Trial | None = None, service: str | None = None, back: str | None = None
) -> Observed:
    inside: Snapshot = (
        Seen()
        .remembers(OWN, verdict.dump().decode() if verdict else None, None, service=service, back=back)
        .cmd(COMMAND, command)
        .snapshot
    )
    return Observed(Seen().snapshot, {GUEST.name: inside})


def journal(*events: tuple[str, str], digest: str = DIGEST, service: str = "tiny", run: str = "r7") -> str:
    """What the machine's last run wrote down: events with the kind of what they are about."""
    lines = [
        json.dumps(
            {
                "event": event,
                "kind": kind,
                "subject": service,
                "host": GUEST_HOST,
                "text": f"{kind} it",
                "details": {"digest": digest},
            }
        )
        for event, kind in events
    ]
    return "\n".join([f"{run}.jsonl", *lines])


class Told:
    """What a run said of the ones before it, and kept of them."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        before: Observed | None,
        after: Observed,
        last: str = "",
        words: str = "",
        fresh: bool = False,
    ) -> None:
        self.said: list[str] = []
        self.journals: list[str] = []
        self.kept: list[tuple[str, str]] = []
        self.epochs = 0
        self.waited = 0
        self.fresh = fresh
        monkeypatch.setattr(host_journal, "append", lambda host, run, line: self.journals.append(line))
        monkeypatch.setattr(earlier, "observe", lambda host, asked: Seen().cmd("last-run", last).snapshot)
        monkeypatch.setattr(earlier, "settle", lambda machine, guest, services, *_: services)
        monkeypatch.setattr("provision.run.readings.keep", self.keep)
        monkeypatch.setattr("provision.acts.cutover.wait", self.wait)
        done = SimpleNamespace(ok=bool(words), text=words)
        monkeypatch.setattr("provision.host.transport.run", lambda *_, **__: done)
        session: Any = SimpleNamespace(
            id="r8",
            say=self.said.append,
            wanted=lambda machine: SimpleNamespace(services={GUEST.name: [OWN]}),
            observed=lambda machine: after,
            journal=SimpleNamespace(write=lambda event, **facts: f"{event} {facts['text']}"),
            host=lambda name: SimpleNamespace(name=name),
            new_epoch=self.new_epoch,
        )
        earlier.tell(session, MACHINE, before)

    def keep(self, session: Any, machine: Any, host: Any, desired: Any, digest: str, run: str) -> bool:
        self.kept.append((digest, run))
        return self.fresh

    def wait(self, *_: Any) -> None:
        self.waited += 1

    def new_epoch(self, machine: Any) -> None:
        self.epochs += 1


def test_the_next_run_says_what_came_of_the_one_that_it_waited_for_and_the_machine_keeps_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over = look(OVER, Trial(DIGEST, "refused", why="too slow", mode="swap", run="r7"))
    told = Told(monkeypatch, look(WORK), over, journal(("begin", "service.candidate")))
    assert len(told.said) == len(told.journals) == 1
    assert "that run r7 began has ended: the candidate was refused (swap): too slow" in told.said[0]
    assert told.journals[0].startswith("earlier the cut-over of kpro-tiny.service")
    assert told.kept == []


@pytest.mark.parametrize("kind", ["service.cutover", "service.candidate", "service.rollback"])
def test_one_that_ended_while_nobody_looked_is_told_by_the_next_run(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """By the machine's own journal: it was begun, and its run did not see the end."""
    one = Trial(DIGEST, "refused", why="too slow", mode="swap", run="r7").dump().decode()
    over = {
        "service.cutover": look(OVER, service=one),
        "service.rollback": look(OVER, back=one),
        "service.candidate": look(OVER, Trial(DIGEST, "refused", run="r7")),
    }[kind]
    for before in (None, over):
        told = Told(monkeypatch, before, over, journal(("begin", kind)))
        assert "that run r7 began has ended: " in told.said[0]
        assert "was refused" in told.said[0]
        assert len(told.said) == len(told.journals) == 1


def test_nothing_is_said_where_none_was_left_or_it_is_still_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    over = look(OVER, Trial(DIGEST, "accepted", run="r7"))
    begun, work = ("begin", "service.candidate"), look(WORK)
    for before, after, last in (
        (None, over, ""),
        (over, over, ""),
        (work, look(WORK), journal(begun)),
        (over, over, journal(begun, ("done", "service.candidate"))),
        (over, over, journal(begun, ("failed", "service.candidate"))),
        (over, over, journal(("begin", "stack.stage"))),
        (over, over, journal(begun, service="other")),
    ):
        told = Told(monkeypatch, before, after, last)
        assert (told.said, told.journals, told.kept) == ([], [], [])
        # Nothing is decided while it is at work, also when nobody carries it any more.
        assert (told.waited, told.epochs) == ((1, 1) if before is work else (0, 0))


def test_the_reading_of_what_was_accepted_while_nobody_looked_is_kept_as_its_run_would_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = Trial(OWN.digest, "accepted", mode="swap", run="r7").dump().decode()
    last = journal(("begin", "service.cutover"), digest=OWN.digest)
    told = Told(monkeypatch, None, look(OVER, service=one), last, fresh=True)
    assert told.kept == [(OWN.digest, "r7")]
    assert told.epochs == 1
    assert len(told.said) == 1


def test_where_there_is_no_reading_of_what_was_accepted_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for digest, tried in ((OWN.digest, 1), ("e" * 64, 0)):
        one = Trial(digest, "accepted", mode="swap", run="r7").dump().decode()
        last = journal(("begin", "service.cutover"), digest=digest)
        told = Told(monkeypatch, None, look(OVER, service=one), last)
        assert len(told.kept) == tried
        assert "there is no reading of what was accepted; tiny is measured as it runs before" in told.said[1]
    # It was kept before, and a fresh one was not worth more.
    after = look(OVER, service=one)
    snapshot = Seen().remembers(OWN, None, {"k": reading(digest=digest)}, service=one).cmd(COMMAND, OVER)
    after = Observed(after.host, {GUEST.name: snapshot.snapshot})
    assert len(Told(monkeypatch, None, after, last).said) == 1


def test_one_without_a_verdict_is_told_with_its_own_last_words_or_that_they_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    last = journal(("begin", "service.cutover"))
    other = look(OVER, Trial(DIGEST, "accepted", run="r6"))
    told = Told(monkeypatch, None, other, last, "[3 s] kpro-tiny.service generates at http://x\n")
    assert "without a verdict; its last words: [3 s] kpro-tiny.service generates at http://x" in told.said[0]
    told = Told(monkeypatch, None, other, last)
    assert "came to no verdict, and there are no words of its own" in told.said[0]
    assert "what was last seen well is in place" in told.said[0]


def test_what_one_guest_ended_says_nothing_of_what_another_began() -> None:
    """Guests are worked on beside each other."""
    begun = json.loads(journal(("begin", "service.candidate")).splitlines()[1])
    done = {"event": "done", "kind": "service.candidate", "subject": "tiny", "host": "@guest/box/other"}
    text = "\n".join(["r7.jsonl", json.dumps(begun), json.dumps(done | {"event": "begin"}), json.dumps(done)])
    run = last_run.last_run(Seen().cmd("last-run", text).snapshot)
    assert run is not None
    assert [(one.host, one.digest) for one in run.begun] == [(GUEST_HOST, DIGEST)]
    assert run.done == 1


@pytest.mark.parametrize(
    ("mode", "said"),
    [("swap", "It is down meanwhile; do not start it by hand"), ("beside", "It serves meanwhile")],
)
def test_an_interrupted_run_says_of_its_cut_over_that_it_goes_on_and_what_serves(
    monkeypatch: pytest.MonkeyPatch, mode: Mode, said: str
) -> None:
    session: Any = SimpleNamespace(id="r8", tried=Tried())
    item = Item(Step.SERVICE, "service.cutover", "c", "tiny", "swap it", Cutover(OWN, None, mode))

    def interrupted(state: Any, host: Any) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(trying, "carried", lambda *_: interrupted)
    with pytest.raises(KeyboardInterrupt):
        trying.tried(session, MACHINE, item)(SimpleNamespace(), SimpleNamespace())  # type: ignore[arg-type]
    (line,) = session.tried.left_alone()
    assert said in line
    assert "provision status" in line
    assert "tail -f /run/kpro-cutover/tiny/log" in line


def test_one_that_came_to_its_end_is_not_called_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = SimpleNamespace(id="r8", tried=Tried())
    monkeypatch.setattr(trying, "carried", lambda *_: lambda state, host: False)
    monkeypatch.setattr(trying, "outcome", lambda *_: None)
    monkeypatch.setattr(trying, "_tell", lambda *_: None)
    item = Item(Step.SERVICE, "service.cutover", "c", "tiny", "swap it", Cutover(OWN, None, "swap"))
    trying.tried(session, MACHINE, item)(SimpleNamespace(), SimpleNamespace())  # type: ignore[arg-type]
    assert session.tried.left_alone() == []
