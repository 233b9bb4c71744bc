"""Runs inside the engine's own interpreter: its real parser as rows, and what it says to a command line.

Standard library only, no import of this project: the text of this file is handed to ``python -c``. It reads
``{"engine", "arguments"}`` from stdin and prints one line of JSON after MARK. Importing an engine takes half
a minute and prints what it likes, so only the marked line counts.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import sys
from collections.abc import Callable
from typing import Any

MARK = "provcheck-parser "
KINDS = {
    "int": "int",
    "float": "float",
    "str": "str",
    "loads": "json",
    "json_list_type": "json",
    "human_readable_int_or_auto": "count_or_auto",
    "union_dict_and_str": "str",
    "nullable_str": "str",
}


def build(engine: str) -> argparse.ArgumentParser:
    """The parser of ``vllm serve`` or ``sglang serve`` as the engine itself builds it."""
    if engine == "vllm":
        parser = importlib.import_module("vllm.utils.argparse_utils").FlexibleArgumentParser(
            prog="vllm serve"
        )
        made = importlib.import_module("vllm.entrypoints.cli.serve").make_arg_parser(parser)
        assert isinstance(made, argparse.ArgumentParser)
        return made
    plain = argparse.ArgumentParser(prog="sglang serve")
    importlib.import_module("sglang.srt.server_args").ServerArgs.add_cli_args(plain)
    return plain


def kind_of(function: Any, engine: str) -> tuple[str, bool, str | None]:
    """A ``type=`` callable as (kind, takes None, record). Closures of ``optional_type`` are looked into."""
    none = False
    while getattr(function, "__name__", "") in ("_optional_type", "_parse_type"):
        none = none or function.__name__ == "_optional_type"
        function = function.__closure__[0].cell_contents
    name = getattr(function, "__name__", "str" if function is None else "")
    if name == "parse_dataclass":
        return "json_counts", none, function.__defaults__[0].__name__
    if name == "human_readable_int":
        return ("count" if engine == "vllm" else "count_iec"), none, None
    return KINDS.get(name, "any"), none or name == "nullable_str", None


def row(action: argparse.Action, engine: str) -> dict[str, Any]:
    """One option in the form of the table files."""
    out: dict[str, Any] = {"names": list(action.option_strings)}
    switch = type(action).__name__ in ("BooleanOptionalAction", "EnableDisableAction")
    nargs = 0 if switch else action.nargs
    if nargs is not None:
        out["nargs"] = nargs
    if nargs != 0:
        out["type"], none, record = kind_of(action.type, engine)
        if none:
            out["none"] = True
        if record:
            out["object"] = record
        choices = [c for c in action.choices or () if isinstance(c, (str, int, float))]
        if choices and out["type"] != "any":
            out["choices"] = choices
    if action.required:
        out["required"] = True
    if getattr(action, "deprecated", False) or type(action).__name__.startswith("Deprecated"):
        out["deprecated"] = "the engine calls it deprecated"
        if isinstance(getattr(action, "new_flag", None), str):
            out["replacement"] = action.new_flag  # type: ignore[attr-defined]
    return out


def attempt(parse: Callable[[list[str]], Any], arguments: list[str]) -> str | None:
    """What the parser says when it refuses a command line; None when it takes it."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            parse(arguments)
    except SystemExit as error:
        return None if error.code in (0, None) else said.getvalue()[-2000:]
    except Exception as error:  # noqa: BLE001 - whatever the engine raises is its answer
        return f"{type(error).__name__}: {error}"[:2000]
    return None


def main() -> None:
    asked = json.load(sys.stdin)
    engine = asked["engine"]
    parser = build(engine)
    module = importlib.import_module(engine)
    answer = {
        "version": str(getattr(module, "__version__", "")),
        "rows": [row(action, engine) for action in parser._actions if action.option_strings],
        "positional": any(not action.option_strings for action in parser._actions),
        "refused": attempt(parser.parse_args, list(asked["arguments"])),
    }
    sys.stdout.write("\n" + MARK + json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
