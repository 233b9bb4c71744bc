"""Texts of a recorded tree that are no output of a look, but what a program complained of. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from checks.data.symptoms import explain
from checks.gpus.texts import topology
from provision.inspect import kernel_log, pairs
from provision.inspect.report import Finding
from provision.inspect.texts import Texts

_MEASURED = re.compile(r"^\s*Link \d+: ", re.MULTILINE)


def findings(texts: Texts) -> Iterator[Finding]:
    """The first row of the symptoms that a line fits; for measured texts, the command that judges them."""
    for output in texts.strange:
        if topology.recognises(output.text):
            yield from pairs.findings(output)
            continue
        if _MEASURED.search(output.text):
            yield Finding(
                "text.measured",
                "note",
                output.name,
                output.text.strip().splitlines()[0][:120],
                "how the GPUs are connected is judged by another command",
                f"provcheck gpus --replay .kpro/cmd/{output.name}.out",
            )
            continue
        told: set[str] = set()
        for line in output.text.splitlines():
            row = next(iter(explain(line)), None)
            if row is None or row.name in told:
                continue
            told.add(row.name)
            yield Finding(
                f"symptom.{row.name}",
                "problem",
                output.name,
                line.strip()[:300],
                row.cause,
                row.fix,
                row.source,
            )
        logged = kernel_log.told(output.text)
        yield from logged
        if not told and not logged:
            yield Finding(
                "text.unread",
                "note",
                output.name,
                output.text.strip().splitlines()[0][:120],
                "no known command prints this: nothing was concluded from it",
            )
