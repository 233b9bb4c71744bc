"""From the words of the caller to the report: which knowledge of the version to use, how far it carries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from checks.asking import all_of
from checks.errors import BadInput
from checks.flags import installed
from checks.flags.judge import Judged, judge
from checks.flags.masks import masked
from checks.flags.table import History, Option, history, nearest, parse_engine
from checks.flags.words import Command, split_command
from checks.model import Finding, Report, Status


def report(
    engine: str,
    words: Sequence[str],
    *,
    parser: str = "auto",
    python: str | None = None,
    deadline: float = 120.0,
    built: bool = False,
) -> Report:
    """The report of ``provcheck flags``. ``deadline`` in seconds; ``built``: the environment was built from sources,
    and its version need not be that of ``engine``. Raises BadInput."""
    with all_of() as ask:
        named = ask(parse_engine, engine)
        split = ask(split_command, words)
    assert named is not None
    assert split is not None
    (name, version), command = named, split
    known = history(name)
    judged = None
    notes: list[Finding] = []
    if parser != "table":
        judged, notes = _by_parser(known, version, command, parser, python, deadline, built)
    judged = judged or by_table(known, version, command)
    facts: dict[str, object] = {"engine": f"{name}=={version}", "judged_by": judged.by}
    if judged.corrected:
        facts["corrected"] = judged.corrected
    return Report("flags", (*notes, *judged.findings), facts=facts)


def _by_parser(
    known: History,
    version: str,
    command: Command,
    parser: str,
    python: str | None,
    deadline: float,
    built: bool,
) -> tuple[Judged | None, list[Finding]]:
    """Judged by the installed parser; (None, why not) when it cannot be asked."""
    chosen = python or installed.find_python(known.engine, version)
    if chosen is None:
        if parser == "installed":
            raise BadInput(
                f"no environment here has {known.engine} {version}; name its interpreter with --python"
            )
        return None, []
    try:
        answer = installed.ask(known.engine, chosen, command.arguments, deadline)
    except installed.NoAnswer as error:
        fix = "the table of released wheels was used instead; raise --deadline, or mend that environment"
        return None, [_source(Status.WARN, f"{error}", fix, "flags.installed")]
    if built:
        return by_parser(known, version, command, answer, exact=answer.version == version), []
    if answer.version and answer.version != version:
        raise BadInput(
            f"--engine asks for {known.engine} {version} and {chosen} has {answer.version}; "
            f"give --engine {known.engine}=={answer.version}, or --parser table"
        )
    return by_parser(known, version, command, answer), []


def by_parser(
    known: History, version: str, command: Command, answer: installed.Answer, *, exact: bool = True
) -> Judged:
    """Names and values by the real parser; JSON keys and variables by the table of the same version. Not ``exact``: the
    parser is of another version, and the table says nothing of its options."""
    below, above = nearest(known, version)
    base = known.table(str(above or below))
    exact = exact and below == above
    options = {
        name: _completed(option, base.options.get(name) if exact else None)
        for name, option in answer.options.items()
    }
    table = replace(
        base,
        version=version,
        options=options,
        positional=answer.positional or (base.positional and exact),
        objects=base.objects if exact else {},
        environment=base.environment,
        source=f"the parser installed with {answer.python}",
    )
    judged = judge(table, command, config_read=True)
    if answer.refused is None:
        source = _source(Status.PASS, f"{table.shown}: {table.source} takes the line")
    else:
        said = " ".join(masked(command, answer.refused).split("error:")[-1].split())[:400]
        source = _source(
            Status.FAIL, f"{table.shown}: {table.source} refuses the line: {said}", "see the other findings"
        )
    return replace(judged, findings=(source, *judged.findings), by=table.source)


def _completed(real: Option, read: Option | None) -> Option:
    """What the sources tell beyond the parser: records of JSON, built-in names, kinds that a lambda hides."""
    if read is None:
        return real
    if real.type == "any":
        real = replace(real, type=read.type, choices=read.choices)
    return replace(real, object=real.object or read.object, known=read.known, dashed=read.dashed)


def by_table(known: History, version: str, command: Command) -> Judged:
    """Judged by the table of released wheels; by both neighbours when that version was not read itself."""
    below, above = nearest(known, version)
    if below == above and below is not None:
        table = known.table(below)
        judged = judge(table, command)
        source = _source(Status.PASS, f"judged by the sources of {table.source}")
        return replace(judged, findings=(source, *judged.findings), by=table.source)
    tables = [known.table(v) for v in (below, above) if v is not None]
    results = [judge(table, command) for table in tables]
    span = " and ".join(table.version for table in tables)
    between = len(tables) == 2
    source = _source(
        Status.WARN if between else Status.UNKNOWN,
        f"{known.engine} {version} was not read; judged by {span}"
        + ("" if between else ", beyond which nothing was read: nothing here is certain"),
        f"run scripts/make-flag-tables {known.engine}=={version}, or give --python of an environment with it",
    )
    findings = _agreed([result.findings for result in results], outside=not between)
    return replace(results[-1], findings=(source, *findings), by=span)


def _agreed(results: list[tuple[Finding, ...]], *, outside: bool) -> list[Finding]:
    """What the neighbours agree on; where they differ, or beyond the last one, a failure is unknown."""
    out: list[Finding] = []
    for group in zip(*results, strict=True):
        worst = next((f for f in group if f.status is Status.FAIL), group[-1])
        if worst.status is Status.FAIL and (outside or any(f.status is not Status.FAIL for f in group)):
            note = (
                "; it may differ in the version asked for"
                if outside
                else "; the neighbouring version differs"
            )
            worst = replace(worst, status=Status.UNKNOWN, message=worst.message + note)
        out.append(worst)
    return out


def _source(status: Status, message: str, fix: str | None = None, check: str = "flags.parser") -> Finding:
    return Finding(check, status, "engine", message, fix=fix, owner="user")
