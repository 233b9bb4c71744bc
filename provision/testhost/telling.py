"""A demonstration as a run of its own: its parts are steps, the runs that it made belong to it, and it has a report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from provision.report import write
from provision.run import journal
from provision.run.errors import RunError


class Telling:
    """Its journal is no condition of the demonstration: where it cannot be written, there is no report."""

    def __init__(self, reason: str) -> None:
        self._journal: journal.Journal | None = None
        with suppress(RunError):
            self._journal = journal.Journal(journal.new_run_id())
            self._journal.begin(reason)
        self._before = len(journal.opened)

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs that it made, oldest first: another demonstration may make its own of the same reason meanwhile."""
        return tuple(journal.opened[self._before :])

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
        self.write("ran", runs=list(self.runs))
        self.write("end", exit=code, failed=[], changed=[])
        self._journal.close()
        write.tell(self._journal.run, say)
