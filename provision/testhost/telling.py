"""A demonstration as a run of its own: its parts are steps, the runs that it made belong to it, and it has a report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from provision.report import write
from provision.run import journal
from provision.run.errors import RunError


class Telling:
    """Its journal is no condition of the demonstration: where it cannot be written, there is no report."""

    def __init__(self, reason: str, made_by: Sequence[str]) -> None:
        """``made_by``: the reasons of the runs that belong to it, as their journals have them."""
        self._before = _runs()
        self._made_by = frozenset(made_by)
        self._journal: journal.Journal | None = None
        with suppress(RunError):
            self._journal = journal.Journal(journal.new_run_id())
            self._journal.begin(reason)

    def write(self, event: str, **facts: Any) -> None:
        with suppress(RunError):
            if self._journal is not None:
                self._journal.write(event, **facts)

    @contextmanager
    def step(self, title: str) -> Iterator[dict[str, str]]:
        """One part; what is put into the mapping (``text``, ``why``, ``state``) is told at its end."""
        self.write("step", step=title, state="begin")
        began, said = time.monotonic(), {"state": "done"}
        try:
            yield said
        except BaseException as error:
            said |= {"state": "failed", "why": str(error) or type(error).__name__}
            raise
        finally:
            self.write("step", step=title, seconds=round(time.monotonic() - began, 2), **said)

    def end(self, code: int, say: Callable[[str], None]) -> None:
        """Closes the journal and writes the report."""
        if self._journal is None:
            return
        made = [run for run in sorted(_runs() - self._before - {self._journal.run}) if self._is_ours(run)]
        self.write("ran", runs=made)
        self.write("end", exit=code, failed=[], changed=[])
        self._journal.close()
        write.tell(self._journal.run, say)

    def _is_ours(self, run: str) -> bool:
        with suppress(OSError):
            first = next(iter(journal.read(run)), {})
            return first.get("reason") in self._made_by
        return False


def _runs() -> set[str]:
    folder = journal.runs_folder()
    try:
        return {path.name for path in folder.iterdir() if journal.is_run_id(path.name)}
    except OSError:
        return set()
