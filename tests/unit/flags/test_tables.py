"""The table files, and the maker on a wheel of a few lines."""

from __future__ import annotations

import json
import zipfile
from importlib.resources import files
from pathlib import Path

import pytest

from checks.flags.maker import environment, history, sglang, vllm
from checks.flags.maker.sources import Wheel
from checks.flags.table import ENGINES, options_of
from checks.flags.table import history as table_history

WANTED = {
    "vllm": ("0.20.1", "0.25.0", "0.25.1", "0.33.0"),
    "sglang": ("0.5.10.post1", "0.5.11", "0.5.23"),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_the_versions_that_matter_are_in_the_table_each_with_the_wheel_it_came_from(engine: str) -> None:
    known = table_history(engine)
    assert set(WANTED[engine]) <= set(known.versions)
    for entry in known.raw["versions"]:
        assert entry["wheel"].startswith(f"{engine}-{entry['version']}-")
        assert len(entry["sha256"]) == 64
        assert entry["read"].startswith("20")


@pytest.mark.parametrize(
    ("engine", "version", "count"),
    [("vllm", "0.20.1", 240), ("vllm", "0.33.0", 321), ("sglang", "0.5.11", 376), ("sglang", "0.5.23", 533)],
)
def test_a_table_has_as_many_options_as_the_real_parser_built_from_the_wheel(
    engine: str, version: str, count: int
) -> None:
    """Counted on the parsers themselves: 240 and 321 of vllm serve, 532 of ServerArgs and --model-type of serve."""
    table = table_history(engine).table(version)
    assert len({id(option) for option in table.options.values()}) == count


@pytest.mark.parametrize("engine", ENGINES)
def test_a_table_file_can_be_taken_apart_and_put_together(engine: str) -> None:
    text = (files("checks") / "data" / f"flags-{engine}.json").read_text()
    assert history.text(history.merge(engine, *history.split(json.loads(text)))) == text


VLLM_WHEEL = {
    "vllm/envs.py": 'import os\nNAME = os.environ.get("VLLM_ALIVE")\n',
    "vllm/config/__init__.py": "from .model import ModelConfig, SpeculativeConfig\n",
    "vllm/config/model.py": '''
from dataclasses import dataclass
from typing import Literal
from pydantic import Field
Kind = Literal["auto", "half"]
More = Literal["mtp", Kind]
def config(cls): return cls
@config
class Inner:
    depth: int = Field(default=1, gt=0)
@config
class ModelConfig:
    dtype: Kind = "auto"
    """The type."""
    max_model_len: int | None = None
    max_num_batched_tokens: int = 1
    names: list[str] | None = None
    trust: bool = False
    inner: Inner | None = None
    gone: int = 0
    """[DEPRECATED] gone will be removed. Use --names instead."""
@config
class SpeculativeConfig:
    shared: ClassVar[int] = 1
    method: More | None = None
    tokens: int = Field(default=None, gt=0)
    inner: Inner | None = None
''',
    "vllm/utils/argparse_utils.py": "class EnableDisableAction: pass\n",
    "vllm/engine/arg_utils.py": """
from vllm.config import ModelConfig
names = {"max_num_batched_tokens", "kv_cache_memory_bytes"}
class AsyncEngineArgs:
    @staticmethod
    def add_cli_args(parser):
        kwargs = get_kwargs(ModelConfig)
        for name, value in kwargs.items():
            parser.add_argument(f"--{name.replace('_', '-')}", **value)
        parser.add_argument("--speculative-config", "-sc", type=optional_type(json.loads))
        parser.add_argument("--enable-fast", action=argparse.BooleanOptionalAction)
        parser.add_argument("--unknown", choices=compute_at_run_time())
        return parser
""",
    "vllm/entrypoints/cli/serve.py": "from vllm.entrypoints.args import make_arg_parser\n",
    "vllm/entrypoints/args.py": """
from vllm.engine.arg_utils import AsyncEngineArgs
def make_arg_parser(parser):
    parser.add_argument("model_tag", nargs="?")
    parser.add_argument("--headless", action="store_true")
    return AsyncEngineArgs.add_cli_args(parser)
""",
    "vllm/native.so": "VLLM_NATIVE\0VLLM_ALIVE_TOO\0",
}


def wheel(tmp_path: Path, members: dict[str, str], name: str = "vllm-9.0-py3-none-any.whl") -> Wheel:
    path = tmp_path / name
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in members.items():
            archive.writestr(member, text)
    return Wheel(path)


def test_the_maker_reads_a_vllm_parser_from_dataclasses_without_importing_it(tmp_path: Path) -> None:
    made = vllm.table(wheel(tmp_path, VLLM_WHEEL))
    options = options_of(made["flags"])
    assert options["--dtype"].choices == ("auto", "half")
    assert (options["--max-model-len"].type, options["--max-model-len"].none) == ("count_or_auto", True)
    assert options["--max-num-batched-tokens"].type == "count"
    assert options["--names"].nargs == "+"
    assert options["--no-trust"] is options["--trust"]
    assert options["--disable-fast"].nargs == options["--headless"].nargs == 0
    assert (options["--inner"].type, options["--inner"].object) == ("json_counts", "Inner")
    assert options["-sc"].object == "SpeculativeConfig"
    assert options["--gone"].replacement == "--names"
    assert options["--names"].deprecated is None
    keys = made["objects"]["SpeculativeConfig"]
    assert set(keys) == {"method", "tokens", "inner"}
    assert keys["method"]["choices"] == ["auto", "half", "mtp"]
    assert (keys["tokens"]["gt"], keys["inner"]["object"]) == (0, "Inner")


def test_what_the_source_does_not_tell_is_marked_and_not_guessed(tmp_path: Path) -> None:
    made = vllm.table(wheel(tmp_path, VLLM_WHEEL))
    row = next(row for row in made["flags"] if "--unknown" in row["names"])
    assert row["choices_unknown"]
    assert "choices" not in row


def test_variables_are_found_in_sources_and_in_libraries(tmp_path: Path) -> None:
    assert set(environment.variables(wheel(tmp_path, VLLM_WHEEL))) == {
        "VLLM_ALIVE",
        "VLLM_NATIVE",
        "VLLM_ALIVE_TOO",
    }


SGLANG_WHEEL = {
    "sglang/srt/server_args.py": """
from sglang.srt.arg_groups.arg_utils import A, Arg, add_cli_args_from_dataclass
from sglang.srt.actions import DeprecatedStoreTrueAction
KINDS = ["a", "b"]
class ServerArgs:
    model_path: A[str, Arg(help="The model.", aliases=["--model"])]
    size: A[int, "A number."] = 1
    kind: A[Optional[str], Arg(help="A kind.", choices=KINDS)] = None
    hidden: A[str, Arg(no_cli=True)] = ""
    plain: int = 3
    length: A[Optional[int], Arg(help="x", type_parser=human_readable_int)] = None
    many: A[Optional[List[int]], "Numbers."] = None
    @staticmethod
    def add_cli_args(parser):
        add_cli_args_from_dataclass(parser, ServerArgs)
        parser.add_argument("--old", action=DeprecatedStoreTrueAction, new_flag="--kind=a")
""",
    "sglang/srt/actions.py": "class DeprecatedStoreTrueAction: pass\n",
    "sglang/cli/serve.py": """
def _normalize_positional_model_path(argv): pass
def _extract_model_type_override(argv): pass
""",
    "sglang/srt/environ.py": """
class _DeprecatedEnv: pass
_DEPRECATED_ENVS = {"SGLANG_OLD": _DeprecatedEnv(replacement="SGLANG_NEW", note="Gone.")}
X = "SGLANG_NEW"
""",
}


def test_the_maker_reads_annotated_fields_of_sglang(tmp_path: Path) -> None:
    source = wheel(tmp_path, SGLANG_WHEEL, "sglang-9.0-py3-none-any.whl")
    made = sglang.table(source)
    options = options_of(made["flags"])
    assert options["--model"].required
    assert options["--kind"].choices == ("a", "b")
    assert {"--hidden", "--plain"} & set(options) == set()
    assert (options["--length"].type, options["--many"].nargs) == ("count_iec", "+")
    assert (options["--old"].nargs, options["--old"].replacement) == (0, "--kind=a")
    assert made["positional"]
    assert "--model-type" in options
    assert environment.variables(source)["SGLANG_OLD"] == {
        "gone": True,
        "note": "Gone.",
        "replacement": "SGLANG_NEW",
    }


def test_a_row_is_kept_once_for_all_versions_that_share_it(tmp_path: Path) -> None:
    table = {**vllm.table(wheel(tmp_path, VLLM_WHEEL)), "env": {"VLLM_A": {}}}
    other = {**table, "flags": table["flags"][:-1], "env": {}}
    versions = [{"version": v, "wheel": "w", "sha256": "0", "read": "d"} for v in ("1", "2", "3")]
    merged = history.merge("vllm", versions, {"1": table, "2": other, "3": table})
    assert len(merged["flags"]) == len(table["flags"])
    assert merged["env"] == [{"name": "VLLM_A", "v": [0, 0, 2, 2]}]
    assert history.split(merged)[1]["2"]["env"] == {}
