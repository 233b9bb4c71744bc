"""From the words of the caller to the report: which knowledge of the version to use, and how far it carries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from checks.flags.judge import judge
from checks.flags.table import Table, history, nearest, parse_engine
from checks.flags.words import Command, split_command
from checks.model import Finding, Report, Status


def report(
    engine: str,
    words: Sequence[str],
    *,
    parser: str = "auto",
    python: str | None = None,
    deadline: float = 120.0,
) -> Report:
    """The report of ``provcheck flags``. Raises BadEngine and BadCommandLine."""
    name, version = parse_engine(engine)
    command = split_command(words)
    findings, corrected, facts = by_table(name, version, command)
    del parser, python, deadline
    if corrected:
        facts["corrected"] = corrected
    return Report("flags", tuple(findings), facts={"engine": f"{name}=={version}", **facts})


def by_table(
    name: str, version: str, command: Command
) -> tuple[list[Finding], str | None, dict[str, object]]:
    """Judged by the table of released wheels; by both neighbours when that version was not read itself."""
    known = history(name)
    below, above = nearest(known, version)
    if below == above and below is not None:
        table = known.table(below)
        findings, corrected = judge(table, command)
        source = Finding(
            "flags.parser", Status.PASS, "engine", f"judged by the sources of {table.source}", owner="user"
        )
        return [source, *findings], corrected, {"judged_by": table.source}
    tables = [known.table(v) for v in dict.fromkeys((below, above)) if v is not None]
    results = [judge(replace(table, version=table.version), command) for table in tables]
    findings = _agreed([found for found, _ in results], tables, outside=len(tables) < 2)
    span = " and ".join(table.version for table in tables)
    status = Status.WARN if len(tables) == 2 else Status.UNKNOWN
    source = Finding(
        "flags.parser",
        status,
        "engine",
        f"{name} {version} was not read; judged by {span}"
        + ("" if len(tables) == 2 else ", which lies outside of what was read: nothing here is certain"),
        fix=f"run scripts/make-flag-tables {name}=={version}, or give --python of an environment that has it",
        owner="user",
    )
    return [source, *findings], results[0][1], {"judged_by": span}


def _agreed(results: list[list[Finding]], tables: list[Table], *, outside: bool) -> list[Finding]:
    """Per check what the neighbours agree on; where they differ, or beyond the last one, a failure is unknown."""
    out: list[Finding] = []
    for group in zip(*results, strict=True):
        worst = next((f for f in group if f.status is Status.FAIL), group[0])
        if worst.status is Status.FAIL and (outside or any(f.status is not Status.FAIL for f in group)):
            note = (
                "; it may differ in the version asked for" if outside else "; the next version read differs"
            )
            worst = replace(worst, status=Status.UNKNOWN, message=worst.message + note)
        out.append(worst)
    del tables
    return out
