"""What an engine was asked for, from the words of its process."""

from __future__ import annotations

import pytest

from provision.adopt.words import server, started

SGLANG = [
    "/opt/sglang/bin/python3",
    "-m",
    "sglang.launch_server",
    "--model-path",
    "Qwen/Qwen3.6-27B",
    "--host",
    "0.0.0.0",
    "--port",
    "30001",
    "--served-model-name",
    "qwen",
    "--tp",
    "2",
    "--enable-metrics",
    "--mem-fraction-static",
    "0.8",
    "--speculative-algorithm",
    "NEXTN",
    "--speculative-num-steps",
    "3",
]
VLLM = [
    "/opt/vllm/bin/python3",
    "/opt/vllm/bin/vllm",
    "serve",
    "/srv/models/qwen",
    "--port=8001",
    "--speculative-config",
    '{"method": "dflash", "model": "/srv/models/drafter", "num_speculative_tokens": 8}',
    "--trust-remote-code",
]


def test_sglang_is_read() -> None:
    found = started(SGLANG)
    assert found is not None
    assert (found.kind, found.model, found.listen, found.port) == (
        "sglang",
        "Qwen/Qwen3.6-27B",
        "0.0.0.0",
        30001,
    )
    assert found.flags == (
        "--tp",
        "2",
        "--mem-fraction-static",
        "0.8",
        "--speculative-algorithm",
        "NEXTN",
        "--speculative-num-steps",
        "3",
    )


def test_vllm_is_read_with_its_drafter() -> None:
    found = started(VLLM)
    assert found is not None
    assert (found.kind, found.model, found.port) == ("vllm", "/srv/models/qwen", 8001)
    assert found.drafter == "/srv/models/drafter"
    assert found.flags[-1] == "--trust-remote-code"


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["python", "-m", "vllm.entrypoints.openai.api_server", "--model", "m"], "vllm"),
        (
            [
                "python3",
                "/x/lib/python3.11/site-packages/vllm/entrypoints/openai/api_server.py",
                "--model",
                "m",
            ],
            "vllm",
        ),
        (["vllm", "serve", "m"], "vllm"),
        (["/usr/local/bin/vllm", "serve", "--model", "m"], "vllm"),
        (["python", "-m", "vllm.entrypoints.cli.main", "serve", "m"], "vllm"),
        (
            ["numactl", "--cpunodebind=0", "/v/bin/python", "-m", "sglang.launch_server", "--model", "m"],
            "sglang",
        ),
        (["python3", "/src/sglang/launch_server.py", "--model-path", "m"], "sglang"),
        (["/v/bin/kpro-standin", "--model", "m"], "standin"),
    ],
)
def test_every_way_to_start_a_server_is_known(words: list[str], kind: str) -> None:
    found = started(words)
    assert found is not None
    assert (found.kind, found.model) == (kind, "m")


@pytest.mark.parametrize(
    "words",
    [
        ["VLLM::EngineCore"],
        ["sglang::scheduler"],
        ["vllm", "bench", "serve", "--model", "m"],
        ["python", "-m", "vllm.benchmarks", "--model", "m"],
        ["grep", "vllm serve"],
        ["sh", "-c", "vllm serve m"],
        ["python", "-m", "sglang.launch_server"],
        ["python", "-m"],
        ["tail", "-f", "/var/log/vllm"],
        [""],
        [],
    ],
)
def test_what_is_no_server_is_none(words: list[str]) -> None:
    assert started(words) is None


def test_the_defaults_are_the_engines_own() -> None:
    vllm, sglang = (
        started(["vllm", "serve", "m"]),
        started(["python", "-m", "sglang.launch_server", "--model", "m"]),
    )
    assert vllm is not None
    assert sglang is not None
    assert (vllm.listen, vllm.port, sglang.listen, sglang.port) == ("0.0.0.0", 8000, "127.0.0.1", 30000)


def test_underscores_in_names_of_options_are_dashes() -> None:
    found = started(
        ["python", "-m", "sglang.launch_server", "--model_path", "m", "--served_model_name=x", "--port", "1"]
    )
    assert found is not None
    assert (found.model, found.served, found.flags, found.port) == ("m", "x", (), 1)


def test_a_negative_number_is_a_value_and_a_flag_without_value_keeps_its_neighbour() -> None:
    found = started(["vllm", "serve", "m", "--max-num-seqs", "-1", "--enforce-eager", "--port", "9"])
    assert found is not None
    assert (found.flags, found.port) == (("--max-num-seqs", "-1", "--enforce-eager"), 9)


@pytest.mark.parametrize("text", ["{", "[]", "3", ""])
def test_a_broken_speculative_config_names_no_drafter(text: str) -> None:
    found = started(["vllm", "serve", "m", "--speculative-config", text])
    assert found is not None
    assert found.drafter is None


def test_a_key_in_the_words_is_seen_and_dropped() -> None:
    found = started(["vllm", "serve", "m", "--api-key", "***"])
    assert found is not None
    assert (found.with_key, found.flags) == (True, ())


def test_the_options_of_what_starts_the_server_are_not_the_server_s() -> None:
    assert server(["numactl", "--membind=0", "vllm", "serve", "m"]) == ("vllm", 4)
