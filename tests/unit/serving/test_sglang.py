"""Against a server that speaks SGLang's dialect: no draft counters before 0.5.23, statistics with each answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

Serve = Callable[..., tuple[int, dict[str, Any]]]

INFO: dict[str, Any] = {
    "model_path": "Qwen/Qwen3.6-27B",
    "tp_size": 1,
    "speculative_algorithm": "EAGLE",
    "speculative_draft_model_path": None,
    "speculative_num_draft_tokens": 4,
    "disable_cuda_graph": False,
    "quantization": "compressed-tensors",
    "api_key": "s3cret",
    "launch_command": "python -m sglang.launch_server --api-key s3cret --tp 1",
    "version": "0.5.23",
    "internal_states": [{"avg_spec_accept_length": 3.0}],
}


@contextmanager
def _sglang(
    histogram: list[int], names: tuple[str, ...] = ("spec_verify_ct", "spec_correct_drafts_histogram")
) -> Iterator[str]:
    """A server whose every answer was made in ``sum(histogram)`` verify calls; ``histogram[i]``: i drafts accepted."""
    calls = sum(histogram)
    tokens = calls + sum(at * count for at, count in enumerate(histogram))
    told = {"requests": 0}

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            return

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            pages = {
                "/v1/models": json.dumps({"data": [{"id": "qwen"}]}),
                "/server_info": json.dumps(INFO),
                "/metrics": (
                    f'sglang:generation_tokens_total{{model_name="qwen"}} {told["requests"] * tokens}\n'
                    'sglang:spec_accept_length{model_name="qwen"} 9.0\n'
                ),
            }
            self._send(200 if path in pages else 404, pages.get(path, "{}"))

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            told["requests"] += 1
            meta = {names[0]: calls, "completion_tokens": tokens}
            if len(names) > 1:
                meta[names[1]] = histogram
            words = " ".join(f"word{at}" for at in range(40))
            pieces = [
                {"choices": [{"delta": {"content": words}, "text": words}]},
                {
                    "choices": [
                        {
                            "delta": {"content": " and so on."},
                            "text": ".",
                            "finish_reason": "stop",
                            "meta_info": meta,
                        }
                    ]
                },
                {"choices": [], "usage": {"completion_tokens": tokens, "prompt_tokens": 9}},
            ]
            self._send(
                200,
                "".join(f"data: {json.dumps(piece)}\n\n" for piece in pieces) + "data: [DONE]\n\n",
                "text/event-stream",
            )

        def _send(self, status: int, text: str, kind: str = "application/json") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("histogram_name", ["spec_correct_drafts_histogram", "spec_accept_histogram"])
def test_length_and_positions_come_from_the_answers_of_both_generations(
    serve: Serve, histogram_name: str
) -> None:
    with _sglang([10, 10, 20, 60], ("spec_verify_ct", histogram_name)) as url:
        code, report = serve(url)
    found = report["facts"]["acceptance"]
    assert code == 0, report["findings"]
    assert found["length"] == pytest.approx(1 + (10 + 40 + 180) / 100)
    assert found["per_position"] == [0.9, 0.8, 0.6]
    assert found["k"] == 3
    assert found["drafts"] >= 200
    assert report["facts"]["settings"]["method"] == "mtp"


def test_an_mtp_head_that_was_not_loaded_is_named(serve: Serve) -> None:
    with _sglang([100, 0, 0, 0]) as url:
        code, report = serve(url, "--diagnose")
    assert code == 1
    first = report["facts"]["diagnosis"]["causes"][0]
    assert first["id"] == "mtp_weights"
    assert "compressed-tensors" in first["because"]


def test_without_statistics_in_the_answers_the_lifetime_mean_is_read_and_named(serve: Serve) -> None:
    with _sglang([10, 10, 20, 60], ("nothing",)) as url:
        _, report = serve(url)
    assert report["facts"]["acceptance"]["length"] == 3.0
    assert "since start" in report["facts"]["acceptance"]["source"]


def test_keys_in_server_info_are_written_nowhere(serve: Serve, tmp_path: Any) -> None:
    record = tmp_path / "record.json"
    with _sglang([10, 10, 20, 60]) as url:
        _, report = serve(url, "--record", str(record))
    assert "s3cret" not in record.read_text() + json.dumps(report)
    assert "launch_server" in record.read_text()
