"""Answers of real engines held against each other: the same model is green, another one is red by name.

``other_weights.json`` holds the answers of the tier's ``bad`` model, served by vLLM 0.32.0 with another chat template.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.rig import KEY, Engine, Ran, provcheck

OTHER = Path(__file__).with_name("other_weights.json")


@pytest.fixture(scope="session")
def served(engine_folder: Path) -> str:
    """The name under which all servers of the tier serve: the folder of the model."""
    return str(engine_folder / "models/target")


@pytest.fixture(scope="session")
def kept(engines: dict[str, Engine], served: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the plain engine answers; it asks for a key and computes in float32."""
    file = tmp_path_factory.mktemp("answers") / "kept.json"
    plain = engines["plain"]
    ran = provcheck(
        "_answers", "ask", plain.url, "--model", served, "--api-key-file", plain.key, "--output", file
    )
    assert (ran.code, ran.verdict) == (0, "pass"), ran
    return file


def compare(file: Path, engine: Engine, served: str, *words: str | Path) -> Ran:
    return provcheck("_answers", "compare", file, engine.url, "--model", served, *words)


def test_the_same_engine_twice_gives_equal_answers_to_the_last_token(
    kept: Path, engines: dict[str, Engine], served: str
) -> None:
    plain = engines["plain"]
    ran = compare(kept, plain, served, "--api-key-file", plain.key, "--exact")
    assert (ran.code, set(ran.statuses().values())) == (0, {"pass"})
    assert ran.facts["logprob_diff"] < 0.001
    assert KEY not in kept.read_text() + str(ran.report) + ran.said


def test_the_same_model_with_speculation_and_another_dtype_is_within_the_tolerance(
    kept: Path, engines: dict[str, Engine], served: str
) -> None:
    ran = compare(kept, engines["ngram"], served)
    assert (ran.code, ran.verdict) == (0, "pass")
    assert ran.statuses()["serve.answers_text"] == "skip"
    assert 0 < ran.facts["logprob_diff"] <= 0.1


def test_answers_of_an_engine_that_speculates_have_their_probabilities_too(
    engines: dict[str, Engine], served: str, tmp_path: Path
) -> None:
    file = tmp_path / "kept.json"
    ran = provcheck("_answers", "ask", engines["good"].url, "--model", served, "--output", file)
    assert ran.code == 0
    items = json.loads(file.read_text())["items"]
    assert all(len(item["logprobs"]) == len(item["tokens"]) for item in items)


def test_other_weights_and_another_chat_template_are_red_by_name(
    engines: dict[str, Engine], served: str
) -> None:
    ran = compare(OTHER, engines["ngram"], served)
    assert ran.code == 1
    assert ran.statuses() == {
        "serve.answers": "pass",
        "serve.answers_tokenizer": "pass",
        "serve.answers_template": "fail",
        "serve.answers_logprobs": "fail",
        "serve.answers_first_token": "fail",
        "serve.answers_text": "skip",
    }


def test_ids_of_another_vocabulary_are_red(
    kept: Path, engines: dict[str, Engine], served: str, tmp_path: Path
) -> None:
    data = json.loads(kept.read_text())
    for item in data["items"]:
        item["tokens"] = [token + 5000 for token in item["tokens"]]
    file = tmp_path / "other.json"
    file.write_text(json.dumps(data))
    ran = compare(file, engines["ngram"], served)
    assert (ran.code, ran.status("serve.answers")) == (1, "fail")
    assert "vocabulary" in ran.finding("serve.answers")["message"]


def test_without_the_key_nothing_is_known(kept: Path, engines: dict[str, Engine], served: str) -> None:
    ran = compare(kept, engines["plain"], served)
    assert (ran.code, ran.verdict) == (3, "unknown")
    assert "key" in ran.finding("serve.answers")["message"]
