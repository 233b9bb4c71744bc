"""What compared answers mean: each rule with the case that fires it and the one that does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from checks.data.answer_apis import NO_PROBABILITIES
from checks.data.questions import CHATS, QUESTIONS, TEXTS
from checks.model import Status
from checks.serving import answers_judge as judge
from checks.serving import answers_same as same
from checks.serving.answers_form import Answers, Item
from checks.serving.answers_sides import BROKE, Compared, Held, Met, Said, Scored
from checks.serving.limits import Limits

TOKENS = (5, 6, 7, 8)
LOGPROBS = (-0.1, -0.2, -0.3, -0.4)
PROMPT = (1, 2, 3)


def item(ident: str, **more: Any) -> Item:
    chat = ident in {one.id for one in CHATS}
    whole = Item(ident, PROMPT, 3 if chat else None, TOKENS, LOGPROBS, "five six", "five six", "stop")
    return replace(whole, **more)


def held(ident: str, **more: Any) -> Held:
    chat = ident in {one.id for one in CHATS}
    scored = Scored(
        LOGPROBS, tuple({token: value, 99: -9.0} for token, value in zip(TOKENS, LOGPROBS, strict=True))
    )
    said = Said(TOKENS, None, "five six", "stop")
    return replace(Held(ident, PROMPT, 3 if chat else None, "five six", scored, said), **more)


def case(**more: Any) -> Compared:
    items = {one.id: item(one.id) for one in QUESTIONS}
    looked = {one.id: held(one.id) for one in QUESTIONS}
    source = Answers("vllm", "0.20.1", "m", "", items, more.pop("source_files", {}), more.pop("none", ""))
    return replace(Compared(source, looked, Met(), "vllm", {}, True, Limits()), **more)


def changed(c: Compared, number: int, **more: Any) -> Compared:
    """The first ``number`` of what the target did, changed."""
    names = list(c.held)[:number]
    return replace(c, held={**c.held, **{name: replace(c.held[name], **more) for name in names}})


def answered(c: Compared, number: int, **more: Any) -> Compared:
    """The first ``number`` of what the source said, changed."""
    names = list(c.source.items)[:number]
    items = {**c.source.items, **{name: replace(c.source.items[name], **more) for name in names}}
    return replace(c, source=replace(c.source, items=items))


def test_equal_services_are_green_in_all() -> None:
    assert [one.status for one in judge.judge(case()).findings] == [Status.PASS] * 6


@pytest.mark.parametrize(("gap", "status"), [(0.099, Status.PASS), (0.101, Status.FAIL)])
def test_the_mean_difference_may_be_a_tenth_of_a_nat(gap: float, status: Status) -> None:
    lower = Scored(tuple(value - gap for value in LOGPROBS), held("capital").scored.ranked)  # type: ignore[union-attr]
    found = judge.logprobs(changed(case(), 26, scored=lower))
    assert (found.status, found.value) == (status, pytest.approx(gap))


def test_a_difference_up_and_one_down_do_not_cancel_out() -> None:
    gaps = (-2.0, 2.0, -2.0, 2.0)
    moved = Scored(
        tuple(value + gap for value, gap in zip(LOGPROBS, gaps, strict=True)),
        held("capital").scored.ranked,  # type: ignore[union-attr]
    )
    assert judge.logprobs(changed(case(), 26, scored=moved)).status is Status.FAIL


@pytest.mark.parametrize(("others", "status"), [(1, Status.PASS), (2, Status.FAIL)])
def test_one_of_26_first_tokens_may_be_another(others: int, status: Status) -> None:
    said = Said((9, 6, 7, 8), None, "nine", "stop")
    found = judge.first_token(changed(case(exact=False), others, said=said))
    assert (found.status, found.limit) == (status, 0.95)


@pytest.mark.parametrize(("gap", "status"), [(0.24, Status.PASS), (0.26, Status.FAIL)])
def test_two_equally_likely_first_tokens_agree(gap: float, status: Status) -> None:
    ranked = ({5: -0.1, 9: -0.1 - gap}, {6: -0.2}, {7: -0.3}, {8: -0.4})
    said = Said((9, 6, 7, 8), None, "nine", "stop")
    other = changed(case(exact=False), 2, said=said, scored=Scored(LOGPROBS, ranked))
    assert judge.first_token(other).status is status


def test_too_few_answers_are_unknown_and_never_green() -> None:
    few = answered(case(), 17, tokens=(), logprobs=None, why=f"{BROKE}x")
    assert judge.judge(few).verdict is Status.UNKNOWN
    assert {judge.answered(few).status, judge.logprobs(few).status, judge.first_token(few).status} == {
        Status.UNKNOWN
    }


def test_a_target_that_was_not_there_is_unknown_in_all() -> None:
    nothing = replace(case(), held={}, met=Met(down="nothing listens"))
    assert {one.status for one in judge.judge(nothing).findings} == {Status.UNKNOWN}


def test_answers_are_equal_to_the_last_token_where_that_is_demanded() -> None:
    other = Said((5, 6, 99, 8), None, "five six x", "stop")
    assert judge.text(changed(case(), 1, said=other)).status is Status.FAIL
    assert judge.text(changed(case(exact=False), 1, said=other)).status is Status.SKIP


@pytest.mark.parametrize(("gap", "status"), [(0.24, Status.WARN), (0.26, Status.FAIL)])
def test_a_choice_between_two_equally_likely_tokens_is_no_other_answer(gap: float, status: Status) -> None:
    ranked = ({5: -0.1}, {6: -0.2}, {7: -0.3, 99: -0.3 - gap}, {8: -0.4})
    other = Said((5, 6, 99, 1), None, "five six x", "stop")
    found = judge.text(changed(case(), 1, said=other, scored=Scored(LOGPROBS, ranked)))
    assert found.status is status


def test_a_shorter_answer_is_another_one() -> None:
    short = Said((5, 6), None, "five", "stop")
    assert judge.text(changed(case(), 1, said=short)).status is Status.FAIL


def test_a_decoder_that_says_what_it_finds_unlikely_is_red_though_equality_is_not_demanded() -> None:
    other = Said((5, 6, 99, 8), None, "five six x", "stop")
    assert judge.text(changed(case(exact=False), 2, said=other)).status is Status.FAIL
    assert judge.text(changed(case(exact=False), 1, said=other)).status is Status.SKIP


def test_an_answer_that_was_cut_off_is_red() -> None:
    cut = Said((5, 6), None, "five", "abort")
    found = judge.answered(changed(case(exact=False), 1, said=cut))
    assert (found.status, "abort" in found.message) == (Status.FAIL, True)


def test_one_question_that_the_target_refuses_is_red() -> None:
    found = judge.answered(
        changed(case(), 1, trouble="400 Token id 700 is out of vocabulary", scored=None, said=None)
    )
    assert (found.status, "vocabulary" in found.message) == (Status.FAIL, True)


def test_a_question_at_which_the_source_itself_fails_is_not_held_against_the_target() -> None:
    hello = replace(item("hello"), prompt=None, tokens=(), logprobs=None, why=f"{BROKE}500")
    c = case()
    c = replace(
        c,
        source=replace(c.source, items={**c.source.items, "hello": hello}),
        held={**c.held, "hello": Held("hello")},
    )
    assert judge.judge(c).verdict is Status.PASS
    other = replace(c, held={**c.held, "system": replace(c.held["system"], prompt=(1, 2, 4))})
    assert same.template(other).status is Status.FAIL


def without(c: Compared, **forced: int) -> Compared:
    """Neither side tells probabilities; the target says the source's tokens at two places, but where ``forced``."""
    c = answered(c, 26, logprobs=None)
    told = {0: 5, 2: 7}
    return replace(
        c,
        held={
            name: replace(one, scored=None, forced=told | ({0: 9} if name in forced else {}))
            for name, one in c.held.items()
        },
    )


@pytest.mark.parametrize("words", NO_PROBABILITIES)
def test_an_engine_that_never_tells_probabilities_is_held_by_its_tokens_within_the_answers(
    words: str,
) -> None:
    none = f"400 {words} yet."
    report = judge.judge(without(case(none=none, exact=False)))
    assert {one.id: one.status for one in report.findings}["serve.answers_logprobs"] is Status.SKIP
    assert report.verdict is Status.PASS
    red = judge.judge(without(case(none=none, exact=False), capital=1, count=1, square=1))
    assert red.verdict is Status.FAIL


def test_any_other_reason_for_no_probabilities_is_unknown() -> None:
    report = judge.judge(without(case(none="400 logprobs are greater than max allowed: 0", exact=False)))
    found = next(one for one in report.findings if one.id == "serve.answers_logprobs")
    assert (found.status, "max allowed" in found.message) == (Status.UNKNOWN, True)
    assert report.verdict is Status.UNKNOWN


@pytest.mark.parametrize("ident", ["signs", "special"])
def test_one_text_with_other_tokens_is_another_tokenizer(ident: str) -> None:
    c = case()
    other = replace(c, held={**c.held, ident: held(ident, prompt=(1, 2, 4))})
    found = same.tokenizer(other)
    assert (found.status, ident in found.message) == (Status.FAIL, True)


def test_tokens_that_read_otherwise_are_another_tokenizer() -> None:
    assert same.tokenizer(changed(case(), 1, spelled="five  six")).status is Status.FAIL


def test_texts_that_nothing_shows_the_tokens_of_are_unknown_unless_the_files_are_equal() -> None:
    hidden = answered(case(), len(TEXTS), prompt=None)
    assert same.tokenizer(hidden).status is Status.UNKNOWN
    files = {"tokenizer.json": "a" * 64}
    known = answered(case(source_files=files, files=files), len(TEXTS), prompt=None)
    assert same.tokenizer(known).status is Status.PASS
    assert same.tokenizer(replace(known, files={"tokenizer.json": "b" * 64})).status is Status.FAIL
    assert same.tokenizer(replace(known, files={})).status is Status.UNKNOWN


def chats(c: Compared, ours: dict[str, Any], theirs: dict[str, Any]) -> Compared:
    items = {**c.source.items, **{one.id: item(one.id, **ours) for one in CHATS}}
    looked = {**c.held, **{one.id: held(one.id, **theirs) for one in CHATS}}
    return replace(c, source=replace(c.source, items=items), held=looked)


def test_a_chat_with_other_tokens_or_another_length_is_another_template() -> None:
    assert same.template(chats(case(), {}, {"prompt": (1, 2, 4)})).status is Status.FAIL
    assert same.template(chats(case(), {}, {"length": 4})).status is Status.FAIL
    assert same.template(chats(case(), {"length": None}, {"length": 4})).status is Status.PASS


def test_where_no_chat_is_shown_the_files_and_the_lengths_stand_for_it_and_it_is_said() -> None:
    files = {"tokenizer_config.json": "a" * 64, "chat_template.jinja": "c" * 64}
    hidden = {"prompt": None}
    c = chats(case(source_files=files, files=files, kind="sglang"), hidden, hidden)
    found = same.template(c)
    assert (found.status, "SGLang" in found.message, "sha256" in found.message) == (Status.PASS, True, True)
    assert same.template(replace(c, files={})).status is Status.UNKNOWN
    assert same.template(replace(c, files={**files, "chat_template.jinja": "d" * 64})).status is Status.FAIL
    longer = chats(c, hidden, {"prompt": None, "length": 4})
    assert same.template(longer).status is Status.FAIL
    uncounted = chats(c, {"prompt": None, "length": None}, hidden)
    assert same.template(uncounted).status is Status.UNKNOWN


def test_a_template_that_only_one_of_the_two_has_is_red_and_none_on_both_is_no_matter() -> None:
    none = {
        "prompt": None,
        "length": None,
        "why": "refused: 400 no chat template",
        "tokens": (),
        "logprobs": None,
    }
    here = {"prompt": None, "length": None, "refused": "400 no chat template"}
    assert same.template(chats(case(), none, here)).status is Status.SKIP
    assert same.template(chats(case(), none, {})).status is Status.FAIL
    assert same.template(chats(case(), {}, here)).status is Status.FAIL


def test_a_source_that_was_cut_off_or_failed_three_times_is_no_source() -> None:
    def of(**more: Any) -> Status:
        c = answered(case(), 1, **more)
        return judge.judge_asked(c.source, Met()).verdict

    assert of() is Status.PASS
    assert of(finish="abort") is Status.FAIL
    assert of(tokens=(), logprobs=None, why=f"{BROKE}500") is Status.WARN
    three = answered(case(), 3, tokens=(), logprobs=None, why=f"{BROKE}500")
    assert judge.judge_asked(three.source, Met()).verdict is Status.FAIL
    assert of(tokens=(), logprobs=None, why="refused: 400 too long") is Status.PASS
    assert judge.judge_asked(case().source, Met(down="nothing listens")).verdict is Status.UNKNOWN
    assert judge.judge_asked(case().source, Met(stopped="500")).verdict is Status.FAIL


def test_questions_are_each_of_their_own_and_none_is_long() -> None:
    assert len({one.id for one in QUESTIONS}) == len(QUESTIONS) >= 24
    assert {one.chat for one in TEXTS} == {False}
    assert {one.chat for one in CHATS} == {True}
    longest = max(len(one.text or str(one.messages)) for one in QUESTIONS)
    assert longest < 1500
