"""What a cut-over asks in its guest: is it idle, how much memory may a trial take, what does a measurement mean."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checks.cli import main
from checks.serving import drain, room, trial
from checks.serving.address import server
from checks.serving.client import Client
from provision.testhost.process import Standin

Start = Callable[..., Standin]
PLAIN = '{"schema": "provcheck/1", "verdict": "pass", "findings": [], "facts": {"speed": {"tok_s": 100.0}}}'
MIB = 1 << 20


def idle(standin: Standin, seconds: float) -> drain.Drained:
    return drain.wait(Client(server(standin.url, "-")), seconds, tuple)


def test_an_idle_server_is_found_so_at_once(start: Start) -> None:
    found = idle(start(), 10)
    assert (found.idle, found.requests) == (True, 0)
    assert found.seconds < 3
    assert "no request runs or waits" in found.sentence()


def test_a_request_in_flight_is_waited_for_and_not_longer_than_asked(start: Start) -> None:
    standin = start("--tok-s", "20")
    asking = threading.Thread(target=lambda: standin.complete(max_tokens=40, ignore_eos=True), daemon=True)
    asking.start()
    time.sleep(0.3)
    short = idle(standin, 0.3)
    assert (short.idle, short.requests) == (False, 1)
    assert "1 request(s) still run or wait" in short.sentence()
    long = idle(standin, 20)
    assert long.idle
    assert long.seconds > 0.5
    asking.join(5)


def test_one_that_does_not_tell_is_left_when_its_clients_are_gone_or_the_time_is_over() -> None:
    held = [("10.0.0.7",), ("10.0.0.7",), (), ()]
    nobody = Client(server("http://127.0.0.1:9", "-"))
    found = drain.wait(nobody, 10, lambda: held.pop(0))
    assert (found.idle, found.requests) == (True, None)
    busy = drain.wait(nobody, 0.3, lambda: ("10.0.0.7",))
    assert not busy.idle
    assert "still connected: 10.0.0.7" in busy.sentence()
    assert "does not tell its requests" in busy.sentence()


def test_a_page_of_another_program_is_not_taken_for_an_idle_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(server("http://127.0.0.1:9", "-"))
    for page in ("", "# nothing\n", "go_goroutines 7\n", None):
        monkeypatch.setattr(client, "page", lambda path, seconds, page=page: page)
        assert drain.in_flight(client)[0] is None


def test_sglang_is_read_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(server("http://127.0.0.1:9", "-"))
    page = 'sglang:num_running_reqs{model_name="m"} 2.0\nsglang:num_queue_reqs{model_name="m"} 3.0\n'
    monkeypatch.setattr(client, "page", lambda path, seconds: page)
    assert drain.in_flight(client) == (5.0, "")


def test_who_is_connected_is_read_from_the_kernels_own_table() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert drain.connected(port) == ()
        with socket.create_connection(("127.0.0.1", port)) as client, listening.accept()[0]:
            assert drain.connected(port) == ("127.0.0.1",)
            assert drain.connected(client.getsockname()[1]) == ("127.0.0.1",)


def test_an_address_behind_a_mapped_one_is_shown_as_it_is() -> None:
    raw = b"\0" * 10 + b"\xff\xff" + bytes([10, 1, 2, 3])
    text = "".join(f"{struct.unpack('<I', raw[at : at + 4])[0]:08X}" for at in range(0, 16, 4))
    table = f"head\n 0: {text}:1F40 {text}:C000 01 x\n 1: {text}:1F40 {text}:C001 06 x\n 2: broken\n"
    assert drain.peers(table, 8000) == ["10.1.2.3"]


@pytest.mark.parametrize(
    ("available", "limit", "usage", "cached", "wanted"),
    [
        (10240, None, None, 0, 10240 - 512),
        (10240, 1000, 200, 0, 800 - 256),
        (10240, 1000, 900, 500, 600 - 256),
        (100, 1000, 200, 0, 64),
        (400, None, None, 0, 200),
        (10240, 1 << 50, 10, 0, 10240 - 512),
    ],
)
def test_a_trial_may_take_what_is_free_and_leaves_a_reserve(
    available: int, limit: int | None, usage: int | None, cached: int, wanted: int
) -> None:
    meminfo = f"MemTotal:       99999999 kB\nMemAvailable:   {available << 10} kB\n"
    bytes_of = (None if limit is None else limit * MIB, None if usage is None else usage * MIB)
    assert room.room(meminfo, *bytes_of, cached * MIB) == wanted * MIB


def test_where_nothing_tells_the_memory_no_limit_is_made_up() -> None:
    assert room.room("", None, None, 0) is None
    assert [room.number(text) for text in ("max\n", "", None, "12\n")] == [None, None, None, 12]
    assert room.cached("anon 5\ninactive_file 77\n") == 77
    assert room.cached("inactive_file 1\ntotal_inactive_file 77\n") == 1


def report(**more: Any) -> dict[str, Any]:
    return {**json.loads(PLAIN), **more}


def test_a_green_measurement_is_accepted_with_what_it_warns_of() -> None:
    assert trial.judge(report(), 0) == trial.Verdict(True, ())
    odd = {"id": "serve.speed", "subject": "engine", "status": "warn", "message": "0.85x"}
    found = trial.judge(report(verdict="warn", findings=[odd]), 0)
    assert found == trial.Verdict(True, ("serve.speed engine (warn): 0.85x",))


@pytest.mark.parametrize(
    ("told", "code"),
    [
        (None, 0),
        ([], 0),
        ({"schema": "other"}, 0),
        (report(verdict="unknown"), 3),
        (report(verdict="fail"), 1),
        (report(), 1),
        (report(verdict="skip"), 0),
    ],
)
def test_what_was_not_seen_green_is_refused(told: Any, code: int) -> None:
    found = trial.judge(told, code)
    assert not found.accepted
    assert found.why


SLOW = {"id": "serve.speed", "subject": "engine", "status": "fail", "message": "91.3 tok/s, baseline 203.2"}
DEAD = {"id": "serve.acceptance", "subject": "drafter", "status": "fail", "message": "dead"}
DARK = {"id": "serve.metrics", "subject": "engine", "status": "unknown", "message": "no page"}


def red(family: str, *findings: dict[str, Any], headline: str = "named: so") -> dict[str, Any]:
    diagnosis = {"headline": headline, "causes": [{"id": "c", "family": family}]}
    also = {"id": "serve.diagnosis", "subject": "engine", "status": "fail", "message": "x"}
    return report(verdict="fail", findings=[*findings, also], facts={"diagnosis": diagnosis})


def test_what_was_measured_comes_first_and_then_what_it_is_taken_for() -> None:
    told = trial.judge(red("weights", DARK, DEAD, SLOW), 1).why
    assert told == (
        "serve.speed engine (fail): 91.3 tok/s, baseline 203.2",
        "diagnosis: named: so",
        "serve.acceptance drafter (fail): dead",
        "serve.metrics engine (unknown): no page",
    )
    assert trial.judge(red("weights", DEAD, headline="nothing to explain"), 1).why == (
        "serve.acceptance drafter (fail): dead",
    )


@pytest.mark.parametrize(
    ("family", "by", "named"),
    [
        ("infrastructure", "other", False),
        ("infrastructure", "mine", True),
        ("weights", "other", True),
        ("infrastructure", None, True),
    ],
)
def test_the_machine_is_not_blamed_for_a_loss_against_another_profile(
    family: str, by: str | None, named: bool
) -> None:
    base = {"tok_s": 203.2, "kpro": {"digest": by}} if by else {"tok_s": 203.2}
    told = trial.judge(red(family, SLOW), 1, 1.1, base, "mine").why
    assert told[0].endswith("91.3 tok/s, baseline 203.2")
    assert ("diagnosis: named: so" in told) is named


@pytest.mark.parametrize(
    ("base", "beats", "accepted", "said"),
    [
        (90.0, 1.05, True, "1.11x"),
        (100.0, 1.0, True, "1.00x"),
        (
            100.0,
            1.05,
            False,
            "not better than what serves: 100.0 tok/s decode, the baseline 100.0: 1.00x, 1.05x",
        ),
        (None, 1.05, False, "no decode speed of the baseline"),
        (0, 1.05, False, "no decode speed of the baseline"),
    ],
)
def test_a_candidate_has_to_beat_the_baseline_by_the_figure(
    base: float | None, beats: float, accepted: bool, said: str
) -> None:
    found = trial.judge(report(), 0, beats, {"tok_s": base})
    assert found.accepted is accepted
    assert said in found.why[0]
    assert not trial.judge(report(facts={}), 0, beats, {"tok_s": 1.0}).accepted
    assert not trial.judge(report(), 0, beats, None).accepted


def test_the_command_says_it_and_its_exit_code_means_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, base = tmp_path / "r.json", tmp_path / "b.json"
    path.write_text(PLAIN)
    base.write_text('{"tok_s": 100.0}')
    words = [
        "_verdict",
        str(path),
        "--code",
        "0",
        "--profile",
        "d",
        "--beats",
        "1.5",
        "--baseline",
        str(base),
    ]
    assert main(words) == 1
    assert "1.00x, 1.50x is asked for" in capsys.readouterr().out
    assert main([*words[:-4], "--beats", "0.9", "--baseline", str(base)]) == 0
    assert main(["_verdict", str(tmp_path / "none.json")]) == 1
    assert "no report" in capsys.readouterr().out


def test_an_accepted_verdict_is_kept_aside_when_another_profile_is_tried(tmp_path: Path) -> None:
    told, path, keep = tmp_path / "told.json", tmp_path / "tiny.json", tmp_path / "tiny.accepted.json"
    why = tmp_path / "why"
    why.write_text("first line\nsecond\n")

    def remember(digest: str, verdict: str) -> dict[str, Any]:
        told.write_text(json.dumps({"schema": "kpro-trial/1", "digest": digest, "run": "r"}))
        words = ["_outcome", str(path), "--told", str(told), "--verdict", verdict, "--keep", str(keep)]
        assert main([*words, "--why", str(why), "--downtime", "2.5"]) == 0
        written: dict[str, Any] = json.loads(path.read_text())
        return written

    first = remember("a", "accepted")
    assert (first["digest"], first["why"], first["downtime_s"], first["tok_s"]) == (
        "a", "first line\nsecond", 2.5, None,
    )  # fmt: skip
    assert path.stat().st_mode & 0o777 == 0o600
    remember("a", "accepted")
    assert not keep.exists()
    remember("b", "refused")
    assert json.loads(keep.read_text())["digest"] == "a"
    remember("c", "refused")
    assert json.loads(keep.read_text())["digest"] == "a"
