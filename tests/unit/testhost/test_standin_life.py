"""Starting, keys, and the ways to end."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from provision.testhost.process import Standin
from provision.testhost.standin.kpro_standin import cli

Start = Callable[..., Standin]
SECRET = "k3y-that-no-log-may-hold"


@pytest.mark.parametrize("name", ["KPRO_API_KEY", "VLLM_API_KEY"])
def test_with_a_key_only_its_bearer_gets_in(start: Start, name: str) -> None:
    standin = start("--tok-s", "20000", **{name: SECRET})
    body = {"prompt": "a"}
    wrong: list[dict[str, str]] = [
        {},
        {"Authorization": "Bearer other"},
        {"Authorization": SECRET},
        {"Authorization": f"Bearer {SECRET}x"},
    ]
    for headers in wrong:
        assert standin.ask("POST", "/v1/completions", body, **headers).status == 401
        assert standin.get("/v1/models", **headers).status == 401
    right = {"Authorization": f"Bearer {SECRET}"}
    assert standin.ask("POST", "/v1/completions", body, **right).status == 200
    assert standin.get("/v1/models", **right).status == 200
    assert [standin.get(path).status for path in ("/health", "/metrics", "/version")] == [200] * 3
    assert SECRET not in standin.log


def test_an_empty_key_is_refused_rather_than_serving_without_one(start: Start) -> None:
    standin = start(ready=False, KPRO_API_KEY=" ")
    assert standin.process.wait(5) == 1
    assert "KPRO_API_KEY is set but empty" in standin.log


def test_while_it_starts_it_answers_503_and_a_stop_ends_it_at_once(start: Start) -> None:
    standin = start("--start-seconds", "60", ready=False)
    assert standin.get("/health").status == 503
    assert standin.complete().status == 503
    assert standin.stop() == 0


def test_it_is_ready_when_its_time_to_start_is_over_and_not_before(start: Start) -> None:
    began = time.monotonic()
    standin = start("--start-seconds", "0.3")
    assert time.monotonic() - began > 0.3
    assert standin.get("/health").status == 200


def test_a_stop_lets_the_answer_in_flight_end_and_takes_no_other(
    start: Start, until: Callable[..., None]
) -> None:
    standin = start("--tok-s", "50")
    idle = http.client.HTTPConnection("127.0.0.1", standin.port, timeout=5)
    idle.request("GET", "/health")
    idle.getresponse().read()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(standin.complete, max_tokens=40, ignore_eos=True, stream=True)
        until(standin, num_requests_running=1)
        standin.process.terminate()
        standin.wait_for("stopping")
        idle.request("POST", "/v1/completions", b'{"prompt": "a"}')
        refused = idle.getresponse()
        assert (refused.status, refused.getheader("Connection")) == (503, "close")
        refused.read()
        idle.close()
        assert answer.result().events[-1] == "[DONE]"
    assert standin.process.wait(5) == 0
    assert "stopped cleanly: 1 requests, 40 tokens" in standin.log


def test_a_second_signal_ends_it_at_once(
    start: Start, until: Callable[..., None], endless: Callable[..., AbstractContextManager[None]]
) -> None:
    standin = start("--tok-s", "1")
    with endless(standin):
        until(standin, num_requests_running=1)
        standin.process.terminate()
        standin.wait_for("stopping")
        assert standin.process.poll() is None
        standin.process.terminate()
        assert standin.process.wait(5) == 1


def test_after_a_kill_the_same_port_serves_again_at_once(start: Start) -> None:
    first = start()
    port = first.port
    # An open connection: its remains are what could keep the port from the next one.
    with socket.create_connection(("127.0.0.1", port)) as raw:
        raw.sendall(b"GET /health HTTP/1.1\r\n\r\n")
        assert raw.recv(4096)
        first.process.kill()
        first.process.wait(5)
        while raw.recv(4096):
            pass
    again = start(port=port)
    assert again.complete(max_tokens=2).status == 200


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_slot(
    start: Start,
    until: Callable[..., None],
    endless: Callable[..., AbstractContextManager[None]],
    stream: bool,
) -> None:
    standin = start("--tok-s", "20", "--max-num-seqs", "1")
    with endless(standin, stream=stream):
        until(standin, num_requests_running=1)
    until(standin, **{"request_success_total{abort}": 1, "num_requests_running": 0})
    assert standin.complete(max_tokens=1).status == 200


def test_a_port_in_use_is_said_in_one_line(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        standin = start(ready=False, port=taken.getsockname()[1])
        assert standin.process.wait(5) == 1
    assert "cannot listen on 127.0.0.1 port" in standin.log
    assert "Traceback" not in standin.log


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["--speculative-config", "{"], "--speculative-config is refused: it is not JSON"),
        (["--host", "no.such.host.invalid"], "cannot listen on no.such.host.invalid"),
    ],
)
def test_a_start_that_cannot_be_is_refused_in_one_line(start: Start, args: list[str], reason: str) -> None:
    standin = start(*args, ready=False)
    assert standin.process.wait(5) == 1
    assert reason in standin.log
    assert "Traceback" not in standin.log


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["--tok-s", "0"], "'0' is no number from 0.001"),
        (["--tok-s", "nan"], "'nan' is no number"),
        (["--start-seconds", "soon"], "'soon' is no number"),
        (["--port", "70000"], "'70000' is no number from 0 to 65535"),
        (["--max-num-seqs", "0"], "'0' is no number from 1"),
        (["--fault", "other"], "invalid choice"),
        (["--typo"], "unrecognized arguments: --typo"),
    ],
)
def test_a_wrong_argument_is_refused_with_its_reason(
    capsys: pytest.CaptureFixture[str], args: list[str], reason: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--model", "/nowhere", *args])
    assert ended.value.code == 2
    assert reason in capsys.readouterr().err


def test_a_broken_model_folder_keeps_it_from_starting(start: Start, tmp_path: Path) -> None:
    standin = start(ready=False, model=tmp_path)
    assert standin.process.wait(5) == 1
    for reason in ("config.json is missing", "tokenizer.json is missing", "no *.safetensors"):
        assert reason in standin.log
    assert "Traceback" not in standin.log


def test_it_listens_on_ipv6_too(start: Start) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    standin = start("--host", "::1")
    with socket.create_connection(("::1", standin.port)) as raw:
        raw.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        assert b" 200 " in raw.recv(200)
