"""Writes the report of a run beside its journal. What keeps it from being written is said, and fails nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from checks.errors import BadInput
from checks.files import write_whole
from provision import __version__
from provision.report import entries
from provision.report.document import Look, Report
from provision.report.gates import Key, seen_last
from provision.report.told import report
from provision.run import journal

HTML, JSON = "report.html", "report.json"
_SIZE_LIMIT = 32 << 20
_EARLIER = 20
"""Runs before this one in which the former verdicts of its gates are looked for."""


def tell(run: str, say: Callable[[str], None]) -> None:
    """``report.html`` and ``report.json`` in the folder of the run, and one line that says where. Raises nothing."""
    try:
        say(f"report: {write(run)}")
    except BadInput as error:
        say(f"the report of this run could not be written: {error}. The run itself is not touched by that")
    except Exception as error:  # noqa: BLE001 - a report is told of a run that is over: it must not change its end
        say(
            f"the report of this run could not be made ({type(error).__name__}: {error}); its journal is whole: "
            f"provision runs {run}"
        )


def write(run: str) -> Path:
    """Makes both files anew, each whole or not at all, 0600. Gives the page's path. Raises NotWritten, OSError."""
    told = read(run)
    folder = journal.runs_folder() / run
    write_whole(folder / JSON, document(told), mode=0o600)
    write_whole(folder / HTML, page(told), mode=0o600)
    return folder / HTML


def write_page(run: str, path: Path) -> None:
    """The page alone, into another file. Raises NotWritten, OSError."""
    write_whole(path, page(read(run)), mode=0o600)


def page(told: Report) -> bytes:
    from provision.report.page import html

    return html(told).encode()


def document(told: Report) -> bytes:
    return (json.dumps(told.as_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def read(run: str) -> Report:
    """The report of a run from what its journal holds now. Raises OSError where there is none."""
    own = _journal(run)
    others = [
        _journal(name)
        for event in entries.of(own.events, "ran")
        for name in entries.texts(event, "runs")
        if journal.is_run_id(name) and name != run and _path(name).is_file()
    ]
    return report(own, others, _earlier([own, *others]), __version__)


def _path(run: str) -> Path:
    return journal.runs_folder() / run / "journal.jsonl"


def _journal(run: str) -> entries.Journal:
    with _path(run).open("rb") as file:
        raw = file.read(_SIZE_LIMIT + 1)
    found = entries.read(run, raw[:_SIZE_LIMIT])
    if len(raw) <= _SIZE_LIMIT:
        return found
    more = f"only the first {_SIZE_LIMIT >> 20} MiB of it are told"
    return entries.Journal(run, found.events, (*found.lost, more))


def _earlier(told: list[entries.Journal]) -> dict[Key, Look]:
    """What the gates of these runs said before the first of them began."""
    if not any(entries.of(one.events, "gate", "checked") for one in told):
        return {}
    first = min(one.run for one in told)
    names = sorted(
        path.name
        for path in journal.runs_folder().iterdir()
        if journal.is_run_id(path.name) and path.name < first and _path(path.name).is_file()
    )
    return seen_last([_journal(name) for name in names[-_EARLIER:]])
