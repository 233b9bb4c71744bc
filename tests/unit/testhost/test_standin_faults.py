"""Each fault is red where a healthy stand-in is green."""

from __future__ import annotations

import http.client
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from provision.testhost.process import Standin
from provision.testhost.wheel import SOURCE

Start = Callable[..., Standin]


def test_a_healthy_one_is_green_in_all_that_the_faults_break(fast: Standin) -> None:
    assert fast.get("/health").status == 200
    reply = fast.complete(max_tokens=20, ignore_eos=True)
    assert reply.status == 200
    assert len(set(reply.json["choices"][0]["text"].split())) > 5
    assert fast.process.poll() is None


def test_empty_answers_200_with_no_text_though_tokens_were_counted(start: Start) -> None:
    standin = start("--fault", "empty", "--tok-s", "20000")
    reply = standin.complete(max_tokens=20, ignore_eos=True)
    assert (reply.status, reply.json["choices"][0]["text"]) == (200, "")
    assert reply.json["usage"]["completion_tokens"] == 20
    free = standin.chat(max_tokens=20)
    assert (free.status, free.json["choices"][0]["message"]["content"]) == (200, "")


def test_never_ready_stays_at_503(start: Start) -> None:
    standin = start("--fault", "never-ready", ready=False)
    assert [standin.get(path).status for path in ("/health", "/v1/models")] == [503, 503]
    assert standin.complete().status == 503
    time.sleep(0.05)
    assert standin.get("/health").status == 503
    assert standin.stop() == 0


def test_health_only_is_alive_by_its_health_and_by_nothing_else(start: Start) -> None:
    standin = start("--fault", "health-only")
    assert standin.get("/health").status == 200
    assert standin.complete().status == 500
    assert standin.chat().status == 500
    assert standin.get("/health").status == 200


def test_dies_ends_with_the_first_completion(start: Start) -> None:
    standin = start("--fault", "dies")
    assert standin.get("/health").status == 200
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        standin.complete()
    assert standin.process.wait(5) == 1
    assert "ERROR" in standin.log
    assert "EngineDeadError" in standin.log


def test_crash_ends_at_the_start_and_says_so(start: Start) -> None:
    standin = start("--fault", "crash", ready=False)
    assert standin.process.wait(5) == 1
    assert "ERROR" in standin.log
    assert "initialization failed" in standin.log
    assert "Traceback" not in standin.log


def test_garbage_repeats_one_word(start: Start) -> None:
    standin = start("--fault", "garbage", "--tok-s", "20000")
    words = standin.complete(max_tokens=20).json["choices"][0]["text"].split()
    assert (len(words), len(set(words))) == (20, 1)


def test_slow_takes_twenty_times_as_long_as_its_pace_says(start: Start) -> None:
    standin = start("--tok-s", "1000", "--fault", "slow")
    began = time.monotonic()
    assert standin.complete(max_tokens=10, ignore_eos=True).status == 200
    assert time.monotonic() - began > 0.19
    assert "WARNING" in standin.log
    assert "fault slow: takes 20 times" in standin.log


def test_hang_takes_the_request_and_answers_nothing(start: Start, until: Callable[..., None]) -> None:
    standin = start("--fault", "hang")
    connection = http.client.HTTPConnection("127.0.0.1", standin.port, timeout=0.2)
    try:
        connection.request("POST", "/v1/completions", b'{"prompt": "a"}')
        until(standin, num_requests_running=1)
        with pytest.raises(TimeoutError):
            connection.getresponse()
        assert standin.get("/health").status == 200
        began = time.monotonic()
        assert standin.stop() == 0
        assert time.monotonic() - began < 5, "an answer that never comes is not waited for"
    finally:
        connection.close()


def test_memory_is_taken_until_it_is_over_and_nothing_was_ever_answered(model_folder: Path) -> None:
    words = [
        sys.executable,
        "-S",
        "-m",
        SOURCE.name,
        "--model",
        str(model_folder),
        "--port",
        "0",
        "--fault",
        "memory",
    ]
    done = subprocess.run(
        ["sh", "-c", 'ulimit -v 400000; exec "$@"', "sh", *words],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={"PYTHONPATH": str(SOURCE.parent)},
    )
    assert done.returncode == 1
    assert "MemoryError" in done.stderr
    assert "ready, serving" not in done.stderr
