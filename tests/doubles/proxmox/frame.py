"""What the doubles of Proxmox VE's programs have in common.

A double answers what it was given, in the program's words and with its exit codes, and exits 99 on anything else. It
writes down what it was asked; ``python3 frame.py never STATE`` lists the answers that nobody asked for.

Each program is one executable beside this file::

    tool = Tool("qm")

    @tool.answers("status ID")
    def status(state, id): ...

    tool.main()

Words in capitals match any word, ``...`` at the end any number of further ones; the function gets the state and the
words that were matched. It prints what the program prints and raises Ended to end with another code than 0.

The state is the folder that $KPRO_PROXMOX_DOUBLE names, or else the file ``state`` beside the programs (install
writes it: a program that comes through ssh has no environment of ours). ``STATE/pve`` stands for /etc/pve, and may be a
link to it.
"""

# ruff: noqa: T201 - a program speaks on its standard output
from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TOOLS = ("pct", "qm", "pvesh", "proxmox-boot-tool")
VARIABLE = "KPRO_PROXMOX_DOUBLE"
NOT_GIVEN = 99

Answer = Callable[..., None]


class Ended(Exception):
    """The program ends with this code; the text goes to standard error."""

    def __init__(self, code: int, text: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class State:
    """The folder that holds what the doubles know: ``node`` (the node's name), ``pve/`` and what each tool keeps."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def found(cls) -> State:
        named = os.environ.get(VARIABLE)
        if not named and (HERE / "state").is_file():
            named = (HERE / "state").read_text().strip()
        if not named or not Path(named).is_dir():
            raise Ended(NOT_GIVEN, f"{VARIABLE} names no folder: {named!r}")
        return cls(Path(named))

    @property
    def node(self) -> str:
        return self.text("node", "pve").strip()

    @property
    def pve(self) -> Path:
        return self.folder / "pve"

    def text(self, name: str, default: str = "") -> str:
        path = self.folder / name
        return path.read_text() if path.exists() else default

    def put(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def log(self, tool: str, words: list[str], pattern: str | None, code: int) -> None:
        line = json.dumps({"tool": tool, "words": words, "pattern": pattern, "code": code})
        with (self.folder / "log").open("a") as file:
            file.write(line + "\n")

    def asked(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text("log").splitlines()]


class Tool:
    """One program. ``answers`` gives it a form of its command line."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._given: dict[str, Answer] = {}

    def answers(self, pattern: str) -> Callable[[Answer], Answer]:
        def give(answer: Answer) -> Answer:
            self._given[pattern] = answer
            return answer

        return give

    def main(self, words: list[str] | None = None) -> None:
        """Answers the command line and ends the process."""
        words = sys.argv[1:] if words is None else words
        if words == ["--double-answers"]:
            print("\n".join(self._given))
            return
        code, pattern = NOT_GIVEN, None
        state = None
        try:
            state = State.found()
            pattern = next((given for given in self._given if _matches(given, words) is not None), None)
            if pattern is None:
                raise Ended(NOT_GIVEN, f"{self.name}: the double was not given this: {' '.join(words)}")
            self._given[pattern](state, *(_matches(pattern, words) or []))
            code = 0
        except Ended as ended:
            code = ended.code
            if ended.text:
                sys.stdout.flush()
                print(ended.text, file=sys.stderr)
        finally:
            if state is not None:
                state.log(self.name, words, pattern, code)
        sys.stdout.flush()
        sys.exit(code)


def _matches(pattern: str, words: list[str]) -> list[str] | None:
    """The words that stand where the pattern has capitals or dots; None when it is another command."""
    wanted = pattern.split()
    rest = wanted[-1:] == ["..."]
    if rest:
        wanted.pop()
    if len(words) < len(wanted) or (len(words) > len(wanted) and not rest):
        return None
    pairs = list(zip(wanted, words, strict=False))
    if any(form != word for form, word in pairs if not form.isupper()):
        return None
    return [word for form, word in pairs if form.isupper()] + (words[len(wanted) :] if rest else [])


def install(folder: Path, state: Path, tools: tuple[str, ...] = TOOLS) -> None:
    """Puts the programs into a folder for PATH, with their state. Tools that are not written yet are left out."""
    folder.mkdir(parents=True, exist_ok=True)
    (state / "pve/lxc").mkdir(parents=True, exist_ok=True)
    for source in [*HERE.glob("*.py"), *(HERE / tool for tool in tools)]:
        if source.exists():
            shutil.copy(source, folder / source.name)
    (folder / "state").write_text(f"{state}\n")


def never_asked(state: State, folder: Path = HERE) -> list[str]:
    """Every form that a double was given and was not asked in, as ``tool pattern``."""
    import subprocess

    asked = {(entry["tool"], entry["pattern"]) for entry in state.asked()}
    found = []
    for tool in TOOLS:
        if (folder / tool).exists():
            words = [sys.executable, str(folder / tool), "--double-answers"]
            listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
            found += [f"{tool} {form}" for form in listed.splitlines() if (tool, form) not in asked]
    return found


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] != "never":
        sys.exit("usage: frame.py never STATE")
    print("\n".join(never_asked(State(Path(sys.argv[2])))))
