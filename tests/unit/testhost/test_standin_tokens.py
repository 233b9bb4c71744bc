"""Tokens of the stand-in: told, weighed and rendered in vLLM's forms, and one model told from another by them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from provision.testhost.model import make_model
from provision.testhost.process import Standin

Start = Callable[..., Standin]
CHAT = {"messages": [{"role": "user", "content": "naïve bufe question"}]}
IDS = [5, 6, 7, 8, 9]


def post(engine: Standin, path: str, **body: Any) -> Any:
    return engine.ask("POST", path, {"model": "tiny", **body})


def completion(engine: Standin, **body: Any) -> dict[str, Any]:
    reply = post(engine, "/v1/completions", **body)
    assert reply.status == 200, reply.body
    choice = reply.json["choices"][0]
    assert isinstance(choice, dict)
    return choice


def test_a_text_and_a_chat_are_tokens_of_the_vocabulary_and_as_many_as_the_usage_says(fast: Standin) -> None:
    text = post(fast, "/tokenize", prompt="bufe unheard-of words").json
    chat = post(fast, "/tokenize", **CHAT).json
    usage = post(fast, "/v1/chat/completions", max_tokens=1, **CHAT).json["usage"]
    assert (text["count"], len(text["tokens"]), len(set(text["tokens"]))) == (3, 3, 3)
    assert chat["count"] == usage["prompt_tokens"] == 4


def test_a_chat_tells_the_ids_that_it_was_rendered_to(fast: Standin) -> None:
    told = post(fast, "/v1/chat/completions", max_tokens=1, return_token_ids=True, **CHAT).json
    assert told["prompt_token_ids"] == post(fast, "/tokenize", **CHAT).json["tokens"]
    assert "prompt_token_ids" not in post(fast, "/v1/chat/completions", max_tokens=1, **CHAT).json


def test_tokens_read_as_their_words(fast: Standin) -> None:
    words = post(fast, "/detokenize", tokens=IDS).json["prompt"].split()
    assert post(fast, "/tokenize", prompt=" ".join(words)).json["tokens"] == IDS


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/tokenize", {}, 400),
        ("/tokenize", {"prompt": 5}, 400),
        ("/tokenize", {"messages": []}, 400),
        ("/detokenize", {"tokens": [99999]}, 400),
        ("/detokenize", {"tokens": "x"}, 400),
        ("/tokenize", {"prompt": "x", "model": "other"}, 404),
        ("/v1/completions", {"prompt": IDS, "prompt_logprobs": 1, "stream": True}, 400),
        ("/v1/completions", {"prompt": IDS, "prompt_logprobs": -1}, 400),
        ("/v1/completions", {"prompt": IDS, "prompt_logprobs": 21}, 400),
    ],
)
def test_a_wrong_question_is_refused(fast: Standin, path: str, body: dict[str, Any], status: int) -> None:
    assert fast.ask("POST", path, {"model": "tiny", **body}).status == status


def test_an_answer_to_ids_is_weighed_as_it_was_made(fast: Standin) -> None:
    """The law that lets one engine weigh what another one said."""
    told = completion(
        fast, prompt=IDS, max_tokens=12, logprobs=1, return_token_ids=True, return_tokens_as_token_ids=True
    )
    made = told["token_ids"]
    assert told["prompt_token_ids"] == IDS
    assert told["logprobs"]["tokens"] == [f"token_id:{token}" for token in made]
    rows = completion(fast, prompt=[*IDS, *made], max_tokens=1, prompt_logprobs=3)["prompt_logprobs"]
    assert rows[0] is None
    assert len(rows) == len(IDS) + len(made)
    weighed = [row[str(token)]["logprob"] for token, row in zip(made, rows[len(IDS) :], strict=True)]
    assert weighed == pytest.approx(told["logprobs"]["token_logprobs"])
    assert {row[str(token)]["rank"] for token, row in zip(made, rows[len(IDS) :], strict=True)} == {1}


def test_what_was_not_said_is_less_likely_than_what_would_have_been(fast: Standin) -> None:
    rows = completion(fast, prompt=IDS, max_tokens=1, prompt_logprobs=1)["prompt_logprobs"]
    assert any(len(row) == 2 for row in rows[1:])
    for row in filter(lambda row: len(row) == 2, rows[1:]):
        best = max(row.values(), key=lambda one: one["logprob"])
        assert best["rank"] == 1
        assert min(one["logprob"] for one in row.values()) <= -2.0


def test_one_token_alone_has_no_log_probability(fast: Standin) -> None:
    assert completion(fast, prompt=[5], max_tokens=1, prompt_logprobs=1)["prompt_logprobs"] == [None]


def test_other_weights_make_other_answers_of_the_same_ids(
    start: Start, fast: Standin, tmp_path: Path
) -> None:
    make_model(tmp_path / "other", seed=1)
    other = start("--tok-s", "20000", "--served-model-name", "tiny", model=tmp_path / "other")
    body = {"prompt": IDS, "max_tokens": 8, "return_token_ids": True}
    assert completion(other, **body)["token_ids"] != completion(fast, **body)["token_ids"]


def test_another_template_renders_otherwise_and_tells_texts_the_same(
    start: Start, fast: Standin, model_folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(model_folder, tmp_path / "other")
    (tmp_path / "other/chat_template.jinja").write_text("{{ messages }}")
    other = start("--served-model-name", "tiny", model=tmp_path / "other")
    for engine in (other, start("--served-model-name", "tiny", "--fault", "other-template")):
        ours, theirs = (post(one, "/tokenize", **CHAT).json["tokens"] for one in (fast, engine))
        assert ours[0] != theirs[0]
        assert ours[1:] == theirs[1:]
        ours, theirs = (post(one, "/tokenize", prompt="bufe x").json["tokens"] for one in (fast, engine))
        assert ours == theirs


def test_wrong_answers_are_others_in_texts_and_ids(start: Start, fast: Standin) -> None:
    wrong = start("--served-model-name", "tiny", "--tok-s", "20000", "--fault", "wrong-answers")
    for prompt in ("bufe", IDS):
        assert completion(wrong, prompt=prompt)["text"] != completion(fast, prompt=prompt)["text"]


def test_a_cut_off_answer_says_so(start: Start) -> None:
    cut = start("--served-model-name", "tiny", "--tok-s", "20000", "--fault", "cut-off")
    told = completion(cut, prompt=IDS, max_tokens=12, return_token_ids=True)
    assert (len(told["token_ids"]), told["finish_reason"]) == (3, "abort")
