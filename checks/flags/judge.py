"""A command line against a table, as findings: one per check, all offenders of a check in it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from checks.flags import environment
from checks.flags.masks import secret
from checks.flags.names import Missing, corrected, explain
from checks.flags.read import Given, Reading, read
from checks.flags.rules import View, clashes
from checks.flags.table import Table
from checks.flags.values import BadValue, convert, fitting, near, object_problems
from checks.flags.words import Command
from checks.model import Finding, Status

MOST_TEXT = 400
"""Characters of one problem: names and values come from outside and may be of any length."""

EXPLAINED = 40
"""Unknown names that are looked up in other versions and compared with known spellings; the rest is counted."""

PLUGINS = {"--tool-call-parser": "--tool-parser-plugin", "--reasoning-parser": "--reasoning-parser-plugin"}


@dataclass
class Verdict:
    """Texts by check, worst first: what is wrong, what to do, and which words to blame."""

    wrong: dict[str, list[str]] = field(default_factory=dict)
    fixes: dict[str, list[str]] = field(default_factory=dict)
    warned: set[str] = field(default_factory=set)
    notes: dict[str, list[str]] = field(default_factory=dict)
    doubted: set[str] = field(default_factory=set)

    def doubt(self, check: str, text: str, fix: str) -> None:
        """It could not be looked at."""
        self.add(check, text, fix)
        self.doubted.add(check)

    def note(self, check: str, text: str) -> None:
        """Worth knowing and nothing wrong: it goes into the message of a check that passes."""
        self.notes.setdefault(check, []).append(text)

    def add(self, check: str, text: str, fix: str = "", *, warn: bool = False) -> None:
        if check not in self.wrong and warn:
            self.warned.add(check)
        if not warn:
            self.warned.discard(check)
        self.wrong.setdefault(check, []).append(text[:MOST_TEXT])
        if fix:
            self.fixes.setdefault(check, []).append(fix[:MOST_TEXT])


CHECKS: Mapping[str, str] = {
    "flags.program": "the line starts the engine it is judged for",
    "flags.unknown": "every option is known",
    "flags.renamed": "no option has been renamed",
    "flags.removed": "no option has been removed",
    "flags.deprecated": "no option is on its way out",
    "flags.abbreviated": "no option is shortened beyond recognition",
    "flags.arity": "every option has as many values as it takes",
    "flags.value": "every value is of its option's type",
    "flags.choice": "every value is one that its option takes",
    "flags.json": "JSON values have known keys and fitting values",
    "flags.conflict": "no two settings exclude or undo each other",
    "flags.repeated": "no option is given twice",
    "flags.env": "every engine variable is read by this version",
    "flags.config": "no option hides in a file",
    "flags.secret": "no secret stands on the command line",
}
"""The checks in the order of the report, with what holds when one passes."""


@dataclass(frozen=True)
class Judged:
    """Findings in the order of CHECKS, the corrected command where only names were wrong, and what judged."""

    findings: tuple[Finding, ...]
    corrected: str | None = None
    by: str = ""


def judge(table: Table, command: Command, *, config_read: bool = False) -> Judged:
    """Every check of a command line. ``config_read``: whoever gave the table has read ``--config``."""
    if command.program not in (None, table.engine):
        return _other(table, command)
    reading = read(table, command.arguments)
    verdict = Verdict()
    once = [one for one in reading.ambiguous if table.history.seen("flags", one[0])]
    unknown = [*reading.unknown, *((name, words) for name, words, _ in once)]
    missing = [explain(table, name, words) for name, words in unknown[:EXPLAINED]]
    unexplained = unknown[EXPLAINED:]
    _program(table, command, reading, verdict)
    _names(table, reading, missing, verdict)
    for name, _ in unexplained:
        verdict.add("unknown", f"{name[:60]} is not known")
    objects = _values(table, reading, verdict)
    for clash in clashes(View(table, reading, objects, command.environment)):
        verdict.add(clash.check, f"{clash.message} ({clash.source})", clash.fix, warn=clash.status == "warn")
    idle = environment.problems(table, command.environment)
    for problem in idle:
        verdict.add("env", problem.message, problem.fix, warn=not problem.stops)
    for one in reading.given:
        if secret(one.option.name) and one.values:
            advice = "give it by environment or configuration file"
            verdict.add(
                "secret",
                f"the value of {one.option.name} is visible to every user in /proc",
                advice,
                warn=True,
            )
    config = reading.values_of("--config")
    if config and not config_read:
        text = f"the options in the file of --config ({config[0][:80]}) are not judged by a table"
        verdict.doubt("config", text, "ask the installed parser with --python, or give its options here")
    findings = tuple(_finding(table, check, verdict) for check in CHECKS)
    return Judged(findings, corrected(command, missing, {problem.name for problem in idle}))


def _other(table: Table, command: Command) -> Judged:
    """Another engine's line has options of its own: to tell them as this one's mistakes would lead astray."""
    verdict = Verdict()
    verdict.add(
        "program",
        f"the line starts {command.program}, and it was to be judged as {table.engine}; nothing else of it was judged",
        f"give --engine {command.program}==VERSION, or the line of {table.engine}",
    )
    skipped = f"{table.shown}: not judged, the line is another engine's"
    findings = tuple(
        _finding(table, check, verdict)
        if check == "flags.program"
        else Finding(check, Status.SKIP, "engine", skipped, owner="user")
        for check in CHECKS
    )
    return Judged(findings)


def _finding(table: Table, check: str, verdict: Verdict) -> Finding:
    name = check.partition(".")[2]
    texts = verdict.wrong.get(name)
    if not texts:
        said = "; ".join(verdict.notes.get(name, [])[:20]) or CHECKS[check]
        return Finding(check, Status.PASS, "engine", f"{table.shown}: {said}", owner="user")
    status = Status.WARN if name in verdict.warned else Status.FAIL
    status = Status.UNKNOWN if name in verdict.doubted else status
    shown = texts[:20] + ([f"and {len(texts) - 20} more"] if len(texts) > 20 else [])
    return Finding(
        check,
        status,
        "engine",
        f"{table.shown}: " + "; ".join(shown),
        value=len(texts),
        limit=0,
        fix="; ".join(dict.fromkeys(verdict.fixes.get(name, [])[:20])) or None,
        owner="user",
    )


def _program(table: Table, command: Command, reading: Reading, verdict: Verdict) -> None:
    module = command.shown[-1] if command.shown else ""
    positional = table.positional and module != "sglang.launch_server"
    if module.endswith(("openai.api_server", "api_server.entry")) and reading.positionals:
        text = f"{module} reads the word {reading.positionals[0][:60]!r} and serves its default model instead"
        verdict.add("program", text, "write --model before it, or start it with vllm serve")
    allowed = 1 if positional else 0
    strays = reading.positionals[allowed:]
    if strays:
        where = "one word besides options is the model" if allowed else "it takes no word outside options"
        verdict.add(
            "program",
            f"no option takes {', '.join(repr(s[:40]) for s in strays[:5])}; {where}",
            "quote values with spaces, or name the option they belong to",
        )
    required = {o.name: o for o in table.options.values() if o.required}
    for name, option in required.items():
        has_model = positional and reading.positionals and name == "--model-path"
        if not reading.has(*option.names) and not has_model:
            verdict.add("program", f"{name} is required and missing", f"add {name}")


def _names(table: Table, reading: Reading, missing: list[Missing], verdict: Verdict) -> None:
    for one in missing:
        verdict.add(one.check, one.message, one.fix)
    for name, _, several in reading.ambiguous:
        if not table.history.seen("flags", name):
            verdict.add(
                "abbreviated", f"{name} fits {several}; which one cannot be known", "write it in full"
            )
    for short, full in reading.abbreviated:
        seen_before = table.history.seen("flags", short)
        if seen_before:
            text = f"{short} was an option of its own until {seen_before[1]} and now silently means {full}"
            verdict.add("abbreviated", text, f"write {full} if that is meant", warn=True)
        else:
            verdict.note("abbreviated", f"{short} is taken as {full} as long as no other option starts so")
    for text in reading.malformed:
        verdict.add("arity", text, "give the value after the option, as one word")
    seen: dict[str, Given] = {}
    for given in reading.given:
        option = given.option
        if option.stops:
            verdict.add(
                "removed", f"{option.name} stops the start: {option.deprecated}", _instead(option.replacement)
            )
        elif option.deprecated is not None:
            text = option.deprecated.rstrip(".") or "the engine warns at start"
            verdict.add("deprecated", f"{given.spelled}: {text}", _instead(option.replacement), warn=True)
        if option.name in seen and not given.path and seen[option.name].values != given.values:
            verdict.add(
                "repeated", f"{option.name} is given twice and the last one holds", "keep one", warn=True
            )
        if not given.path:
            seen[option.name] = given


def _instead(replacement: str | None) -> str:
    return f"use {replacement}" if replacement else "drop it"


def _values(table: Table, reading: Reading, verdict: Verdict) -> Mapping[str, Mapping[str, Any]]:
    """Judges every value; returns the JSON options with their keys merged."""
    objects: dict[str, tuple[Given, Any]] = {}
    for given in reading.given:
        if given.path:
            _put(objects, given)
            continue
        for text in given.values:
            try:
                value = convert(given.option, text)
            except BadValue as error:
                hidden = secret(given.option.name)
                check = "choice" if given.option.choices and "none of" in str(error) else "value"
                check = "json" if given.option.type.startswith("json") else check
                said = f"{given.spelled} {'has no fitting value' if hidden else error}"
                verdict.add(check, said, fitting(given.option, given.spelled, check))
                continue
            if given.option.object or given.option.type == "json":
                objects[given.option.name] = (given, value)
            _known(reading, given, text, verdict)
    for given, value in objects.values():
        if given.option.object and value is not None:
            _object(table, given, value, verdict)
    return {name: _undashed(value) for name, (_, value) in objects.items() if isinstance(value, dict)}


def _undashed(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {key.replace("-", "_"): value for key, value in spec.items()}


def _put(objects: dict[str, tuple[Given, Any]], given: Given) -> None:
    """A dotted key into the object of its option, as vLLM merges them into one JSON value."""
    from checks.flags.values import dotted_value

    holder = objects.setdefault(given.option.name, (given, {}))[1]
    *path, last = [part for part in given.path if part != "+"]
    for part in path:
        holder = holder.setdefault(part, {}) if isinstance(holder, dict) else {}
    if isinstance(holder, dict):
        text = given.values[0]
        holder[last] = text.split(",") if given.path[-1] == "+" else dotted_value(text)


def _known(reading: Reading, given: Given, text: str, verdict: Verdict) -> None:
    """Names that the engine looks up after parsing: only a plug-in could add others."""
    known = given.option.known
    plugin = PLUGINS.get(given.option.name)
    if not known or not text or (plugin and reading.has(plugin)):
        return
    if text not in known and text.upper() not in known:
        close = near(text, list(known))
        verdict.add(
            "choice",
            f"{given.spelled} {text[:60]!r} is no built-in name and no plug-in is given",
            f"use {close}"
            if close
            else f"use one of {', '.join(known[:12])}{' …' if len(known) > 12 else ''}",
        )


def _object(table: Table, given: Given, value: Any, verdict: Verdict) -> None:
    record = given.option.object or ""
    if isinstance(value, dict) and given.option.dashed:
        value = _undashed(value)
    keys = table.objects.get(record, {})
    for kind, text in object_problems(record, value, table.objects)[:EXPLAINED]:
        if kind == "value":
            verdict.add("json", f"{given.spelled}: {text}")
            continue
        held = table.history.objects_with(record, text) if "." not in text else None
        close = near(text, [key for key, entry in keys.items() if not entry.get("internal")])
        when = f", it was there in {held[0]} to {held[1]}" if held else ""
        verdict.add(
            "json",
            f"{given.spelled} has the key {text[:60]!r}, which {table.shown} does not know{when}",
            f"write {close}" if close else f"drop {text[:60]}",
        )
