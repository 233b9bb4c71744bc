"""Empty, looping and unreadable answers are told apart from good ones."""

from __future__ import annotations

import pytest

from checks.data import prompts
from checks.serving.output import faults, look

GOOD = (
    "The harbour wakes slowly: a gull cries over the pier, ropes creak, and the first ferry waits with its"
    " lamps lit. " * 1
)


def test_a_good_answer_is_nothing_to_remark() -> None:
    assert faults([look(GOOD, "")] * 3) == ([], [])


@pytest.mark.parametrize("text", [*prompts.CODE, *prompts.PROSE])
def test_ordinary_texts_are_no_loops(text: str) -> None:
    assert faults([look(text, "")]) == ([], [])


def test_one_word_over_and_over_is_a_fault_in_all_answers_and_a_remark_in_one() -> None:
    stuck = look("word " * 60, "")
    assert faults([stuck, stuck])[0] == ["2 of 2 answers repeat one word"]
    assert faults([stuck, look(GOOD, "")]) == ([], ["1 of 2 answers repeat one word"])


def test_a_longer_loop_is_a_remark() -> None:
    assert faults([look("and then we go home again " * 20, "")]) == ([], ["1 of 1 answers end in a loop"])


def test_empty_answers_are_a_fault_and_reasoning_is_an_answer() -> None:
    assert faults([look("", "")])[0] == ["1 of 1 answers are empty"]
    assert faults([look("", GOOD)]) == ([], [])


def test_unreadable_characters_are_a_fault() -> None:
    assert faults([look("\ufffd\x01\x02" * 30, "")])[0] == ["1 of 1 answers are unreadable characters"]


def test_thinking_inside_the_content_is_told() -> None:
    assert "reasoning-parser" in faults([look("<think>hm</think> Paris.", "")])[1][0]
