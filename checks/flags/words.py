"""A pasted command line, taken apart: environment, program, arguments. Nothing is run or expanded."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from checks.errors import BadInput

MAX_WORDS = 4096
MAX_BYTES = 1 << 20

ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
WRAPPERS = {"env", "exec", "nohup", "command"}
MODULES = {
    "vllm.entrypoints.openai.api_server": "vllm",
    "vllm.entrypoints.launchers.api_server.entry": "vllm",
    "vllm.entrypoints.cli.main": "vllm",
    "sglang.launch_server": "sglang",
    "sglang.cli.main": "sglang",
}
"""Modules that start a server, by engine (``__main__`` blocks and console scripts of both wheels)."""
CONTAINERS = {"docker", "podman", "kubectl", "ssh"}


class BadCommandLine(BadInput):
    """The words are no command line of an engine; the text says what was seen and what to give."""


@dataclass(frozen=True)
class Command:
    """``program``: the engine that the words name (None: arguments only); ``shown``: how they name it."""

    environment: Mapping[str, str]
    program: str | None
    shown: tuple[str, ...]
    arguments: tuple[str, ...]


def split_command(words: Sequence[str]) -> Command:
    """Words after ``--`` to a Command; one quoted word is split as a shell would. Raises BadCommandLine."""
    if (
        sum(len(word.encode("utf-8", "surrogatepass")) for word in words) > MAX_BYTES
        or len(words) > MAX_WORDS
    ):
        raise BadCommandLine(
            f"the command line is over {MAX_WORDS} words or {MAX_BYTES} bytes; no engine takes that"
        )
    if len(words) == 1 and re.search(r"\s", words[0]):
        try:
            words = shlex.split(words[0].replace("\\\n", " "))
        except ValueError as error:
            raise BadCommandLine(f"the quoted command cannot be split ({error}); check its quotes") from None
    if not words:
        raise BadCommandLine(
            "no command line was given; put it after --, for example: -- vllm serve MODEL --port 8000"
        )
    rest, environment = list(words), dict[str, str]()
    while rest and (rest[0] in WRAPPERS or ASSIGNMENT.match(rest[0])):
        word = rest.pop(0)
        if word not in WRAPPERS:
            name, _, value = word.partition("=")
            environment[name] = value
    program, shown = _program(rest)
    return Command(environment, program, tuple(shown), tuple(rest[len(shown) :]))


def _program(words: list[str]) -> tuple[str | None, list[str]]:
    """The engine and the words that name it; (None, []) when the line starts with arguments."""
    if not words or words[0].startswith("-"):
        return None, []
    name = PurePosixPath(words[0]).name
    if name in CONTAINERS:
        raise BadCommandLine(
            f"the line starts with {name}, whose options are not judged; give the part from vllm or sglang on"
        )
    if name in ("vllm", "sglang"):
        verb = words[1] if len(words) > 1 else ""
        if verb != "serve":
            raise BadCommandLine(f"'{name} {verb[:40]}' is not a server start; only '{name} serve' is judged")
        return name, words[:2]
    if re.fullmatch(r"python(3(\.\d+)?)?", name):
        return _module(words)
    return None, []


def _module(words: list[str]) -> tuple[str | None, list[str]]:
    at = next((i for i, word in enumerate(words[:-1]) if word == "-m"), None)
    module = words[at + 1] if at is not None else ""
    if at is None or module not in MODULES:
        raise BadCommandLine(
            f"{' '.join(words[:3])} starts no known server; give vllm serve, sglang serve or python -m "
            + " or ".join(sorted(MODULES)[:3])
        )
    end = at + 2
    if module.endswith("cli.main"):
        if words[end : end + 1] != ["serve"]:
            raise BadCommandLine(f"{module} without 'serve' is not a server start; flags judges 'serve' only")
        end += 1
    return MODULES[module], words[:end]
