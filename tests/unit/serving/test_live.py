"""Against a process that speaks vLLM's API and metrics: what is measured is what it counts."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checks import remote
from checks.cli import main
from checks.errors import Unreachable
from checks.serving import counters, metrics
from provision.testhost.process import Standin

GOOD = [0.77, 0.61, 0.49, 0.41, 0.31]
DEAD = [0.09, 0.005, 0.001, 0.0, 0.0]
Start = Callable[..., Standin]
Serve = Callable[..., tuple[int, dict[str, Any]]]


def _statuses(report: dict[str, Any]) -> dict[str, str]:
    return {finding["id"]: finding["status"] for finding in report["findings"]}


def test_a_healthy_service_passes_and_the_numbers_are_the_engines_own(start: Start, serve: Serve) -> None:
    engine = start("--tok-s", "3000", acceptance=GOOD)
    code, report = serve(engine.url)
    own = counters.of_page(metrics.parse(engine.get("/metrics").body.decode()))
    assert code == 0, report["findings"]
    assert _statuses(report)["serve.ready"] == "pass"
    assert own.drafts is not None
    assert own.accepted is not None
    found = report["facts"]["acceptance"]
    assert 200 <= found["drafts"] <= own.drafts
    assert found["length"] == pytest.approx(1 + own.accepted / own.drafts, rel=0.03)
    assert found["length"] == pytest.approx(1 + sum(GOOD), rel=0.12)
    assert report["facts"]["since"] == "window"


def test_a_dead_drafter_is_named_behind_a_healthy_answer(start: Start, serve: Serve) -> None:
    engine = start("--tok-s", "3000", acceptance=DEAD)
    assert engine.get("/health").status == 200
    code, report = serve(engine.url, "--diagnose")
    assert code == 1
    assert _statuses(report)["serve.acceptance"] == "fail"
    assert _statuses(report)["serve.output"] == "pass"
    assert "infrastructure excluded because" in report["facts"]["diagnosis"]["headline"]


def test_speculation_off_is_said_and_is_no_fault(start: Start, serve: Serve) -> None:
    code, report = serve(start("--tok-s", "3000").url)
    assert code == 0
    assert "serve.acceptance" not in _statuses(report)
    assert any(finding["message"] == "speculation off" for finding in report["findings"])


def test_a_slow_machine_is_seen_against_its_baseline_and_the_drafter_is_not_blamed(
    start: Start, serve: Serve, tmp_path: Path
) -> None:
    good = str(tmp_path / "good.json")
    assert serve(start("--tok-s", "4000", acceptance=GOOD).url, "--save-baseline", good)[0] == 0
    code, report = serve(
        start("--tok-s", "4000", "--fault", "slow", acceptance=GOOD).url, "--baseline", good, "--diagnose"
    )
    statuses = _statuses(report)
    assert code == 1
    assert (statuses["serve.acceptance"], statuses["serve.step"], statuses["serve.speed"]) == (
        "pass",
        "fail",
        "fail",
    )
    assert "infrastructure" in report["facts"]["diagnosis"]["headline"]


def test_the_same_service_holds_against_its_own_baseline_and_a_record_gives_the_same_verdict(
    start: Start, serve: Serve, tmp_path: Path
) -> None:
    engine = start("--tok-s", "2000", acceptance=GOOD)
    good, record = str(tmp_path / "good.json"), str(tmp_path / "record.json")
    serve(engine.url, "--save-baseline", good)
    code, live = serve(engine.url, "--baseline", good, "--record", record)
    again, replayed = serve("--replay", record, "--baseline", good)
    assert code == again
    assert _statuses(live)["serve.acceptance_baseline"] == "pass"
    assert [(f["id"], f["status"], f["message"]) for f in live["findings"]] == [
        (f["id"], f["status"], f["message"]) for f in replayed["findings"]
    ]
    assert replayed["evidence"] == "replayed"


@pytest.mark.parametrize(
    ("fault", "code", "ident", "status"),
    [
        ("garbage", 1, "serve.output", "fail"),
        ("empty", 1, "serve.ready", "fail"),
        ("health-only", 1, "serve.ready", "fail"),
        ("dies", 1, "serve.ready", "fail"),
    ],
)
def test_a_server_that_answers_200_and_is_broken_fails(
    start: Start, serve: Serve, fault: str, code: int, ident: str, status: str
) -> None:
    engine = start("--tok-s", "3000", "--fault", fault)
    assert engine.get("/health").status == 200
    found, report = serve(engine.url, "--wait", "1.5")
    assert found == code, report["findings"]
    assert _statuses(report)[ident] == status


def test_nothing_that_listens_is_could_not_check(serve: Serve) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    code, report = serve(f"http://127.0.0.1:{port}", "--wait", "0")
    assert code == 3
    assert _statuses(report)["serve.ready"] == "unknown"


def test_a_key_is_needed_given_and_written_nowhere(start: Start, serve: Serve, tmp_path: Path) -> None:
    engine = start("--tok-s", "3000", acceptance=GOOD, VLLM_API_KEY="s3cret-key")
    key, record = tmp_path / "key", tmp_path / "record.json"
    key.write_text("s3cret-key\n")
    code, report = serve(engine.url, "--wait", "0", "--diagnose")
    found = {finding["id"]: finding for finding in report["findings"]}
    assert code == 1
    assert "--api-key-file" in found["serve.ready"]["fix"]
    assert "serve.ready says it: " in found["serve.diagnosis"]["message"]
    assert "401" in found["serve.diagnosis"]["message"]
    assert "nothing to explain" not in found["serve.diagnosis"]["message"]
    code, report = serve(engine.url, "--api-key-file", str(key), "--record", str(record))
    assert code == 0, report["findings"]
    assert "s3cret-key" not in json.dumps(report)
    assert "s3cret-key" not in record.read_text()


def test_a_passive_look_sends_nothing_and_counts_from_the_last_one(
    start: Start, serve: Serve, tmp_path: Path
) -> None:
    engine = start("--tok-s", "20000", acceptance=GOOD)
    state = str(tmp_path / "state.json")
    code, report = serve(engine.url, "--passive", "--record", state)
    assert code == 3
    assert (
        engine.get("/metrics")
        .body.decode()
        .count('generation_tokens_total{engine="0",model_name="tiny"} 0.0')
        == 1
    )
    for _ in range(2):
        engine.chat("one two three", model="tiny", max_tokens=200)
    few = serve(engine.url, "--passive", "--since", state, "--record", state)[1]["facts"]["acceptance"][
        "drafts"
    ]
    assert few < 200
    for _ in range(30):
        engine.chat("one two three", model="tiny", max_tokens=200)
    code, report = serve(engine.url, "--passive", "--since", state, "--record", state)
    assert code == 0
    first = report["facts"]["acceptance"]["drafts"]
    assert first > few + 200, "what was too little to judge is counted again"
    engine.chat("one two three", model="tiny", max_tokens=200)
    code, report = serve(engine.url, "--passive", "--since", state)
    assert 0 < report["facts"]["acceptance"]["drafts"] < first


def test_a_passive_look_after_a_restart_counts_from_the_start(
    start: Start, serve: Serve, tmp_path: Path
) -> None:
    state = str(tmp_path / "state.json")
    busy = start("--tok-s", "20000", acceptance=GOOD)
    for _ in range(20):
        busy.chat("one two three", model="tiny", max_tokens=200)
    serve(busy.url, "--passive", "--record", state)
    fresh = start("--tok-s", "20000", acceptance=GOOD)
    for _ in range(4):
        fresh.chat("one two three", model="tiny", max_tokens=200)
    code, report = serve(fresh.url, "--passive", "--since", state)
    assert code == 0
    assert report["facts"]["since"] == "start"


def test_several_at_once_are_measured_and_held_against_their_own_baseline(
    start: Start, serve: Serve, tmp_path: Path
) -> None:
    good = str(tmp_path / "good.json")
    engine = start("--tok-s", "2000", acceptance=GOOD)
    code, report = serve(engine.url, "--concurrency", "4", "--save-baseline", good)
    assert code == 0
    assert _statuses(report)["serve.speed_at_once"] == "skip"
    code, report = serve(engine.url, "--concurrency", "4", "--baseline", good)
    assert _statuses(report)["serve.speed_at_once"] in ("pass", "warn", "fail")
    assert "baseline" in next(f["message"] for f in report["findings"] if f["id"] == "serve.speed_at_once")


def test_the_running_process_is_read_from_proc(start: Start, serve: Serve, tmp_path: Path) -> None:
    engine = start("--tok-s", "3000", NCCL_P2P_DISABLE="1", HF_TOKEN="hf_secret", acceptance=GOOD)
    record = tmp_path / "record.json"
    _, report = serve(engine.url, "--passive", "--record", str(record))
    assert report["facts"]["settings"]["env.NCCL_P2P_DISABLE"] == "1"
    assert report["facts"]["settings"]["k"] == 5
    assert "hf_secret" not in record.read_text()


def test_wanted_settings_that_are_not_in_effect_fail(start: Start, serve: Serve, tmp_path: Path) -> None:
    wanted = tmp_path / "wanted.json"
    engine = start("--tok-s", "3000", acceptance=GOOD)
    wanted.write_text(json.dumps({"k": 5}))
    assert _statuses(serve(engine.url, "--passive", "--wanted", str(wanted))[1])["serve.settings"] == "pass"
    wanted.write_text(json.dumps({"k": 15}))
    assert _statuses(serve(engine.url, "--passive", "--wanted", str(wanted))[1])["serve.settings"] == "fail"
    wanted.write_text(json.dumps({"kv_cache_dtype": "fp8"}))
    assert (
        _statuses(serve(engine.url, "--passive", "--wanted", str(wanted))[1])["serve.settings"] == "unknown"
    )


def test_a_record_of_a_broken_service_replays_to_the_same_verdict(
    start: Start, serve: Serve, tmp_path: Path
) -> None:
    record = str(tmp_path / "record.json")
    engine = start("--tok-s", "3000", "--fault", "health-only")
    code, live = serve(engine.url, "--wait", "0", "--record", record)
    again, replayed = serve("--replay", record)
    assert code == again == 1
    assert _statuses(live) == _statuses(replayed)


def test_a_run_that_fails_is_no_baseline(start: Start, serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    assert serve(start("--tok-s", "3000", acceptance=DEAD).url, "--save-baseline", str(path))[0] == 1
    assert not path.exists()


def test_the_far_side_prints_a_record_that_is_judged_here(
    start: Start, monkeypatch: pytest.MonkeyPatch, serve: Serve, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    engine = start("--tok-s", "3000", acceptance=GOOD)

    def there(host: str, args: list[str], deadline: float) -> bytes:
        assert host == "kpro5"
        assert main(args) == 0
        return capsysbinary.readouterr().out

    monkeypatch.setattr(remote, "call", there)
    code, report = serve(engine.url, "--host", "kpro5")
    assert code == 0
    assert report["evidence"] == "live"
    assert report["facts"]["acceptance"]["drafts"] >= 200


def test_another_machine_that_cannot_be_reached_is_could_not_check(
    monkeypatch: pytest.MonkeyPatch, serve: Serve
) -> None:
    def there(host: str, args: list[str], deadline: float) -> bytes:
        raise Unreachable("ssh could not reach kpro5: refused", fix="mend it")

    monkeypatch.setattr(remote, "call", there)
    code, report = serve("http://127.0.0.1:8000", "--host", "kpro5")
    assert code == 3
    assert _statuses(report)["node.reachable"] == "unknown"


def test_prompts_with_a_preamble_are_other_prompts_than_those_without(
    start: Start, serve: Serve, tmp_path: Path
) -> None:
    short = str(tmp_path / "short.json")
    engine = start("--tok-s", "3000", acceptance=GOOD)
    serve(engine.url, "--save-baseline", short)
    _, report = serve(engine.url, "--context", "160", "--baseline", short)
    assert _statuses(report)["serve.acceptance_baseline"] == "skip"
    assert report["facts"]["window"]["context"] == 160
    assert {"code", "prose"} == report["facts"]["window"]["kinds"].keys()


def test_where_nobody_listens_no_log_of_an_engine_is_asked_for(serve: Serve) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        code, report = serve(f"http://127.0.0.1:{free.getsockname()[1]}", "--wait", "0")
    fixes = {one["id"]: one.get("fix") for one in report["findings"]}
    assert code == 3
    assert fixes["serve.ready"] == fixes["serve.generates"] == "start the service, or correct the address"
