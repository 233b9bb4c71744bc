"""Relatives: the rule that fits their configs, from a folder and from a hub that may be gated, slow or
hostile."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from checks.cli import main
from checks.data.drafter_families import FAMILIES
from checks.drafter import hub
from checks.drafter.config import parse
from checks.drafter.expected import fit_siblings, spaced_ids
from tests.unit.drafter.makers import Pair, dflash_shapes, family_pair, incident_pair

TABLE = {
    28: (1, 7, 13, 19, 25),
    32: (1, 8, 15, 22, 29),
    36: (1, 9, 17, 25, 33),
    40: (1, 10, 19, 28, 37),
    48: (1, 12, 23, 34, 45),
    60: (1, 15, 29, 43, 57),
    62: (1, 16, 30, 44, 59),
    64: (1, 16, 31, 46, 61),
}


@pytest.mark.parametrize(("depth", "ids"), TABLE.items())
def test_the_usual_spacing_is_that_of_the_reference_code(depth: int, ids: tuple[int, ...]) -> None:
    assert spaced_ids(depth, 5) == ids


def test_the_spacing_has_no_answer_where_there_is_no_rising_list() -> None:
    assert spaced_ids(64, 1) == (32,)
    assert spaced_ids(4, 5) is None
    assert spaced_ids(5, 4) is None
    assert spaced_ids(64, 0) is None


def relative(name: str) -> dict[str, Any]:
    config = family_pair(next(row for row in FAMILIES if row.name == name)).config
    assert config is not None
    return config


KIN = ("Qwen3-4B-DFlash-b16", "Qwen3-8B-DFlash-b16", "Qwen3.5-4B-DFlash")
TARGET = parse({"vocab_size": 151936, "num_hidden_layers": 48, "hidden_size": 2048})


def test_relatives_give_the_spacing_and_those_with_the_vocabulary_the_mask() -> None:
    fit = fit_siblings([(name, parse(relative(name))) for name in KIN], TARGET)
    assert (fit.start, fit.gap, fit.mask, fit.block) == (1, 3, 151669, 16)
    assert fit.conflicts == ()


def test_a_relative_that_disagrees_takes_the_value_away_and_is_named() -> None:
    odd = relative("Qwen3-8B-DFlash-b16")
    odd["dflash_config"] = {"mask_token_id": 5, "target_layer_ids": [3, 11, 19, 27, 35]}
    fit = fit_siblings([("a", parse(relative("Qwen3-4B-DFlash-b16"))), ("b", parse(odd))], TARGET)
    assert (fit.mask, fit.start) == (None, None)
    assert any("mask" in text and "b 5" in text for text in fit.conflicts)
    assert any("no even spacing" in text for text in fit.conflicts)


def test_another_rule_than_the_usual_is_found() -> None:
    configs = []
    for depth in (36, 48, 64):
        ids = spaced_ids(depth, 5, start=5, gap=3)
        raw = {
            "num_target_layers": depth,
            "vocab_size": 9,
            "dflash_config": {"target_layer_ids": list(ids or ())},
        }
        configs.append((str(depth), parse(raw)))
    fit = fit_siblings(configs, TARGET)
    assert (fit.start, fit.gap) == (5, 3)


def stranger() -> Pair:
    """A drafter whose shape no row has, with a bare file and a Qwen3 target of 48 layers."""
    pair = family_pair(next(row for row in FAMILIES if row.name == "Qwen3-Coder-30B-A3B-DFlash"))
    pair.shapes = dflash_shapes(hidden=2048, inter=6000, heads=32, kv=4, head_dim=128, layers=7, captured=5)
    pair.config = None
    return pair


def arguments(pair: Pair, root: Path) -> list[str]:
    drafter, target = pair.write(root / "models")
    return ["drafter", str(drafter), "--target", str(target), "--engine", "vllm==0.33.0", "--json"]


def test_a_folder_of_relatives_lets_a_stranger_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = arguments(stranger(), tmp_path)
    assert main([*call, "--write"]) == 1
    kin = tmp_path / "kin"
    for name in KIN:
        (kin / name).mkdir(parents=True)
        (kin / name / "config.json").write_text(json.dumps(relative(name)))
    capsys.readouterr()
    assert main([*call, f"--siblings={kin}", "--write"]) == 0
    written = json.loads((Path(call[1]) / "config.json").read_text())
    assert written["dflash_config"] == {"mask_token_id": 151669, "target_layer_ids": [1, 12, 23, 34, 45]}
    origins = json.loads((Path(call[1]) / "config.origins.json").read_text())
    assert origins["dflash_config.mask_token_id"] == origins["dflash_config.target_layer_ids"] == "siblings"
    assert origins["rope_theta"] == "target"


@pytest.mark.parametrize("content", ["{", '{"a": NaN}', "[" * 100_000])
def test_a_hostile_relative_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    call = arguments(incident_pair(), tmp_path)
    (tmp_path / "kin").mkdir()
    (tmp_path / "kin" / "a.json").write_text(content)
    assert main([*call, f"--siblings={tmp_path / 'kin'}"]) == 2
    assert "a.json" in capsys.readouterr().err


def test_an_empty_folder_answers_nothing_and_is_not_green(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = family_pair(FAMILIES[0])
    call = arguments(pair, tmp_path)
    (tmp_path / "kin").mkdir()
    assert main([*call, f"--siblings={tmp_path / 'kin'}"]) == 3
    assert main([*call, f"--siblings={tmp_path / 'nowhere'}"]) == 2


class _Hub(BaseHTTPRequestHandler):
    seen: ClassVar[list[tuple[str, str | None]]] = []
    elsewhere: ClassVar[str] = ""

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers.get("Authorization")))
        if "Qwen3-4B" in self.path:
            self._answer(200, json.dumps(relative("Qwen3-4B-DFlash-b16")).encode())
        elif "Qwen3-8B" in self.path and self.elsewhere:
            self.send_response(302)
            self.send_header("Location", f"{self.elsewhere}/moved/Qwen3-4B")
            self.end_headers()
        elif "27B-DFlash/" in self.path:
            self._answer(200, b"[" * 300_000)
        elif "Drip" in self.path:
            self.send_response(200)
            self.end_headers()
            for _ in range(100):
                try:
                    self.wfile.write(b" ")
                    self.wfile.flush()
                except ConnectionError:
                    return
                time.sleep(0.05)
        elif "Coder" in self.path:
            self._answer(200, b'{"a": "' + b"x" * (2 * 2**20) + b'"}')
        else:
            self._answer(401, b"gated")

    def _answer(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(ConnectionError):
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """Two servers on loopback: the hub, and another host to which it redirects."""
    monkeypatch.setattr(_Hub, "seen", [])
    running = [ThreadingHTTPServer(("127.0.0.1", 0), _Hub) for _ in range(2)]
    for server in running:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    first, second = (f"http://127.0.0.1:{server.server_port}" for server in running)
    monkeypatch.setattr(_Hub, "elsewhere", second)
    monkeypatch.setenv("HF_ENDPOINT", first)
    monkeypatch.setenv("HF_TOKEN", "secret-of-the-test")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield first, second
    for server in running:
        server.shutdown()
        server.server_close()


def test_the_hub_is_asked_with_the_token_and_another_host_never_gets_it(servers: tuple[str, str]) -> None:
    found, failed = hub.fetch(["z-lab/Qwen3-4B-DFlash-b16", "z-lab/Qwen3-8B-DFlash-b16", "z-lab/Gated"])
    assert [name for name, _ in found] == ["z-lab/Qwen3-4B-DFlash-b16", "z-lab/Qwen3-8B-DFlash-b16"]
    assert failed == ["z-lab/Gated: HTTP 401: gated; accept its terms and set HF_TOKEN"]
    tokens = dict(_Hub.seen)
    assert tokens["/z-lab/Qwen3-4B-DFlash-b16/resolve/main/config.json"] == "Bearer secret-of-the-test"
    assert tokens["/moved/Qwen3-4B"] is None


def test_hostile_answers_are_reasons_and_nothing_leaks(servers: tuple[str, str]) -> None:
    found, failed = hub.fetch(["z-lab/Qwen3.6-27B-DFlash", "z-lab/Qwen3-Coder-30B-A3B-DFlash"])
    assert found == []
    assert "brackets" in failed[0]
    assert "larger than" in failed[1]
    assert "secret" not in " ".join(failed)


def test_a_server_that_drips_does_not_hold_the_command(
    servers: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "TIMEOUT", 0.4)
    begun = time.monotonic()
    assert hub.fetch(["z-lab/Drip"]) == ([], ["z-lab/Drip: no answer"])
    assert time.monotonic() - begun < 3


def test_the_command_reports_relatives_from_the_hub_without_the_token(
    servers: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = arguments(family_pair(FAMILIES[0]), tmp_path)
    assert main([*call, "--siblings"]) == 0
    out, err = capsys.readouterr()
    finding = next(item for item in json.loads(out)["findings"] if item["id"] == "drafter.siblings")
    assert finding["status"] == "pass"
    assert "mask 151669" in finding["message"]
    assert "secret" not in out + err


def test_a_hub_that_is_not_there_is_unknown_and_not_a_crash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    call = arguments(family_pair(FAMILIES[0]), tmp_path)
    assert main([*call, "--siblings", "hub"]) == 3
    assert "URLError" not in capsys.readouterr().err


@pytest.mark.parametrize("address", ["file:///etc", "ftp://x", "http://u:p@127.0.0.1", "nonsense"])
def test_an_endpoint_that_is_no_plain_http_address_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", address)
    assert main([*arguments(family_pair(FAMILIES[0]), tmp_path), "--siblings", "hub"]) == 2
    assert "u:p" not in capsys.readouterr().err
