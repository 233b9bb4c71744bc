"""The installed parser: a small engine package stands in for the real one, in its own interpreter environment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from checks.errors import BadInput
from checks.flags.assess import report
from checks.flags.installed import NoAnswer, ask, find_python, installed_version
from checks.model import Report, Status

PARSER = """
import argparse, json, time
{prelude}
def loads(text): return json.loads(text)
def optional_type(inner):
    def _optional_type(text): return None if text in ("", "None") else inner(text)
    return _optional_type
def human_readable_int(text): return int(text)
class FlexibleArgumentParser(argparse.ArgumentParser):
    pass
def make_arg_parser(parser):
    parser.add_argument("model_tag", nargs="?")
    parser.add_argument("--tensor-parallel-size", "-tp", type=int)
    parser.add_argument("--max-num-batched-tokens", type=optional_type(human_readable_int))
    parser.add_argument("--dtype", choices=["auto", "half"])
    parser.add_argument("--speculative-config", type=optional_type(loads))
    parser.add_argument("--enable-x", action=argparse.BooleanOptionalAction)
    parser.add_argument("--only-here", nargs="+")
    kinds = ["deep_gemm", "triton"]
    parser.add_argument("--moe-backend", type=lambda s: s.lower().replace("-", "_"), choices=kinds)
    return parser
"""


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An interpreter whose site-packages hold an engine called vllm 0.33.0, without its weight."""
    return make(tmp_path, "0.33.0")


def make(root: Path, version: str, prelude: str = "") -> Path:
    site = root / "lib" / "python3.11" / "site-packages"
    for package in ("vllm", "vllm/utils", "vllm/entrypoints", "vllm/entrypoints/cli"):
        (site / package).mkdir(parents=True, exist_ok=True)
        (site / package / "__init__.py").write_text(f"__version__ = {version!r}\n")
    (site / "vllm/utils/argparse_utils.py").write_text(PARSER.replace("{prelude}", prelude))
    (site / "vllm/entrypoints/cli/serve.py").write_text(
        "from vllm.utils.argparse_utils import make_arg_parser\n"
    )
    (site / f"vllm-{version}.dist-info").mkdir(exist_ok=True)
    python = root / "bin" / "python3"
    python.parent.mkdir(exist_ok=True)
    python.write_text(f'#!/bin/sh\nPYTHONPATH={site} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    program = root / "bin" / "vllm"
    program.write_text(f"#!{python}\n")
    program.chmod(0o755)
    return python


def judged(python: Path, *words: str, engine: str = "vllm==0.33.0") -> Report:
    return report(engine, ["vllm", "serve", "m", *words], python=str(python))


def bad(result: Report) -> dict[str, Status]:
    return {f.id: f.status for f in result.findings if f.status is not Status.PASS}


def test_an_option_that_only_the_installed_parser_has_is_taken(environment: Path) -> None:
    assert bad(judged(environment, "--only-here", "a", "b")) == {}
    table = report("vllm==0.33.0", ["vllm", "serve", "m", "--only-here", "a"], parser="table")
    assert bad(table) == {"flags.unknown": Status.FAIL}


def test_an_option_that_the_installed_parser_lacks_is_refused_although_the_table_has_it(
    environment: Path,
) -> None:
    found = bad(judged(environment, "--max-model-len", "100"))
    assert found["flags.parser"] is Status.FAIL
    assert found["flags.unknown"] is Status.FAIL


def test_kinds_of_the_real_parser_are_read_through_its_closures(environment: Path) -> None:
    answer = ask("vllm", str(environment), [], 20)
    assert answer.options["--max-num-batched-tokens"].type == "count"
    assert answer.options["--max-num-batched-tokens"].none
    assert answer.options["--speculative-config"].type == "json"
    assert answer.options["--no-enable-x"].nargs == 0
    assert answer.options["--dtype"].choices == ("auto", "half")
    assert (answer.version, answer.positional, answer.refused) == ("0.33.0", True, None)


def test_a_kind_that_only_the_sources_tell_is_taken_from_them(environment: Path) -> None:
    assert ask("vllm", str(environment), [], 20).options["--moe-backend"].choices is None
    assert bad(judged(environment, "--moe-backend", "Deep-Gemm")) == {}
    assert bad(judged(environment, "--moe-backend", "none-such"))["flags.choice"] is Status.FAIL


def test_json_keys_are_still_judged_by_the_table_of_the_same_version(environment: Path) -> None:
    result = judged(environment, "--speculative-config", '{"method":"mtp","num_speculative_token":1}')
    assert bad(result) == {"flags.json": Status.FAIL}


def test_what_the_parser_says_is_repeated_without_secrets(environment: Path) -> None:
    result = judged(environment, "--api-key", "s3cr3t-value")
    assert "s3cr3t-value" not in str(result.as_dict())
    assert bad(result)["flags.parser"] is Status.FAIL


def test_a_parser_that_hangs_is_abandoned_and_the_table_judges(tmp_path: Path) -> None:
    python = make(tmp_path, "0.33.0", prelude="time.sleep(60)")
    result = report("vllm==0.33.0", ["vllm", "serve", "m"], python=str(python), deadline=1.5)
    assert bad(result) == {"flags.installed": Status.WARN}
    assert "was abandoned" in result.findings[0].message
    assert result.facts["judged_by"].startswith("vllm-0.33.0-")


@pytest.mark.parametrize(
    "prelude", ["raise ImportError('no CUDA here')", "import os; os._exit(9)", "print('x' * 100)"]
)
def test_an_environment_that_cannot_build_the_parser_is_said(tmp_path: Path, prelude: str) -> None:
    python = make(tmp_path, "0.33.0", prelude=prelude)
    expected = {} if "print" in prelude else {"flags.installed": Status.WARN}
    assert bad(report("vllm==0.33.0", ["vllm", "serve", "m"], python=str(python))) == expected
    if expected:
        with pytest.raises(NoAnswer):
            ask("vllm", str(python), [], 20)


def test_another_version_than_asked_for_is_bad_input(environment: Path) -> None:
    with pytest.raises(BadInput, match=r"has 0\.33\.0"):
        judged(environment, engine="vllm==0.32.0")


def test_an_interpreter_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be started"):
        judged(tmp_path / "none")
    with pytest.raises(BadInput, match="name its interpreter"):
        report("vllm==0.0.1", ["vllm", "serve", "m"], parser="installed")


def test_the_program_on_the_path_leads_to_its_environment_and_its_version(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{environment.parent}:/usr/bin:/bin")
    assert installed_version("vllm", str(environment)) == "0.33.0"
    assert find_python("vllm", "0.33.0") == str(environment)
    assert find_python("vllm", "0.32.0") is None
    assert (
        report("vllm==0.33.0", ["vllm", "serve", "m"]).facts["judged_by"].startswith("the parser installed")
    )


def test_what_was_built_from_sources_is_asked_as_it_is_and_the_table_adds_nothing(tmp_path: Path) -> None:
    python = make(tmp_path, "0.33.1.dev7")
    words = ["vllm", "serve", "m", "--only-here", "a", "--speculative-config", '{"brand_new": 1}']
    with pytest.raises(BadInput, match=r"has 0\.33\.1\.dev7"):
        report("vllm==0.33.0", words, python=str(python))
    assert bad(report("vllm==0.33.0", words, python=str(python), built=True)) == {}
    refused = report("vllm==0.33.0", [*words, "--no-such"], python=str(python), built=True)
    assert bad(refused)["flags.parser"] is Status.FAIL
