"""A journal that is torn, strange or of another age still makes a report that says so."""

from __future__ import annotations

import json

import pytest

from provision.report import entries, told
from tests.unit.report.journals import KINDS, RUN, event, raw
from tests.unit.report.pages import page

WHOLE = raw(KINDS["green"]())


def test_a_last_line_that_a_crash_cut_off_is_said_and_the_rest_is_told() -> None:
    found = told.report(entries.read(RUN, WHOLE[:-40]))
    assert found.lost == ("its last line was cut off, as by a crash or a power failure",)
    assert found.outcome.state == "did not end"
    assert len(found.changes) == 4


def test_a_whole_journal_has_lost_nothing() -> None:
    assert told.report(entries.read(RUN, WHOLE)).lost == ()


@pytest.mark.parametrize(
    "garbage",
    [b"\x00" * 512, b"\xff\xfe{", b"not json", b"[1, 2]", b'"text"', b"{}", b'{"event": 7}', b"[" * 5000, b"{" * 5000,
     b'{"event": "end", "exit": ' + b"9" * 5000 + b"}"],
)  # fmt: skip
def test_a_line_that_is_no_event_is_counted_by_its_number_and_left_out(garbage: bytes) -> None:
    lines = WHOLE.split(b"\n")
    found = told.report(entries.read(RUN, b"\n".join([*lines[:3], garbage, *lines[3:]])))
    assert found.lost == ("1 line(s) are no events and are left out: 4",)
    assert found.outcome.state == "done"


def test_many_lost_lines_are_counted_and_not_all_named() -> None:
    found = entries.read(RUN, b"x\n" * 30 + WHOLE)
    assert found.lost == ("30 line(s) are no events and are left out: 1, 2, 3, 4, 5, 6, 7, 8 and 22 more",)


def test_what_is_torn_is_said_loudly_on_the_page() -> None:
    whole = page(KINDS["green"]())
    assert "TORN JOURNAL" not in whole.text
    from provision.report.page import html
    from tests.unit.report.pages import Page

    torn = Page(html(told.report(entries.read(RUN, WHOLE[:-40]))))
    assert "TORN JOURNAL its last line was cut off" in torn.words


def test_an_end_of_line_of_unicode_does_not_tear_a_journal() -> None:
    events = [*KINDS["in_sync"]()[:2], event(3, "failed", why="a\u2028b\u0085c"), event(4, "end", exit=1)]
    found = told.report(entries.read(RUN, raw(events)))
    assert found.lost == ()
    assert found.outcome.why == ("a\\u2028b\\x85c",)


OLD = {
    "at", "run", "event", "reason", "host", "service", "verdict", "exit", "name", "machine", "owner", "step", "kind",
    "subject", "text", "why", "gate",
}  # fmt: skip


def test_an_old_journal_without_the_newer_facts_is_told_as_far_as_it_goes() -> None:
    events = [one for one in KINDS["green"]() if one["event"] != "plan"]
    old = [{name: value for name, value in one.items() if name in OLD} for one in events]
    found = told.report(entries.read(RUN, raw(old)))
    assert (found.outcome.state, found.asked.by, found.evidence) == ("done", "ops@desk", "none")
    assert found.findings == ()
    assert {one.gate: one.after.verdict for one in found.gates if one.after} == {
        "gpus": "warn", "flags": "pass", "nccl": "skip",
    }  # fmt: skip


def test_a_text_without_end_is_bounded_and_says_so() -> None:
    events = [*KINDS["in_sync"]()[:1], event(1, "failed", why="x" * 200_000), event(2, "end", exit=1)]
    (why,) = told.report(entries.read(RUN, raw(events))).outcome.why
    assert len(why) < 17_000
    assert "183616 characters more are in the journal" in why


def test_an_event_that_no_reader_knows_is_shown_with_its_facts() -> None:
    events = [*KINDS["in_sync"](), event(9, "moon", phase="waxing")]
    assert "moon phase=waxing" in page(events).words


def test_numbers_that_are_none_are_not_known() -> None:
    events = KINDS["green"]()
    trial = next(one for one in events if one["event"] == "trial")
    trial |= {
        "tok_s": float("nan"),
        "downtime_s": -3,
        "acceptance": True,
        "start_s": "fast",
        "reading": {},
        "baseline": 7,
    }
    text = "".join(json.dumps(one) + "\n" for one in events)
    (one,) = told.report(entries.read(RUN, text.encode())).candidates
    assert (one.tok_s, one.downtime_s, one.acceptance, one.start_s) == (None, None, None, None)
