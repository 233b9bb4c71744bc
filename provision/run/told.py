"""What the journal is told of pyinfra's own operations, and what pyinfra itself need not say."""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyinfra.api.host import Host
from pyinfra.api.state import BaseStateCallback, State

if TYPE_CHECKING:
    from provision.run.session import Session

QUICK_SECONDS = 0.5
"""An operation that took less only looked; its end is not worth a line on the disk."""


class Operations(BaseStateCallback):
    """Writes the beginning of every operation into the journal, and the end of one that took its time or failed."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._began: dict[tuple[str, str], float] = {}

    def operation_host_start(self, state: State, host: Host, op_hash: str) -> None:  # type: ignore[override]
        self._began[host.name, op_hash] = time.monotonic()
        self.session.tell_journal("operation", host=host.name, name=_name(state, op_hash))

    def operation_host_success(  # type: ignore[override]
        self, state: State, host: Host, op_hash: str, retry_count: int = 0
    ) -> None:
        self._ended(state, host, op_hash, "done")

    def operation_host_error(  # type: ignore[override]
        self, state: State, host: Host, op_hash: str, retry_count: int = 0, max_retries: int = 0
    ) -> None:
        self._ended(state, host, op_hash, "failed")

    def _ended(self, state: State, host: Host, op_hash: str, how: str) -> None:
        began = self._began.pop((host.name, op_hash), None)
        took = time.monotonic() - began if began is not None else 0.0
        if how == "failed" or took >= QUICK_SECONDS:
            facts = {"host": host.name, "name": _name(state, op_hash), "state": how}
            self.session.tell_journal("operation ended", seconds=round(took, 2), **facts)


def _name(state: State, op_hash: str) -> str:
    return ", ".join(sorted(state.get_op_meta(op_hash).names))


def quiet() -> None:
    """How many commands an operation sent before it failed says nothing here: why it failed is told by the run. Nor
    does a list of known hosts that is not there yet: each host is new then, and that is told."""
    logging.getLogger("pyinfra").addFilter(_says_something)


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """While hosts are connected: the run itself tells which machine is not reached, and why."""
    pyinfra = logging.getLogger("pyinfra")
    pyinfra.addFilter(_is_no_failure)
    try:
        yield
    finally:
        pyinfra.removeFilter(_is_no_failure)


_SAYS_NOTHING = re.compile(r"executed \d+ commands|Failed to load host keys from .*No such file")


def _says_something(record: logging.LogRecord) -> bool:
    return _SAYS_NOTHING.search(record.getMessage()) is None


def _is_no_failure(record: logging.LogRecord) -> bool:
    return record.levelno < logging.ERROR
