"""What is read from /proc and logs, and that secrets are not in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.serving.live import redacted
from checks.serving.process import describe, listener, masked


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A small /proc: process 42 listens on port 8000."""
    (tmp_path / "net").mkdir()
    row = (
        "   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 777 1 0"
        " 100 0 0 10 0"
    )
    (tmp_path / "net" / "tcp").write_text(f"  sl  local_address\n{row}\n")
    fd = tmp_path / "42" / "fd"
    fd.mkdir(parents=True)
    (fd / "3").symlink_to("socket:[777]")
    words = [
        "vllm",
        "serve",
        "m",
        "--api-key",
        "s3cret",
        "--max-num-batched-tokens",
        "8192",
        "--ssl-key=x",
        "--hf-token=hf_x",
    ]
    (tmp_path / "42" / "cmdline").write_bytes("\0".join(words).encode() + b"\0")
    env = {
        "NCCL_P2P_DISABLE": "1",
        "VLLM_API_KEY": "s3cret",
        "HF_TOKEN": "hf_x",
        "HOME": "/root",
        "CUDA_VISIBLE_DEVICES": "0,1",
    }
    (tmp_path / "42" / "environ").write_bytes("\0".join(f"{k}={v}" for k, v in env.items()).encode())
    (tmp_path / "42" / "status").write_text("Name:\tvllm\nCpus_allowed_list:\t0-3,8\n")
    return tmp_path


def test_the_listener_of_a_port_is_found_and_no_other(proc: Path) -> None:
    assert listener(8000, proc) == 42
    assert listener(8001, proc) is None


def test_a_process_is_described_without_its_secrets(proc: Path) -> None:
    told = describe(42, proc)
    assert told["environ"] == {"CUDA_VISIBLE_DEVICES": "0,1", "NCCL_P2P_DISABLE": "1"}
    assert told["cpus"] == 5
    assert "8192" in told["cmdline"]
    assert "s3cret" not in str(told)
    assert "hf_x" not in str(told)


def test_a_process_that_is_gone_is_described_as_nothing(tmp_path: Path) -> None:
    assert describe(7, tmp_path) == {"pid": 7, "cmdline": [], "environ": {}}


@pytest.mark.parametrize(
    ("words", "hidden"),
    [
        (["--api-key", "abc"], ["--api-key", "***"]),
        (["--api-key=abc"], ["--api-key=***"]),
        (["--api-key", "a", "b"], ["--api-key", "***", "***"]),
        (["--max-total-tokens", "5"], ["--max-total-tokens", "5"]),
        (["--speculative-num-draft-tokens", "4"], ["--speculative-num-draft-tokens", "4"]),
    ],
)
def test_the_values_of_secret_options_are_masked_and_no_others(words: list[str], hidden: list[str]) -> None:
    assert masked(words) == hidden


@pytest.mark.parametrize(
    "line",
    [
        "non-default args: {'api_key': ['s3cret'], 'port': 8000}",
        "server_args=ServerArgs(model_path='m', api_key='s3cret', tp_size=2)",
        "launch: python -m sglang --api-key s3cret --tp 2",
        '{"admin_api_key": "s3cret", "tp": 2}',
    ],
)
def test_a_log_loses_its_keys_and_keeps_the_rest(line: str) -> None:
    assert "s3cret" not in redacted(line)
    assert any(kept in redacted(line) for kept in ("8000", "tp_size=2", "--tp 2", '"tp": 2'))
