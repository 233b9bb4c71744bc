"""``provcheck _answers`` between two running engines: what is not the same service is red by its name."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checks.cli import main
from checks.serving.address import server
from checks.serving.answers_api import Engine, OpenAI
from provision.testhost.model import make_model
from provision.testhost.process import Standin, running

Start = Callable[..., Standin]
FAST = ("--tok-s", "20000")


@pytest.fixture
def kept(start: Start, tmp_path: Path) -> Path:
    """What a healthy stand-in answers."""
    file = tmp_path / "kept.json"
    assert ask(start(*FAST), file) == 0
    return file


def ask(engine: Standin, file: Path, *words: str) -> int:
    return main(["_answers", "ask", engine.url, "--model", "tiny", "--output", str(file), *words])


def compare(file: Path, url: str, *words: str) -> tuple[int, dict[str, Any]]:
    """Exit code and report."""
    report = file.with_name("report.json")
    told = ["--json", "--output", str(report)]
    code = main(["_answers", "compare", str(file), url, "--model", "tiny", *told, *words])
    return code, json.loads(report.read_text())


def statuses(report: dict[str, Any]) -> dict[str, str]:
    return {
        one["id"].removeprefix("serve.answers").lstrip("_") or "all": one["status"]
        for one in report["findings"]
    }


def message(report: dict[str, Any], ident: str) -> str:
    return next(one["message"] for one in report["findings"] if one["id"] == ident)


def test_the_same_model_twice_is_the_same_to_the_last_token(kept: Path, start: Start) -> None:
    code, report = compare(kept, start(*FAST).url, "--exact")
    assert (code, set(statuses(report).values())) == (0, {"pass"})
    assert report["facts"] | {"source": 0, "target": 0} == {
        "source": 0,
        "target": 0,
        "compared": 26,
        "exact": True,
        "logprob_diff": 0.0,
        "first_token_share": 1.0,
    }


def test_speculation_changes_no_answer(kept: Path, start: Start) -> None:
    code, report = compare(kept, start(*FAST, acceptance=[0.7, 0.5, 0.3]).url, "--exact")
    assert (code, report["verdict"]) == (0, "pass")


def test_equal_texts_are_not_demanded_unless_asked_for(kept: Path, start: Start) -> None:
    code, report = compare(kept, start(*FAST).url)
    assert (code, statuses(report)["text"]) == (0, "skip")


@pytest.mark.parametrize(
    ("fault", "red"),
    [
        ("wrong-answers", {"logprobs", "first_token"}),
        ("other-template", {"template"}),
        ("other-tokenizer", {"tokenizer", "template"}),
        ("cut-off", {"all"}),
        ("garbage", {"first_token", "text"}),
        ("empty", {"first_token", "text"}),
    ],
)
def test_each_fault_of_the_target_is_red_by_its_name(
    kept: Path, start: Start, fault: str, red: set[str]
) -> None:
    code, report = compare(kept, start(*FAST, "--fault", fault).url)
    assert code == 1
    assert {name for name, status in statuses(report).items() if status == "fail"} == red


def test_other_weights_are_red_though_tokenizer_and_template_are_the_same(kept: Path, tmp_path: Path) -> None:
    make_model(tmp_path / "other", seed=1)
    with running(tmp_path / "other", "--served-model-name", "tiny", *FAST) as engine:
        code, report = compare(kept, engine.url)
    assert code == 1
    assert statuses(report) | {"text": ""} == {
        "all": "pass",
        "tokenizer": "pass",
        "template": "pass",
        "logprobs": "fail",
        "first_token": "fail",
        "text": "",
    }


def _other(model_folder: Path, dest: Path, name: str, change: Callable[[dict[str, Any]], None]) -> Path:
    shutil.copytree(model_folder, dest)
    data = json.loads((dest / name).read_text())
    change(data)
    (dest / name).write_text(json.dumps(data))
    return dest


def test_another_chat_template_among_the_files_is_red(kept: Path, model_folder: Path, tmp_path: Path) -> None:
    folder = _other(
        model_folder,
        tmp_path / "other",
        "tokenizer_config.json",
        lambda data: data.update(chat_template="{{ x }}"),
    )
    with running(folder, "--served-model-name", "tiny", *FAST) as engine:
        code, report = compare(kept, engine.url)
    assert (code, {n for n, s in statuses(report).items() if s == "fail"}) == (1, {"template"})


def test_a_smaller_vocabulary_is_red(kept: Path, model_folder: Path, tmp_path: Path) -> None:
    def cut(data: dict[str, Any]) -> None:
        vocab = data["model"]["vocab"]
        data["model"]["vocab"] = {word: index for word, index in vocab.items() if index < 200}

    folder = _other(model_folder, tmp_path / "other", "tokenizer.json", cut)
    with running(folder, "--served-model-name", "tiny", *FAST) as engine:
        code, report = compare(kept, engine.url)
    assert (code, statuses(report)["all"], statuses(report)["tokenizer"]) == (1, "fail", "fail")
    assert "vocabulary" in message(report, "serve.answers")


def test_a_context_that_is_too_short_is_red(kept: Path, model_folder: Path, tmp_path: Path) -> None:
    folder = _other(
        model_folder, tmp_path / "other", "config.json", lambda data: data.update(max_position_embeddings=100)
    )
    with running(folder, "--served-model-name", "tiny", *FAST) as engine:
        code, report = compare(kept, engine.url)
    assert (code, statuses(report)["all"]) == (1, "fail")
    assert "context" in message(report, "serve.answers")


def test_an_engine_that_answers_500_is_red_and_is_not_asked_everything(kept: Path, start: Start) -> None:
    engine = start(*FAST, "--fault", "health-only")
    code, report = compare(kept, engine.url)
    assert (code, statuses(report)["all"]) == (1, "fail")
    assert "500" in message(report, "serve.answers")
    assert engine.log.count("POST /v1/completions") <= 6
    assert "pass" not in {statuses(report)[name] for name in ("logprobs", "first_token", "text", "template")}


def test_an_engine_that_hangs_ends_at_the_deadline_and_is_red(kept: Path, start: Start) -> None:
    code, report = compare(kept, start(*FAST, "--fault", "hang").url, "--seconds", "1")
    assert (code, statuses(report)["all"]) == (1, "fail")
    assert "in time" in message(report, "serve.answers")


def test_where_nothing_listens_nothing_is_known(kept: Path) -> None:
    code, report = compare(kept, "http://127.0.0.1:9")
    assert (code, report["verdict"]) == (3, "unknown")
    assert set(statuses(report).values()) == {"unknown"}


def test_the_key_comes_from_a_file_and_without_it_nothing_is_known(
    start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine, key, file = start(*FAST, KPRO_API_KEY="s3cret-key"), tmp_path / "key", tmp_path / "kept.json"
    key.write_text("s3cret-key\n")
    assert ask(engine, file) == 3
    assert not file.exists()
    assert ask(engine, file, "--api-key-file", str(key)) == 0
    code, report = compare(file, engine.url)
    assert (code, report["verdict"]) == (3, "unknown")
    assert compare(file, engine.url, "--api-key-file", str(key))[0] == 0
    said = capsys.readouterr()
    assert "s3cret-key" not in file.read_text() + str(report) + said.out + said.err


@pytest.mark.parametrize("fault", ["health-only", "cut-off"])
def test_answers_of_a_source_that_fails_are_not_kept(start: Start, tmp_path: Path, fault: str) -> None:
    file = tmp_path / "kept.json"
    assert ask(start(*FAST, "--fault", fault), file) == 1
    assert not file.exists()


def test_a_source_that_is_not_there_is_unknown(tmp_path: Path, start: Start) -> None:
    file = tmp_path / "kept.json"
    assert main(["_answers", "ask", "http://127.0.0.1:9", "--model", "tiny", "--output", str(file)]) == 3
    engine = start(*FAST)
    assert main(["_answers", "ask", engine.url, "--model", "other", "--output", str(file)]) in (1, 3)
    assert not file.exists()


def test_kept_answers_are_nobody_elses_to_read(kept: Path) -> None:
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_service_may_have_limits_of_its_own(kept: Path, start: Start) -> None:
    url = start(*FAST, "--fault", "wrong-answers").url
    code, report = compare(kept, url, "--limit", "answers_logprob=50", "--limit", "answers_first_token=1e-9")
    assert (statuses(report)["logprobs"], code) == ("pass", 1)


def test_the_tokenizers_files_are_compared_where_both_folders_are_given(
    start: Start, model_folder: Path, tmp_path: Path
) -> None:
    engine, file = start(*FAST), tmp_path / "kept.json"
    assert ask(engine, file, "--tokenizer", str(model_folder)) == 0
    assert compare(file, engine.url, "--tokenizer", str(model_folder))[0] == 0
    other = _other(model_folder, tmp_path / "other", "tokenizer.json", lambda data: data.update(version="2"))
    code, report = compare(file, engine.url, "--tokenizer", str(other))
    assert (code, statuses(report)["tokenizer"]) == (1, "fail")
    assert "tokenizer.json" in message(report, "serve.answers_tokenizer")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data.update(schema="x"), "provcheck-answers/1"),
        (lambda data: data.update(questions=99), "ask the source anew"),
        (lambda data: data["items"].pop(), "each of the 26 questions once"),
        (lambda data: data["items"][0].update(id="stranger"), "each of the 26 questions once"),
        (lambda data: data["items"][0].update(tokens=[1, -2]), "token ids"),
        (lambda data: data["items"][0].update(logprobs=[-0.5]), "log-probabilities"),
        (lambda data: data["items"][0]["logprobs"].__setitem__(0, 3.5), "no log-probability"),
    ],
)
def test_a_damaged_file_is_refused_with_its_reason(
    kept: Path, change: Callable[[dict[str, Any]], object], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = json.loads(kept.read_text())
    change(data)
    kept.write_text(json.dumps(data))
    assert main(["_answers", "compare", str(kept), "http://127.0.0.1:9", "--model", "tiny"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": NaN}'])
def test_what_is_no_json_object_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kept.json"
    file.write_text(text)
    assert main(["_answers", "compare", str(file), "http://127.0.0.1:9", "--model", "tiny"]) == 2
    assert "kept.json" in capsys.readouterr().err


def test_a_source_is_never_asked_to_weigh_a_prompt(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine has reserved no memory for that, and this one has clients."""
    sent: list[dict[str, Any]] = []

    def noted(self: Engine, path: str, body: dict[str, Any]) -> dict[str, Any]:
        sent.append(body)
        return put(self, path, body)

    put = Engine.ask
    monkeypatch.setattr(Engine, "ask", noted)
    kept = tmp_path / "kept.json"
    assert ask(start(*FAST), kept) == 0
    assert len(sent) > 26
    assert not [body for body in sent if "prompt_logprobs" in body or "echo" in body]
    assert compare(kept, start(*FAST).url)[0] == 0
    assert [body for body in sent if "prompt_logprobs" in body]


def test_what_was_given_is_weighed_and_not_what_would_have_been_said(start: Start) -> None:
    engine = OpenAI(server(start(*FAST).url, "tiny"), time.monotonic() + 20, 10)
    prompt = (5, 6, 7)
    likely = engine.answer(prompt, 2).tokens
    other = next(token for token in range(10, 20) if token not in likely)
    scored = engine.score(prompt, (likely[0], other))
    assert scored.logprobs[0] > -0.7 > -2.0 >= scored.logprobs[1]
    assert scored.behind(0, likely[0]) == 0.0
    assert scored.behind(1, other) > 1.0
    assert scored.behind(1, likely[1]) == 0.0
    assert scored.behind(0, 3) == float("inf")
