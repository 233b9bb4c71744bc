"""What a client sees: both request forms, streamed and whole, the models, the refusals."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any

import pytest

from provision.testhost.process import Standin


def text_of(reply: Any) -> str:
    return str(reply.json["choices"][0]["text"])


def test_a_completion_has_words_a_reason_to_end_and_a_true_usage(fast: Standin) -> None:
    reply = fast.complete("one two three", max_tokens=12, ignore_eos=True)
    assert reply.status == 200
    choice = reply.json["choices"][0]
    assert choice["finish_reason"] == "length"
    assert len(choice["text"].split()) == 12
    assert reply.json["usage"] == {"prompt_tokens": 3, "completion_tokens": 12, "total_tokens": 15}
    assert reply.json["model"] == "tiny"


def test_a_chat_answers_as_the_assistant(fast: Standin) -> None:
    reply = fast.chat("one two", max_tokens=5, ignore_eos=True)
    assert reply.json["object"] == "chat.completion"
    assert reply.json["choices"][0]["message"]["role"] == "assistant"
    assert len(reply.json["choices"][0]["message"]["content"].split()) == 5


def test_equal_prompts_get_equal_answers_and_others_get_others(fast: Standin) -> None:
    first, again, other = (text_of(fast.complete(prompt)) for prompt in ("a", "a", "b"))
    assert first == again != other


def test_a_stream_says_the_same_as_the_whole_answer(fast: Standin) -> None:
    whole = fast.complete(max_tokens=40, ignore_eos=True)
    stream = fast.complete(max_tokens=40, ignore_eos=True, stream=True)
    assert stream.headers["Content-Type"].startswith("text/event-stream")
    assert stream.events[-1] == "[DONE]"
    pieces = [json.loads(event) for event in stream.events[:-1]]
    assert "".join(piece["choices"][0]["text"] for piece in pieces) == text_of(whole)
    assert [piece["choices"][0]["finish_reason"] for piece in pieces][-2:] == [None, "length"]
    assert len(pieces) < 40, "several tokens of one draft come in one piece"
    assert all("usage" not in piece for piece in pieces)


def test_a_streamed_chat_opens_with_the_role_and_closes_with_the_usage_when_asked(fast: Standin) -> None:
    options = {"stream": True, "stream_options": {"include_usage": True}}
    events = fast.chat("one two", max_tokens=8, ignore_eos=True, **options).events
    pieces = [json.loads(event) for event in events[:-1]]
    assert pieces[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert pieces[-1]["choices"] == []
    assert pieces[-1]["usage"] == {"prompt_tokens": 3, "completion_tokens": 8, "total_tokens": 11}
    words = "".join(piece["choices"][0]["delta"]["content"] for piece in pieces[:-1]).split()
    assert len(words) == 8


def test_a_connection_serves_a_stream_and_then_another_request(fast: Standin) -> None:
    # Wrong chunk framing would make the second answer unreadable.
    connection = http.client.HTTPConnection("127.0.0.1", fast.port, timeout=10)
    try:
        for _ in range(2):
            connection.request("POST", "/v1/completions", json.dumps({"prompt": "a", "stream": True}))
            assert connection.getresponse().read().endswith(b"[DONE]\n\n")
        connection.request("GET", "/health")
        assert connection.getresponse().read() == b""
    finally:
        connection.close()


def test_an_answer_ends_by_itself_unless_that_is_ignored(fast: Standin) -> None:
    ends = {fast.complete(f"p{i}", max_tokens=2000).json["choices"][0]["finish_reason"] for i in range(3)}
    assert ends == {"stop"}
    forced = fast.complete("p0", max_tokens=2000, ignore_eos=True)
    assert forced.json["usage"]["completion_tokens"] == 2000


def test_a_stop_text_cuts_the_answer_before_it_also_in_a_stream(fast: Standin) -> None:
    words = text_of(fast.complete(max_tokens=20, ignore_eos=True)).split()
    stop = words[5][-2:] + " " + words[6][:1]
    options = {"max_tokens": 20, "ignore_eos": True, "stop": [stop]}
    cut = fast.complete(**options)
    assert text_of(cut) == " ".join(words[:6])[:-2]
    assert cut.json["choices"][0]["finish_reason"] == "stop"
    pieces = [json.loads(event) for event in fast.complete(**options, stream=True).events[:-1]]
    assert "".join(piece["choices"][0]["text"] for piece in pieces) == text_of(cut)


def test_log_probabilities_match_the_tokens_and_repeat(fast: Standin) -> None:
    one, two = (fast.complete(max_tokens=6, ignore_eos=True, logprobs=3).json for _ in range(2))
    listed = one["choices"][0]["logprobs"]
    assert listed == two["choices"][0]["logprobs"]
    assert " ".join(listed["tokens"]) == one["choices"][0]["text"]
    for token, value, top in zip(
        listed["tokens"], listed["token_logprobs"], listed["top_logprobs"], strict=True
    ):
        assert len(top) == 3
        assert max(top, key=lambda name: float(top[name])) == token
        assert top[token] == value <= 0
    text = one["choices"][0]["text"]
    for token, offset in zip(listed["tokens"], listed["text_offset"], strict=True):
        assert text[offset:].lstrip().startswith(token)


def test_a_streamed_chat_lists_the_same_log_probabilities_as_the_whole_one(fast: Standin) -> None:
    options = {"max_tokens": 9, "ignore_eos": True, "logprobs": True, "top_logprobs": 2}
    whole = fast.chat(**options).json["choices"][0]["logprobs"]["content"]
    events = fast.chat(**options, stream=True).events[:-1]
    streamed = [json.loads(event)["choices"][0]["logprobs"] for event in events]
    assert [entry for listed in streamed if listed for entry in listed["content"]] == whole
    assert len(whole) == 9
    assert all(len(entry["top_logprobs"]) == 2 for entry in whole)


def test_the_model_is_listed_under_the_name_it_is_served_by(fast: Standin) -> None:
    (card,) = fast.get("/v1/models").json["data"]
    assert (card["id"], card["max_model_len"]) == ("tiny", 4096)


def test_it_says_that_it_is_no_language_model(fast: Standin) -> None:
    assert fast.get("/version").json["stand_in"] is True
    assert "not a language model" in fast.get("/version").json["note"]
    assert "not a language model" in fast.log


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (b"{", 400, "not JSON"),
        (b"[" * 100_000, 400, "not JSON"),
        (b"[]", 400, "not a JSON object"),
        ({}, 400, "prompt must be"),
        ({"prompt": "a", "model": "other"}, 404, "`other` does not exist"),
        ({"prompt": "a", "model": ["tiny"]}, 404, "does not exist"),
        ({"prompt": "a", "max_tokens": 0}, 400, "max_tokens must be"),
        ({"prompt": "a", "max_tokens": True}, 400, "max_tokens must be"),
        ({"prompt": "a", "max_tokens": 4096}, 400, "exceed the context of 4096"),
        ({"prompt": "a " * 4096}, 400, "exceed the context of 4096"),
        ({"prompt": "a", "n": 2}, 400, "n=2 is not simulated"),
        ({"prompt": "a", "echo": True}, 400, "echo=True is not simulated"),
        ({"prompt": "a", "stop": [""]}, 400, "stop must be"),
        ({"prompt": "a", "stream": "yes"}, 400, "stream must be true or false"),
        ({"prompt": "a", "logprobs": 21}, 400, "from 0 to 20"),
        ({"prompt": "a", "stream_options": 3}, 400, "stream_options must be"),
        ({"prompt": ["a", "b"]}, 400, "one text or one list"),
        ({"prompt": [1, 99999]}, 400, "not in the vocabulary"),
    ],
)
def test_a_wrong_request_is_refused_with_its_reason(
    fast: Standin, body: Any, status: int, reason: str
) -> None:
    reply = fast.ask("POST", "/v1/completions", body)
    assert reply.status == status
    assert reason in reply.json["error"]["message"]
    assert fast.complete("a").status == 200


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"messages": []}, "at least one message"),
        ({"messages": ["hello"]}, "needs a role"),
        ({"messages": [{"role": "user", "content": 3}]}, "a text or a list of text parts"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "list of text parts"),
    ],
)
def test_a_wrong_chat_is_refused_with_its_reason(fast: Standin, body: Any, reason: str) -> None:
    reply = fast.ask("POST", "/v1/chat/completions", body)
    assert (reply.status, reason in reply.json["error"]["message"]) == (400, True)


def test_token_ids_and_text_parts_are_taken(fast: Standin) -> None:
    assert fast.complete([3, 4, 5]).json["usage"]["prompt_tokens"] == 3
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert fast.chat(parts, max_tokens=3).status == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/v1/completions", 405),
        ("POST", "/metrics", 405),
        ("POST", "/v1/embeddings", 404),
        ("PUT", "/v1/models", 501),
    ],
)
def test_what_is_not_there_is_said_to_be_not_there(
    fast: Standin, method: str, path: str, status: int
) -> None:
    assert fast.ask(method, path, b"{}" if method != "GET" else None).status == status


def test_a_body_without_a_length_or_beyond_the_limit_is_not_read(fast: Standin) -> None:
    assert fast.ask("POST", "/v1/completions", None, **{"Content-Length": str(2**30)}).status == 413
    assert fast.ask("POST", "/v1/completions", None, **{"Content-Length": "-1"}).status == 411


def test_what_a_client_sends_cannot_forge_a_line_of_the_log(fast: Standin) -> None:
    with socket.create_connection(("127.0.0.1", fast.port), timeout=10) as raw:
        raw.sendall(b"GET /\x1b[2J\x0bERROR HTTP/1.0\r\n\r\n")
        while raw.recv(4096):
            pass
    fast.wait_for(r"\\x1b\[2J")
    assert "\x1b" not in fast.log
