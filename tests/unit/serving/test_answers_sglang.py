"""Answers of a server in SGLang's dialect (0.5.11): ``/generate``, no rendered chats, no probabilities with DFlash.

The double answers what SGLang's sources say, with their forms and refusals, and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from checks.cli import main

VOCAB = 1000


def _number(*parts: Any) -> int:
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:6], "big")


class Model:
    """What the double serves. ``weights`` and ``template`` tell one from another."""

    def __init__(
        self, weights: str = "w", template: str = "t", dflash: bool = False, new: bool = False
    ) -> None:
        self.weights, self.template, self.dflash, self.new = weights, template, dflash, new

    def tokens(self, text: str) -> list[int]:
        return [_number("token", word) % VOCAB for word in text.split()] or [0]

    def chat(self, body: dict[str, Any]) -> list[int]:
        text = " ".join(f"{self.template}{one['role']} {one['content']}" for one in body["messages"])
        return self.tokens(
            f"{text} {json.dumps(body['tools']) if body.get('tools') else ''} {self.template}end"
        )

    def best(self, ids: list[int]) -> int:
        return _number(self.weights, ids) % VOCAB

    def logprob(self, ids: list[int], token: int) -> float:
        low = 0.0 if token == self.best(ids) else -4.0
        return low - (_number("p", self.weights, ids, token) % 500) / 1000


def generate(model: Model, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    asked = body.get("return_logprob", False)
    if asked and model.dflash:
        return 400, {"error": {"message": "DFLASH speculative decoding does not support return_logprob yet."}}
    given, made = list(body["input_ids"]), []
    if any(token >= VOCAB for token in given):
        return 400, {"error": {"message": "The input_ids contain values out of range"}}
    for _ in range(body["sampling_params"]["max_new_tokens"]):
        made.append(model.best([*given, *made]))
    meta: dict[str, Any] = {
        "finish_reason": {"type": "length", "length": len(made)},
        "prompt_tokens": len(given),
    }
    if asked:
        # The first of the list has none, and the last id of a vocabulary is written as 0.
        first = body.get("logprob_start_len", len(given))
        places = range(first, len(given))
        meta["input_token_logprobs"] = [
            [model.logprob(given[:at], given[at]) if at > first else None, given[at] % (VOCAB - 1), None]
            for at in places
        ]
        meta["output_token_logprobs"] = [
            [model.logprob([*given, *made[:at]], token), token, None] for at, token in enumerate(made)
        ]
        if body.get("top_logprobs_num"):
            ranked = [(given[:at], model.best(given[:at])) for at in places]
            meta["input_top_logprobs"] = [
                [[model.logprob(ids, token), token, None]] if number else None
                for number, (ids, token) in enumerate(ranked)
            ]
    return 200, {"text": " ".join(map(str, made)), "output_ids": made, "meta_info": meta}


def answer(model: Model, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    if path == "/generate":
        return generate(model, body)
    if path == "/tokenize":
        if "prompt" not in body:
            return 400, {"object": "error", "message": "1 validation error: prompt Field required"}
        return 200, {"tokens": model.tokens(body["prompt"]), "count": 1, "max_model_len": 4096}
    if path == "/detokenize":
        return 200, {"text": " ".join(map(str, body["tokens"]))}
    if path == "/v1/chat/completions":
        ids = model.chat(body)
        choice: dict[str, Any] = {
            "index": 0,
            "message": {"role": "assistant", "content": "x"},
            "finish_reason": "length",
        }
        if model.new and body.get("return_prompt_token_ids"):
            choice["prompt_token_ids"] = ids
        return 200, {"choices": [choice], "usage": {"prompt_tokens": len(ids), "completion_tokens": 1}}
    return 404, {"detail": "Not Found"}


@contextmanager
def serving(model: Model) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            return

        def do_GET(self) -> None:
            known = self.path == "/get_model_info"
            self._send(200 if known else 404, {"model_path": "m", "is_generation": True} if known else {})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._send(*answer(model, self.path, body))

        def _send(self, status: int, value: dict[str, Any]) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def compared(
    source: Model, target: Model, folder: Path, *words: str, tokenizer: bool = True
) -> tuple[int, dict[str, dict[str, Any]]]:
    """Exit code and findings by name."""
    files = folder / "model"
    files.mkdir(exist_ok=True)
    (files / "tokenizer_config.json").write_text('{"chat_template": "x"}')
    given = ["--model", "m", *(["--tokenizer", str(files)] if tokenizer else [])]
    kept, report = folder / "kept.json", folder / "report.json"
    with serving(source) as url:
        assert main(["_answers", "ask", url, *given, "--output", str(kept)]) == 0
    with serving(target) as url:
        code = main(
            ["_answers", "compare", str(kept), url, *given, *words, "--json", "--output", str(report)]
        )
    findings = json.loads(report.read_text())["findings"]
    return code, {one["id"].removeprefix("serve.answers_"): one for one in findings}


def test_the_same_model_is_the_same_and_the_files_stand_for_the_template(tmp_path: Path) -> None:
    code, found = compared(Model(), Model(), tmp_path, "--exact")
    assert (code, {one["status"] for one in found.values()}) == (0, {"pass"})
    assert "SGLang 0.5.11 has no endpoint" in found["template"]["message"]
    assert "14 answers" in found["logprobs"]["message"]


def test_without_the_files_the_template_is_unknown(tmp_path: Path) -> None:
    code, found = compared(Model(), Model(), tmp_path, tokenizer=False)
    assert (code, found["template"]["status"], found["tokenizer"]["status"]) == (3, "unknown", "pass")


def test_one_that_tells_the_ids_of_a_chat_is_asked_for_them(tmp_path: Path) -> None:
    code, found = compared(Model(new=True), Model(new=True), tmp_path, tokenizer=False)
    assert (code, found["template"]["status"]) == (0, "pass")
    assert "26 answers" in found["logprobs"]["message"]
    code, found = compared(Model(new=True), Model(new=True, template="u"), tmp_path, tokenizer=False)
    assert (code, found["template"]["status"]) == (1, "fail")


def test_other_weights_are_red(tmp_path: Path) -> None:
    code, found = compared(Model(), Model(weights="v"), tmp_path)
    assert (code, found["logprobs"]["status"], found["first_token"]["status"]) == (1, "fail", "fail")


def test_where_dflash_tells_no_probabilities_the_tokens_within_the_answers_are_compared(
    tmp_path: Path,
) -> None:
    source = Model(dflash=True)
    code, found = compared(source, Model(dflash=True), tmp_path)
    assert (code, found["logprobs"]["status"], found["first_token"]["status"]) == (0, "skip", "pass")
    assert "DFlash drafter" in found["logprobs"]["message"]
    assert "56 of 56" in found["first_token"]["message"]
    code, found = compared(source, Model(dflash=True, weights="v"), tmp_path)
    assert (code, found["first_token"]["status"]) == (1, "fail")


@pytest.mark.parametrize("there", [True, False])
def test_one_side_with_that_drafter_is_enough_and_the_other_is_looked_into(
    tmp_path: Path, there: bool
) -> None:
    code, found = compared(Model(dflash=there), Model(dflash=not there), tmp_path)
    assert (code, found["logprobs"]["status"], found["first_token"]["status"]) == (0, "skip", "pass")
    places = 14 * 24 if there else 14 * 4
    assert f"{places} of {places}" in found["first_token"]["message"]
    code, found = compared(Model(dflash=there), Model(dflash=not there, weights="v"), tmp_path)
    assert (code, found["first_token"]["status"]) == (1, "fail")
