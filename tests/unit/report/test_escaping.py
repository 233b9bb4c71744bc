"""A journal may hold any text: none of it becomes an element, an attribute, a style or a script of the page."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checks.bundle.redact import Redactor
from provision.report import entries, told
from provision.report.entries import plain
from provision.report.page import html
from provision.report.write import document
from tests.unit.report.journals import KINDS, RUN, raw
from tests.unit.report.pages import Page, page, report

HOSTILE = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "' onmouseover='alert(1)", "</style><b>", "</title>",
    "</pre></details>", "]]>", "<!--", "&lt;b&gt;", "&#x3c;", "{{ 7 * 7 }}", "{% raw %}", "\u202egpj.exe", "\u2066",
    "\x1b[31m\x07", "\x00", "\ud800", "\ufffe", "a\u2028b", "javascript:alert(1)", "https://elsewhere.example/x.js",
    "url(https://elsewhere.example/y)", "<svg/onload=alert(1)>", "é漢字", "-->", "<plaintext>", "<a href=//e.example>",
)  # fmt: skip
KEPT = ("event", "at", "run")
texts = st.one_of(
    st.sampled_from(HOSTILE), st.text(max_size=40), st.lists(st.sampled_from(HOSTILE)).map("".join)
)


def spoiled(value: Any, said: str, words: frozenset[str] = frozenset()) -> Any:
    """The same with every text replaced, and keys that no reader asks for; words that steer a reader stay."""
    if isinstance(value, str):
        return value if value in words else said
    if isinstance(value, list):
        return [spoiled(one, said, words) for one in value]
    if isinstance(value, dict):
        kept = {key: one if key in KEPT else spoiled(one, said, words) for key, one in value.items()}
        return {**kept, said: said} if "event" not in value else kept
    return value


STEERING = frozenset((
    "begin", "done", "failed", "undone", "copy", "delta", "source", "target", "pass", "warn", "fail", "skip", "live",
    "replayed", "accepted", "refused", "beside", "swap", "baseline", "measured",
))  # fmt: skip


def check(shown: Page) -> None:
    assert shown.strange == []
    assert shown.misplaced == []
    assert shown.left_open == []
    assert shown.comments == 0
    assert shown.elements.count("style") == 1
    assert shown.elements.count("title") == 1 + shown.elements.count("desc")


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(KINDS)), texts, st.booleans())
def test_no_text_of_a_journal_becomes_an_element_or_an_attribute(kind: str, said: str, steered: bool) -> None:
    events = spoiled(KINDS[kind](), said, STEERING if steered else frozenset())
    shown = page(events)
    check(shown)
    assert "\x00" not in shown.text
    assert not any(
        0x202A <= ord(letter) <= 0x202E or 0xD800 <= ord(letter) <= 0xDFFF for letter in shown.text
    )


@pytest.mark.parametrize("said", HOSTILE)
def test_hostile_text_is_shown_as_the_text_that_it_is(said: str) -> None:
    events = KINDS["red_gate"]()
    for event in events:
        if event["event"] == "failed":
            event["why"] = said
    shown = page(events)
    check(shown)
    assert plain(Redactor(None).text(said)) in shown.text


shapes = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@given(shapes, st.sampled_from(sorted(KINDS)), st.data())
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_a_fact_of_any_shape_makes_a_page_and_a_document(value: Any, kind: str, data: st.DataObject) -> None:
    events = KINDS[kind]()
    event = data.draw(st.sampled_from(events))
    event[data.draw(st.sampled_from(sorted(event)))] = value
    lines = [json.dumps(one).encode() for one in events]
    found = told.report(entries.read(RUN, b"\n".join(lines) + b"\n"))
    check(Page(html(found)))
    json.loads(document(found))


@given(st.binary(max_size=400))
def test_any_bytes_make_a_report(given_bytes: bytes) -> None:
    found = told.report(entries.read(RUN, given_bytes))
    check(Page(html(found)))
    assert found.outcome.state == "did not end"


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_page_asks_for_nothing_and_runs_nothing(kind: str) -> None:
    source = html(report(KINDS[kind]()))
    shown = Page(source)
    check(shown)
    assert "script" not in shown.elements
    assert len(shown.styles) >= 1
    for style in shown.styles:
        assert "url(" not in style
        assert "@import" not in style
        assert "://" not in style
    assert "://" not in source


SECRETS = {
    "token": "hf_" + "abcdefghijklmnop1234", "api_key": "sk-" + "abcdefghijklmnop",
    "said": "Authorization: Bearer abcdef123456",
    "why": "curl -u admin https://user:hunter2@host/x --api-key abcdef0123 failed", "password": "hunter2 hunter2",
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), SECRETS.items())
def test_a_secret_that_got_into_a_journal_is_in_no_report(name: str, value: str) -> None:
    events = KINDS["red_gate"]()
    for event in events:
        event[name] = value
        event.setdefault("findings", []).append(
            {"status": "fail", "id": "a.b", "subject": "x", "message": "m", name: value}
        )
    found = told.report(entries.read(RUN, raw(events)))
    whole = html(found) + document(found).decode()
    for secret in ("abcdefghijklmnop", "abcdef123456", "hunter2", "abcdef0123"):
        assert secret not in whole
    assert "(removed)" in whole
