"""Starting, keys, and the ways to end."""

from __future__ import annotations

import http.client
import json
import re
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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


def test_while_it_starts_it_answers_503_and_then_200(start: Start) -> None:
    standin = start("--start-seconds", "0.3", ready=False)
    assert standin.get("/health").status == 503
    assert standin.complete().status == 503
    standin.wait_for("ready, serving")
    assert standin.get("/health").status == 200


def test_a_stop_while_it_starts_ends_it_at_once(start: Start) -> None:
    standin = start("--start-seconds", "60", ready=False)
    assert standin.port
    assert standin.stop() == 0


def test_a_stop_lets_the_answer_in_flight_end_and_takes_no_other(start: Start) -> None:
    standin = start("--tok-s", "50")
    idle = http.client.HTTPConnection("127.0.0.1", standin.port, timeout=5)
    idle.request("GET", "/health")
    idle.getresponse().read()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(standin.complete, max_tokens=25, ignore_eos=True, stream=True)
        _until_running(standin)
        standin.process.terminate()
        standin.wait_for("stopping")
        idle.request("POST", "/v1/completions", b'{"prompt": "a"}')
        refused = idle.getresponse()
        assert (refused.status, refused.getheader("Connection")) == (503, "close")
        refused.read()
        idle.close()
        assert answer.result().events[-1] == "[DONE]"
    assert standin.process.wait(5) == 0
    assert "stopped cleanly: 1 requests, 25 tokens" in standin.log


def test_a_second_signal_ends_it_at_once(start: Start) -> None:
    standin = start("--tok-s", "1")
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(standin.complete, max_tokens=100, ignore_eos=True)
        _until_running(standin)
        standin.process.terminate()
        standin.wait_for("stopping")
        standin.process.terminate()
        assert standin.process.wait(5) == 1
        assert isinstance(answer.exception(), (http.client.RemoteDisconnected, ConnectionError))


def test_after_a_kill_the_same_port_serves_again_at_once(start: Start) -> None:
    first = start()
    port = first.port
    assert first.complete(max_tokens=2).status == 200
    first.process.kill()
    first.process.wait(5)
    again = start(port=port)
    assert again.complete(max_tokens=2).status == 200


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_slot(
    start: Start, metrics_of: Callable[[Standin], dict[str, float]], stream: bool
) -> None:
    standin = start("--tok-s", "20", "--max-num-seqs", "1")
    body = json.dumps({"prompt": "a", "max_tokens": 2000, "ignore_eos": True, "stream": stream}).encode()
    with socket.create_connection(("127.0.0.1", standin.port)) as raw:
        raw.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        _until_running(standin)
    until = time.monotonic() + 5
    while metrics_of(standin)["vllm:request_success_total{abort}"] != 1:
        assert time.monotonic() < until
        time.sleep(0.02)
    assert metrics_of(standin)["vllm:num_requests_running"] == 0
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


def _until_running(standin: Standin) -> None:
    """Waits for a request to be in execution."""
    until = time.monotonic() + 5
    while not re.search(rb"vllm:num_requests_running\{.*\} 1\.0", standin.get("/metrics").body):
        assert time.monotonic() < until
        time.sleep(0.01)
