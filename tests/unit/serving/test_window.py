"""Where a passive look starts to count, and how a rate is made from answers."""

from __future__ import annotations

import pytest

from checks.data import prompts
from checks.serving.client import Answer
from checks.serving.live import window_start
from checks.serving.observation import Observation
from checks.serving.window import decode_rate


def _page(drafts: float | None, tokens: float) -> str:
    spec = f'vllm:spec_decode_num_drafts_total{{engine="0"}} {drafts}\n' if drafts is not None else ""
    return spec + f'vllm:generation_tokens_total{{engine="0"}} {tokens}\n'


@pytest.mark.parametrize(
    ("before", "after", "start"),
    [
        (_page(100, 300), _page(350, 900), "after"),
        (_page(100, 300), _page(150, 400), "before"),
        (None, _page(500, 900), "after"),
        (None, _page(50, 90), "before"),
        (_page(None, 100), _page(None, 5000), "after"),
        (_page(None, 100), _page(None, 900), "before"),
        (_page(500, 900), _page(10, 20), "after"),
    ],
)
def test_counts_that_were_too_few_to_judge_are_counted_again(
    before: str | None, after: str, start: str
) -> None:
    seen = Observation(before=before, after=after)
    assert window_start(seen) == getattr(seen, start)


def test_a_rate_counts_tokens_after_the_first_over_the_time_since_the_first() -> None:
    answers = [
        Answer(tokens=101, seconds=2.0),
        Answer(tokens=51, seconds=1.0),
        Answer(tokens=1, seconds=0.0),
        Answer(),
    ]
    assert decode_rate(answers) == pytest.approx(50.0)


def test_without_token_counts_there_is_no_rate_since_chunks_are_no_tokens() -> None:
    assert decode_rate([Answer(content="a b c", seconds=1.0)]) is None


@pytest.mark.parametrize("tokens", [160, 2000, 8192])
def test_a_preamble_is_about_as_long_as_asked_and_always_the_same(tokens: int) -> None:
    text = prompts.preamble(tokens)
    assert text == prompts.preamble(tokens)
    assert 0.5 * tokens < len(text) / 4 < 1.5 * tokens
    days = text.splitlines()[: tokens // 16]
    assert len(set(days)) == len(days)


def test_no_preamble_leaves_the_prompt_alone() -> None:
    assert prompts.preamble(0) == ""
